"""Contract 3.2: every financial status against every trigger, over HTTP."""

from typing import Any

import pytest

from reference_contract.moves import cancel, placed, report, settle, shown
from scenes.reference_shop import Reply, Shop

# How an order comes to stand where a row of the table begins.
STARTS: dict[str, tuple[str, ...]] = {
    "PENDING": (),
    "PAID": ("mark-paid",),
    "REFUNDED": ("mark-paid", "refund"),
    "VOIDED": ("cancel",),
    "PAID-cancelled": ("mark-paid", "cancel"),
    "REFUNDED-cancelled": ("mark-paid", "cancel-refund"),
}
OK = (200, "")
TABLE: dict[tuple[str, str], tuple[int, str, str]] = {
    ("PENDING", "report"): (*OK, "PENDING"),
    ("PENDING", "mark-paid"): (*OK, "PAID"),
    ("PENDING", "cancel"): (*OK, "VOIDED"),
    ("PENDING", "cancel-refund"): (*OK, "VOIDED"),
    ("PENDING", "refund"): (409, "ORDER_NOT_PAID", "PENDING"),
    ("PAID", "report"): (409, "ORDER_ALREADY_PAID", "PAID"),
    ("PAID", "mark-paid"): (*OK, "PAID"),
    ("PAID", "cancel"): (*OK, "PAID"),
    ("PAID", "cancel-refund"): (*OK, "REFUNDED"),
    ("PAID", "refund"): (*OK, "REFUNDED"),
    ("REFUNDED", "report"): (409, "ORDER_ALREADY_PAID", "REFUNDED"),
    ("REFUNDED", "mark-paid"): (409, "PAYMENT_SETTLED", "REFUNDED"),
    ("REFUNDED", "refund"): (409, "PAYMENT_SETTLED", "REFUNDED"),
    # Terminal for the money alone: any order may be cancelled.
    ("REFUNDED", "cancel"): (*OK, "REFUNDED"),
    ("REFUNDED", "cancel-refund"): (*OK, "REFUNDED"),
    ("VOIDED", "report"): (409, "ORDER_CANCELLED", "VOIDED"),
    ("VOIDED", "mark-paid"): (409, "ORDER_CANCELLED", "VOIDED"),
    ("VOIDED", "refund"): (409, "PAYMENT_SETTLED", "VOIDED"),
    ("VOIDED", "cancel"): (*OK, "VOIDED"),
    ("VOIDED", "cancel-refund"): (409, "ORDER_ALREADY_CANCELLED", "VOIDED"),
    ("PAID-cancelled", "report"): (409, "ORDER_ALREADY_PAID", "PAID"),
    ("PAID-cancelled", "mark-paid"): (*OK, "PAID"),
    ("PAID-cancelled", "refund"): (*OK, "REFUNDED"),
    ("PAID-cancelled", "cancel"): (*OK, "PAID"),
    ("PAID-cancelled", "cancel-refund"): (409, "ORDER_ALREADY_CANCELLED", "PAID"),
    ("REFUNDED-cancelled", "report"): (409, "ORDER_ALREADY_PAID", "REFUNDED"),
    ("REFUNDED-cancelled", "mark-paid"): (409, "PAYMENT_SETTLED", "REFUNDED"),
    ("REFUNDED-cancelled", "refund"): (409, "PAYMENT_SETTLED", "REFUNDED"),
    ("REFUNDED-cancelled", "cancel"): (409, "ORDER_ALREADY_CANCELLED", "REFUNDED"),
    ("REFUNDED-cancelled", "cancel-refund"): (*OK, "REFUNDED"),
}
SILENT = {("PAID", "mark-paid"), ("PAID-cancelled", "mark-paid")}
EVENTS = {
    "mark-paid": ["orders/updated"],
    "refund": ["orders/cancelled", "orders/updated"],
}


async def pull(shop: Shop, order: Any, trigger: str) -> Reply:
    if trigger == "report":
        return await report(shop, order)
    if trigger.startswith("cancel"):
        return await cancel(shop, order, refund=trigger == "cancel-refund")
    return await settle(shop, order, trigger)


async def standing_at(shop: Shop, start: str) -> Any:
    order = await placed(shop)
    for step in STARTS[start]:
        assert (await pull(shop, order, step)).status == 200
    return order


@pytest.mark.parametrize(("start", "trigger"), TABLE)
async def test_moves(shop: Shop, start: str, trigger: str) -> None:
    status, code, to = TABLE[start, trigger]
    order = await standing_at(shop, start)
    before = await shown(shop, order)
    reply = await pull(shop, order, trigger)
    assert reply.status == status, reply.body
    after = await shown(shop, order)
    assert after["financialStatus"] == to
    if code:
        assert reply.code == code
        assert after == before
        assert reply.body["current"]["financialStatus"] == to


@pytest.mark.parametrize(
    ("start", "trigger"), [cell for cell in TABLE if cell[1] in EVENTS]
)
async def test_events(shop: Shop, start: str, trigger: str) -> None:
    """What is refused, or is so already, tells nobody."""
    order = await standing_at(shop, start)
    before = await shop.sequence()
    reply = await pull(shop, order, trigger)
    silent = reply.status != 200 or (start, trigger) in SILENT
    expected = [] if silent else EVENTS[trigger]
    assert await shop.topics_since(before) == expected


async def test_a_report_notifies_no_subscriber(shop: Shop) -> None:
    order = await placed(shop)
    before = await shop.sequence()
    assert (await report(shop, order)).status == 200
    assert await shop.topics_since(before) == []


@pytest.mark.parametrize("start", ["PENDING", "PAID", "VOIDED"])
async def test_reports_on_cash_orders_are_not_expected(shop: Shop, start: str) -> None:
    order = await placed(shop, method="COD")
    for step in STARTS[start]:
        await pull(shop, order, step)
    reply = await report(shop, order)
    assert (reply.status, reply.code) == (409, "PAYMENT_NOT_EXPECTED")


@pytest.mark.parametrize("sent", ["PENDING", "PAID"])
async def test_recorded_orders_begin_as_sent(shop: Shop, sent: str) -> None:
    item = {"title": "T", "quantity": 1, "price": "5.00"}
    body = {"items": [item], "financialStatus": sent}
    assert (await shop.v1("POST", "/orders", body)).data["financialStatus"] == sent


@pytest.mark.parametrize("sent", ["REFUNDED", "VOIDED", "PARTIALLY_REFUNDED", "LOST"])
async def test_recorded_orders_begin_nowhere_else(shop: Shop, sent: str) -> None:
    item = {"title": "T", "quantity": 1, "price": "5.00"}
    body = {"items": [item], "financialStatus": sent}
    reply = await shop.v1("POST", "/orders", body)
    assert (reply.status, reply.code) == (422, "VALIDATION_ERROR")


@pytest.mark.parametrize("method", ["COD", "CUSTOM_QR"])
async def test_shoppers_orders_begin_pending(shop: Shop, method: str) -> None:
    assert (await placed(shop, method=method))["financialStatus"] == "PENDING"
