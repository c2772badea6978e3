"""The pages of mappings: preview, retried rows, list and removal."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from backhaul.app.mapping_actions import ROWS_AT_ONCE
from backhaul.store.mappings import MappingKind, NameMapping
from backhaul.store.records import ReasonClass
from dashboard.test_decisions import HOSTILE, fields
from dashboard.test_quarantine_filter import fail, links
from dashboard.test_quarantined_row import sell
from scenes.stored import lists, values_of

if TYPE_CHECKING:
    from scenes.dashboard import Browser, Office

GIVEN = {"store": "main", "kind": "sku", "alias": "LAMP-2", "name": "LAMP-02"}


async def preview(browser: Browser, **given: str) -> str:
    return await browser.read(f"/mappings/new?{urlencode({**GIVEN, **given})}")


def added(office: Office) -> list[str]:
    with lists(office.path) as reader:
        return [each.alias for each in reader.mappings(None, None, 99)]


def states(office: Office) -> list[str]:
    return sorted(values_of(office.path, "quarantine", "state"))


async def test_a_mapping_retries_the_rows_that_wait_for_it(office: Office) -> None:
    await sell(office, "LAMP-02")
    many = ROWS_AT_ONCE + 1
    for number in range(many):
        await fail(office, f"lamp{number}", "LAMP-2", ReasonClass.UNKNOWN_SKU)
    await fail(office, "mug", "MUG", ReasonClass.UNKNOWN_SKU)
    browser = await office.browser("otto")
    page = await preview(browser)
    assert f"{many} quarantined rows are retried now." in page
    answer = await browser.post("/mappings/add", **fields(page), reason="renamed")
    assert answer.status == 303
    assert states(office) == ["open", *["retried"] * many]
    page = await browser.read("/mappings")
    assert f"SKU LAMP-2 means LAMP-02. {many} rows are retried." in page
    first = ("otto", "mappings add", "main: SKU LAMP-2 means LAMP-02; renamed")
    assert first in office.audit()


async def test_only_rows_of_its_connection_are_retried(office: Office) -> None:
    await sell(office, "LAMP-02")
    await fail(office, "lamp", "LAMP-2", ReasonClass.UNKNOWN_SKU)
    browser = await office.browser("otto")
    page = await preview(browser, connection="courier")
    assert "No quarantined row is retried." in page
    sent = GIVEN | {"connection": "courier"}
    assert (await browser.post("/mappings/add", **sent)).status == 303
    assert states(office) == ["open"]


async def test_a_mapping_to_an_unknown_sku_is_refused_with_near_matches(
    office: Office,
) -> None:
    await sell(office, "LAMP-02")
    browser = await office.browser("otto")
    page = await preview(browser, name="LAMP-03")
    assert "has no SKU LAMP-03" in page
    assert "Add mapping" not in page
    again = await browser.read(links(page)["LAMP-02"])
    assert "Add mapping" in again
    answer = await browser.post("/mappings/add", **GIVEN | {"name": "LAMP-03"})
    text = html.unescape(await answer.text())
    assert answer.status == 422
    assert "Near matches: LAMP-02 (Lamp / S, 12 in stock)" in text
    assert added(office) == []


async def test_a_mapping_of_a_sku_of_the_store_is_refused(office: Office) -> None:
    await sell(office, "LAMP-02", "LAMP-2")
    browser = await office.browser("otto")
    assert "would have no effect" in await preview(browser)
    answer = await browser.post("/mappings/add", **GIVEN)
    assert (answer.status, added(office)) == (422, [])


async def test_a_group_of_rows_leads_to_the_mapping_of_its_sku(office: Office) -> None:
    await sell(office, "LAMP-02")
    for number in range(2):
        await fail(office, f"{number}", "LAMP 2&3", ReasonClass.UNKNOWN_SKU)
    await fail(office, "mug", "MUG", ReasonClass.VALUE)
    assert "Add a mapping" not in await (await office.browser("vera")).read(
        "/quarantine"
    )
    browser = await office.browser("otto")
    page = await browser.read("/quarantine")
    assert page.count("Add a mapping…") == 1
    page = await browser.read(links(page)["Add a mapping…"])
    assert 'name="alias" value="LAMP 2&amp;3"' in page


async def test_a_row_leads_to_the_mapping_of_its_sku(office: Office) -> None:
    await sell(office, "LAMP-02")
    await fail(office, "lamp", "LAMP-2", ReasonClass.UNKNOWN_SKU)
    browser = await office.browser("otto")
    assert "Remember as a mapping" in await browser.read("/quarantine/1")
    changes = {"field:sku": "LAMP-02", "field:delta": "1"}
    answer = await browser.post("/quarantine/1/remember", **changes)
    page = await browser.read(answer.headers["Location"])
    assert "SKU LAMP-2 means LAMP-02?" in page
    assert "1 quarantined row is retried now." in page
    same = {"field:sku": "LAMP-2", "field:delta": "1"}
    answer = await browser.post("/quarantine/1/remember", **same)
    page = await browser.read(answer.headers["Location"])
    assert 'name="alias" value="LAMP-2"' in page
    assert "LAMP-02" in links(page)  # near matches
    answer = await browser.post("/quarantine/1/remember", **{"field:delta": "2"})
    assert "only a SKU or a carrier" in await answer.text()


async def test_mappings_are_listed_searched_and_removed(office: Office) -> None:
    many = [NameMapping(MappingKind.SKU, f"A{n}", f"B{n}") for n in range(101)]
    await office.store.mappings.add("main", many, "otto", "")
    browser = await office.browser("otto")
    page = await browser.read("/mappings")
    assert ("A100" in page, "<b>A0</b>" in page) == (True, False)
    assert "<b>A0</b>" in await browser.read(links(page)["Next page"])
    page = await browser.read("/mappings?words=b77")
    assert ("A77" in page, "A78" in page) == (True, False)
    answer = await browser.post("/mappings/78/remove", store="main")
    assert answer.status == 303
    assert "No mapping matches" in await browser.read("/mappings?words=b77")
    assert ("otto", "mappings remove", "main: SKU A77 means B77") in office.audit()


async def test_nothing_that_a_mapping_holds_is_read_as_a_page(office: Office) -> None:
    hostile = NameMapping(MappingKind.CARRIER, HOSTILE, HOSTILE + "x", "courier")
    await office.store.mappings.add("main", [hostile], HOSTILE, "")
    browser = await office.browser("otto")
    for page in (
        await browser.read("/mappings"),
        await preview(browser, kind="carrier", alias=HOSTILE, name="DHL"),
    ):
        assert "alert(" in page
        assert "<script>" not in page
