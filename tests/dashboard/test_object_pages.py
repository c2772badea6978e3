"""The pages of orders, products, stock and customers, with their links."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.store.records import NewRecord, Unmatched
from dashboard.test_operator_actions import pages
from scenes import payloads
from scenes.damaged_rows import insert, overwrite
from scenes.databases import append_and_fold

if TYPE_CHECKING:
    from scenes.dashboard import Browser, Office

CUSTOMER = '<a href="/mirror/customer/main/cus_1">Asha</a>'


def order(number: int, **members: Any) -> bytes:
    return payloads.envelope(
        "orders/create",
        payloads.order(
            f"ord_{number}",
            number=number,
            name=f"#{number}",
            placedAt=payloads.instant(number),
            **members,
        ),
    )


@pytest.fixture
async def browser(office: Office) -> Browser:
    return await office.browser("vera")


async def test_an_order_is_listed_with_customer_states_and_total(
    office: Office, browser: Browser
) -> None:
    totals = {"subtotal": "1398.00", "total": "1398.00"}
    await append_and_fold(
        office.store, order(1, financialStatus="PAID", totals=totals), order(2)
    )
    await office.plan("ord_1")
    page = await browser.read("/orders")
    assert re.findall(r'class="row" href="(\S+)">(#\d)', page) == [
        (f"/mirror/order/main/ord_{number}", f"#{number}") for number in (2, 1)
    ]
    first = page.partition("#1</a>")[2]
    for shown in (CUSTOMER, ">paid<", ">unfulfilled<", "₹1,398.00", "1 command<"):
        assert shown in first
    waiting = await browser.read("/orders?tab=waiting")
    assert ("#1</a>" in waiting, "#2</a>" in waiting) == (True, False)


async def test_every_order_is_on_one_page_of_the_list(
    office: Office, browser: Browser
) -> None:
    await append_and_fold(office.store, *map(order, range(1, 121)))
    found = await pages(browser, "/orders?tab=unfulfilled", r'class="row"[^>]*>#(\d+)')
    assert [len(page) for page in found] == [50, 50, 20]
    shown = [int(number) for page in found for number in page]
    assert shown == list(range(120, 0, -1))
    assert "No order is listed here." in await browser.read("/orders?tab=fulfilled")
    assert (await browser.get("/orders?tab=odd&before=odd&store=none")).status == 200


async def test_an_order_shows_lines_parcels_commands_and_a_linked_history(
    office: Office, browser: Browser
) -> None:
    await append_and_fold(office.store, order(1, shipments=[payloads.shipment()]))
    command = await office.plan("ord_1", state="parked")
    page = await browser.read("/mirror/order/main/ord_1")
    for shown in (
        "₹2,998.00",
        CUSTOMER,
        "a@b.example",
        '<a href="/mirror/sku/main/var_1">LS-S</a>',
        "₹1,499.00",
        "<strong>BD1</strong> BlueDart",
        f'id="command-{command}"',
    ):
        assert shown in page
    history = page.partition("<h2>History</h2>")[2]
    links = re.findall(r'<p><a href="([^"]+)"><strong>([^<]+)', history)
    assert ("/events/1", "event 1") in links
    assert (f"/commands/{command[:8]}", "fulfill") in links
    assert ("/connectors#connector-courier", "record") in links
    headline = page.partition("<h2>Lines</h2>")[0]
    assert "{" not in headline.partition("<h1>")[2]  # no JSON


async def test_objects_that_an_entry_mentions_are_linked(
    office: Office, browser: Browser
) -> None:
    await append_and_fold(office.store, order(1))
    overwrite(office.path, "event_outcomes", {"state": "quarantined"})
    place = {"source": "event", "name": "main", "key": "1", "at": payloads.instant(1)}
    text = {"raw": b"", "reason": "status is null", "locator": ""}
    insert(office.path, "quarantine", **place, **text)
    page = await browser.read("/mirror/order/main/ord_1")
    assert '; <a href="/quarantine/1">Show quarantined row 1</a>' in page
    assert "; ;" not in page


async def test_an_order_says_which_of_its_records_is_in_quarantine(
    office: Office, browser: Browser
) -> None:
    await append_and_fold(office.store, order(1001))
    shipment = {"kind": "fulfill", "record": {"key": "box", "order": "1001"}}
    record = NewRecord("box", json.dumps(shipment).encode(), "raw", "", "box.csv:2")
    found = Unmatched("the SKU LAMP is not in it", final=True)
    await office.store.records.accept("erp", "main", [record], None, lambda *_: found)
    page = await browser.read("/mirror/order/main/ord_1001")
    headline = page.partition("<h2>Lines</h2>")[0]
    assert (
        "a shipment from erp (box.csv:2). Reason: the SKU LAMP is not in it" in headline
    )
    assert 'href="/quarantine/1">Show quarantined row 1</a>' in headline
    await office.store.quarantine.discard(1, "otto", "wrong box")
    assert "In quarantine" not in await browser.read("/mirror/order/main/ord_1001")


async def test_other_objects_show_their_headline_values(
    office: Office, browser: Browser
) -> None:
    customer = payloads.customer("cus_1", name="Asha")
    await append_and_fold(
        office.store,
        payloads.envelope("products/create", payloads.product()),
        payloads.envelope("customers/create", customer),
        order(1),
    )
    product = await browser.read("/mirror/product/main/prod_1")
    assert ">active<" in product
    assert '<dd class="headline">12</dd>' in product
    assert "₹1,499.00" in product
    variant = await browser.read("/mirror/sku/main/var_1")
    assert '<dd class="headline">12</dd>' in variant
    assert '<a href="/mirror/product/main/prod_1">Linen shirt</a>' in variant
    shown = await browser.read("/mirror/customer/main/cus_1")
    assert 'class="row" href="/mirror/order/main/ord_1">#1</a>' in shown
    listed = await browser.read("/products")
    assert 'href="/mirror/product/main/prod_1">Linen shirt</a>' in listed
    assert "₹1,499.00" in listed
    listed = await browser.read("/customers")
    assert 'href="/mirror/customer/main/cus_1">Asha</a>' in listed
    for page in (product, shown):
        assert "<summary>Full document (JSON)</summary>" in page


async def test_an_address_without_a_page_says_so_and_leads_on(browser: Browser) -> None:
    answer = await browser.get("/order/1001", headers={"Accept": "text/html,*/*"})
    page = await answer.text()
    assert (answer.status, "has no page /order/1001." in page) == (404, True)
    assert 'href="/orders"' in page
    for address in (
        "/order/1001",
        "/api/nothing",
        "/assets/nothing.css",
        "/backhaul/v1/nothing",
    ):
        answer = await browser.get(address)
        assert (answer.status, "<html" in await answer.text()) == (404, False)
