"""Contract 3.3: every fulfillment status against every trigger, over HTTP."""

from typing import Any

import pytest

from reference_contract.moves import (
    TRACKING,
    cancel,
    fulfill,
    fulfill_some,
    placed,
    settle,
    shown,
)
from scenes.reference_shop import Reply, Shop

QUANTITY = 4
STARTS: dict[str, tuple[str, ...]] = {
    "UNFULFILLED": (),
    "PARTIALLY_FULFILLED": ("some",),
    "FULFILLED": ("all",),
    "UNFULFILLED-cancelled": ("cancel",),
    "PARTIALLY_FULFILLED-cancelled": ("some", "cancel"),
    "FULFILLED-cancelled": ("all", "cancel"),
    "RESTOCKED": ("cancel-restock",),
    "RESTOCKED-partly-shipped": ("some", "cancel-restock"),
    "RESTOCKED-shipped": ("all", "cancel-restock"),
}
SHIPPED_ALREADY = (409, "ORDER_ALREADY_FULFILLED")
TOO_MANY = (409, "QUANTITY_NOT_FULFILLABLE")
CANCELLED_ALREADY = (409, "ORDER_ALREADY_CANCELLED")
OK = (200, "")
TABLE: dict[tuple[str, str], tuple[int, str, str]] = {
    ("UNFULFILLED", "all"): (*OK, "FULFILLED"),
    ("UNFULFILLED", "some"): (*OK, "PARTIALLY_FULFILLED"),
    ("UNFULFILLED", "too-many"): (*TOO_MANY, "UNFULFILLED"),
    ("UNFULFILLED", "unknown"): (422, "VALIDATION_ERROR", "UNFULFILLED"),
    ("UNFULFILLED", "cancel"): (*OK, "UNFULFILLED"),
    ("UNFULFILLED", "cancel-restock"): (*OK, "RESTOCKED"),
    ("PARTIALLY_FULFILLED", "all"): (*OK, "FULFILLED"),
    ("PARTIALLY_FULFILLED", "some"): (*OK, "PARTIALLY_FULFILLED"),
    ("PARTIALLY_FULFILLED", "too-many"): (*TOO_MANY, "PARTIALLY_FULFILLED"),
    ("PARTIALLY_FULFILLED", "unknown"): (
        *(422, "VALIDATION_ERROR"),
        "PARTIALLY_FULFILLED",
    ),
    ("PARTIALLY_FULFILLED", "cancel"): (*OK, "PARTIALLY_FULFILLED"),
    ("PARTIALLY_FULFILLED", "cancel-restock"): (*OK, "RESTOCKED"),
    ("FULFILLED", "all"): (*OK, "FULFILLED"),
    ("FULFILLED", "other-tracking"): (*SHIPPED_ALREADY, "FULFILLED"),
    ("FULFILLED", "no-tracking"): (*SHIPPED_ALREADY, "FULFILLED"),
    ("FULFILLED", "some"): (*SHIPPED_ALREADY, "FULFILLED"),
    ("FULFILLED", "unknown"): (422, "VALIDATION_ERROR", "FULFILLED"),
    ("FULFILLED", "cancel"): (*OK, "FULFILLED"),
    ("FULFILLED", "cancel-restock"): (*OK, "RESTOCKED"),
    ("UNFULFILLED-cancelled", "all"): (*OK, "FULFILLED"),
    ("UNFULFILLED-cancelled", "some"): (*OK, "PARTIALLY_FULFILLED"),
    ("UNFULFILLED-cancelled", "too-many"): (*TOO_MANY, "UNFULFILLED"),
    ("UNFULFILLED-cancelled", "cancel"): (*OK, "UNFULFILLED"),
    ("UNFULFILLED-cancelled", "cancel-restock"): (*CANCELLED_ALREADY, "UNFULFILLED"),
    ("PARTIALLY_FULFILLED-cancelled", "all"): (*OK, "FULFILLED"),
    ("PARTIALLY_FULFILLED-cancelled", "some"): (*OK, "PARTIALLY_FULFILLED"),
    ("FULFILLED-cancelled", "all"): (*OK, "FULFILLED"),
    ("FULFILLED-cancelled", "other-tracking"): (*SHIPPED_ALREADY, "FULFILLED"),
    # A cancel racing a fulfil leaves the same state in either order.
    ("RESTOCKED", "all"): (*OK, "RESTOCKED"),
    ("RESTOCKED", "some"): (*OK, "RESTOCKED"),
    ("RESTOCKED", "too-many"): (*TOO_MANY, "RESTOCKED"),
    ("RESTOCKED", "cancel-restock"): (*OK, "RESTOCKED"),
    ("RESTOCKED", "cancel"): (*CANCELLED_ALREADY, "RESTOCKED"),
    ("RESTOCKED-partly-shipped", "all"): (*OK, "RESTOCKED"),
    ("RESTOCKED-shipped", "all"): (*OK, "RESTOCKED"),
    ("RESTOCKED-shipped", "other-tracking"): (*SHIPPED_ALREADY, "RESTOCKED"),
}
NO_EVENT = {
    ("FULFILLED", "all"),
    ("FULFILLED-cancelled", "all"),
    ("RESTOCKED-shipped", "all"),
}
SHIPPING = {"all", "some", "too-many", "unknown", "other-tracking", "no-tracking"}


async def pull(shop: Shop, order: Any, trigger: str) -> Reply:
    if trigger.startswith("cancel"):
        return await cancel(shop, order, restock=trigger == "cancel-restock")
    if trigger in {"some", "too-many"}:
        quantity = 1 if trigger == "some" else QUANTITY + 1
        return await fulfill_some(shop, order, quantity, **TRACKING)
    bodies: dict[str, Any] = {
        "all": TRACKING,
        "no-tracking": {},
        "other-tracking": {**TRACKING, "trackingNumber": "BD2"},
        "unknown": {"items": [{"lineItemId": "li_x", "quantity": 1}]},
    }
    return await fulfill(shop, order, **bodies[trigger])


async def standing_at(shop: Shop, start: str) -> Any:
    order = await placed(shop, QUANTITY)
    for step in STARTS[start]:
        assert (await pull(shop, order, step)).status == 200
    return order


@pytest.mark.parametrize(("start", "trigger"), TABLE)
async def test_moves(shop: Shop, start: str, trigger: str) -> None:
    status, code, to = TABLE[start, trigger]
    order = await standing_at(shop, start)
    before = await shown(shop, order)
    sequence = await shop.sequence()
    reply = await pull(shop, order, trigger)
    assert reply.status == status, reply.body
    after = await shown(shop, order)
    assert after["fulfillmentStatus"] == to
    if code:
        assert reply.code == code
    if code or (start, trigger) in NO_EVENT:
        assert after == before
        assert await shop.topics_since(sequence) == []
    elif trigger in SHIPPING:
        assert len(after["shipments"]) == len(before["shipments"]) + 1
        assert await shop.topics_since(sequence) == [
            "orders/fulfilled",
            "orders/updated",
        ]


@pytest.mark.parametrize("cancelled", [False, True], ids=["open", "cancelled"])
@pytest.mark.parametrize("trigger", ["all", "some", "too-many"])
async def test_an_order_that_waits_for_confirmation_cannot_be_shipped(
    shop: Shop, trigger: str, cancelled: bool
) -> None:
    await shop.settings(codConfirmation=True)
    order = await placed(shop, QUANTITY, method="COD")
    if cancelled:
        await cancel(shop, order)
    before = await shown(shop, order)
    reply = await pull(shop, order, trigger)
    assert (reply.status, reply.code) == (409, "ORDER_AWAITING_CONFIRMATION")
    assert reply.body["current"]["fulfillmentStatus"] == "UNFULFILLED"
    assert await shown(shop, order) == before


@pytest.mark.parametrize("trigger", ["all", "some"])
async def test_a_confirmed_order_can_be_shipped(shop: Shop, trigger: str) -> None:
    await shop.settings(codConfirmation=True)
    order = await placed(shop, QUANTITY, method="COD")
    await settle(shop, order, "confirm")
    assert (await pull(shop, order, trigger)).status == 200


@pytest.mark.parametrize("quantity", [0, -1, True, "1", 1.5, None])
async def test_an_invalid_quantity_is_refused(shop: Shop, quantity: Any) -> None:
    order = await placed(shop)
    reply = await fulfill_some(shop, order, quantity)
    assert (reply.status, reply.code) == (422, "VALIDATION_ERROR")


async def test_a_line_named_twice_counts_together(shop: Shop) -> None:
    order = await placed(shop, 3)
    line = {"lineItemId": order["items"][0]["id"], "quantity": 2}
    reply = await fulfill(shop, order, items=[line, line])
    assert (reply.status, reply.code) == (409, "QUANTITY_NOT_FULFILLABLE")
    assert (await shown(shop, order))["shipments"] == []
