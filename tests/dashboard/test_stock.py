"""The page of stock: what its rows show, and where its links lead."""

from __future__ import annotations

import csv
import html
import json
import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from backhaul.admin.pages import stock
from backhaul.store.testing.command_scenes import adjusted, plan
from backhaul.store.testing.mirror_scenes import (
    show_level,
    show_order,
    show_product,
)
from backhaul.store.testing.target_scenes import count
from dashboard.test_quarantine_filter import links

if TYPE_CHECKING:
    import pytest

    from scenes.dashboard import Browser, Office

ROW = re.compile(r'class="row" href="/mirror/sku/main/(\w+)"')


async def listed(browser: Browser, address: str) -> list[str]:
    """Return the ids of the variants on a page."""
    return ROW.findall(await browser.read(address))


async def where(browser: Browser, text: str) -> list[str]:
    return await listed(browser, f"/stock?where={quote(text)}")


async def fill(office: Office) -> str:
    """Mirror three products, of which one is counted; return the count's command."""
    for number, units in ((1, 4), (2, 0), (3, 9)):
        await show_product(office.store, f"prod_{number}")
        await show_level(office.store, units, product=f"prod_{number}")
    return await count(office.store, 6, 10)


async def test_the_list_is_filtered_and_sorted(office: Office) -> None:
    await fill(office)
    browser = await office.browser("vera")
    assert await listed(browser, "/stock") == ["var_1", "var_2", "var_3"]
    found = links(await browser.read("/stock"))
    assert await listed(browser, found["lowest stock first"]) == [
        *("var_2", "var_1", "var_3")
    ]
    assert await listed(browser, found["out of stock"]) == ["var_2"]
    assert await listed(browser, found["Waiting 1"]) == ["var_1"]
    assert await where(browser, "sku=SKU-3") == ["var_3"]
    assert await where(browser, "connector=erp") == ["var_1"]
    page = await browser.read(f"/stock?where={quote('sku=NONE')}")
    assert "No SKU matches this filter." in page


async def test_a_row_links_the_count_and_the_source_of_the_change(
    office: Office,
) -> None:
    target = await fill(office)
    command = await adjusted(office.store, "adj_2")
    await show_level(office.store, 2, 2, adjustment="adj_2", delta=-2)
    browser = await office.browser("vera")
    page = await browser.read("/stock")
    assert f'href="/commands/{target}"' in page
    assert "counted 6 by erp" in page
    assert f'href="/commands/{command.id}"><small>file:' in page
    assert 'href="/connectors/books"' in page


async def test_the_rows_are_exported(office: Office) -> None:
    target = await fill(office)
    browser = await office.browser("vera")
    query = f"where={quote('sku=SKU-1')}"
    (row,) = json.loads(await browser.read(f"/stock.json?{query}"))
    assert (row["sku"], row["stock"], row["push"]) == ("SKU-1", 4, "waiting")
    assert row["command"] == target
    text = await browser.read("/stock.csv?sort=lowest")
    cells = list(csv.DictReader(text.splitlines()))
    assert [each["stock"] for each in cells] == ["0", "4", "9"]


async def test_a_page_ends_its_search_and_the_next_continues_it(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(office)
    monkeypatch.setattr(stock, "SCANNED", 1)
    browser = await office.browser("vera")
    address: str | None = f"/stock?where={quote('sku-3')}"
    seen: list[list[str]] = []
    while address is not None:
        page = await browser.read(address)
        seen.append(ROW.findall(page))
        found = re.search(r'href="([^"]+)" rel="next"', page)
        assert ("The search continues" in page) is (found is not None)
        address = html.unescape(found[1]) if found else None
    assert [each for each in seen if each] == [["var_3"]]
    assert len(seen) > 2


async def test_a_wrong_number_is_explained(office: Office) -> None:
    browser = await office.browser("vera")
    answer = await browser.get(f"/stock?where={quote('below=few')}")
    assert answer.status == 422
    text = html.unescape(await answer.text())
    assert "below cannot be 'few', at character 1; write a whole number" in text


async def test_orders_and_commands_link_the_stock_of_a_sku(office: Office) -> None:
    await fill(office)
    await show_order(office.store)
    payload = {"variant_id": "var_1", "delta": -2}
    command = await plan(office.store, "adjust", "prod_1", payload=payload)
    lines = [{"line_id": "li_1", "quantity": 1}]
    shipment = await plan(office.store, payload={"lines": lines})
    browser = await office.browser("vera")
    for address, sku in (
        ("/mirror/order/main/ord_1", "SKU"),
        (f"/commands/{command}", "SKU-1"),
        (f"/commands/{shipment}", "SKU"),
        ("/mirror/sku/main/var_1", "SKU-1"),
    ):
        page = html.unescape(await browser.read(address))
        path = f"/stock?where=store%3Dmain+sku%3D{sku}"
        assert f'href="{path}"' in page, address
    assert await listed(browser, "/stock?where=store%3Dmain+sku%3DSKU-1") == ["var_1"]


async def test_a_view_of_stock_is_saved(office: Office) -> None:
    browser = await office.browser("vera")
    form = {"where": "below=3", "name": "order soon", "sort": "lowest"}
    answer = await browser.post("/stock/views", **form)
    assert answer.headers["Location"] == "/stock?where=below%3D3&sort=lowest"
    found = links(await browser.read("/stock"))
    assert html.unescape(found["order soon"]) == answer.headers["Location"]
