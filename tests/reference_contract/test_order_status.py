"""Contract 3.1: an order's status follows from four facts and nothing else."""

import itertools

import pytest

from backhaul_reference.platform.state.order_lifecycle import OrderStatuses, status_of
from reference_contract.moves import (
    cancel,
    fulfill,
    fulfill_some,
    placed,
    settle,
    shown,
    standing,
)
from scenes.reference_shop import Shop

MONEY = ("PENDING", "PAID", "REFUNDED", "VOIDED")
GOODS = ("UNFULFILLED", "PARTIALLY_FULFILLED", "FULFILLED", "RESTOCKED")
COMBINATIONS = list(itertools.product(MONEY, GOODS))
# (money, goods) of an order that is not confirmed and not cancelled -> status.
OPEN = {
    ("PENDING", "UNFULFILLED"): "PENDING",
    ("PENDING", "PARTIALLY_FULFILLED"): "CONFIRMED",
    ("PENDING", "FULFILLED"): "CONFIRMED",
    ("PENDING", "RESTOCKED"): "PENDING",
    ("PAID", "UNFULFILLED"): "CONFIRMED",
    ("PAID", "PARTIALLY_FULFILLED"): "CONFIRMED",
    ("PAID", "FULFILLED"): "COMPLETED",
    ("PAID", "RESTOCKED"): "CONFIRMED",
    ("REFUNDED", "UNFULFILLED"): "PENDING",
    ("REFUNDED", "PARTIALLY_FULFILLED"): "CONFIRMED",
    ("REFUNDED", "FULFILLED"): "COMPLETED",
    ("REFUNDED", "RESTOCKED"): "PENDING",
    ("VOIDED", "UNFULFILLED"): "PENDING",
    ("VOIDED", "PARTIALLY_FULFILLED"): "CONFIRMED",
    ("VOIDED", "FULFILLED"): "CONFIRMED",
    ("VOIDED", "RESTOCKED"): "PENDING",
}
# What brings an order, over HTTP, to some money and some goods.
PAYING = {"PENDING": (), "PAID": ("mark-paid",), "REFUNDED": ("mark-paid", "refund")}
SHIPPING = {"UNFULFILLED": 0, "PARTIALLY_FULFILLED": 1, "FULFILLED": 2}


@pytest.mark.parametrize("confirmed", [False, True], ids=["unconfirmed", "confirmed"])
@pytest.mark.parametrize(("money", "goods"), COMBINATIONS)
def test_open_orders(money: str, goods: str, confirmed: bool) -> None:
    expected = OPEN[money, goods]
    if confirmed and expected == "PENDING":
        expected = "CONFIRMED"
    assert (
        status_of(OrderStatuses(money, goods, confirmed, cancelled=False)) == expected
    )


@pytest.mark.parametrize("confirmed", [False, True], ids=["unconfirmed", "confirmed"])
@pytest.mark.parametrize(("money", "goods"), COMBINATIONS)
def test_cancelled_orders(money: str, goods: str, confirmed: bool) -> None:
    assert (
        status_of(OrderStatuses(money, goods, confirmed, cancelled=True)) == "CANCELLED"
    )


@pytest.mark.parametrize("confirmed", [False, True], ids=["unconfirmed", "confirmed"])
@pytest.mark.parametrize("goods", SHIPPING)
@pytest.mark.parametrize("money", PAYING)
async def test_each_status_is_shown_and_can_be_filtered(
    shop: Shop, money: str, goods: str, confirmed: bool
) -> None:
    """Every standing that calls can reach, then the same order cancelled."""
    order = await placed(shop, quantity=2)
    for step in (*PAYING[money], *(["confirm"] if confirmed else [])):
        assert (await settle(shop, order, step)).status == 200
    if SHIPPING[goods]:
        assert (await fulfill_some(shop, order, SHIPPING[goods])).status == 200
    expected = OPEN[money, goods]
    if confirmed and expected == "PENDING":
        expected = "CONFIRMED"
    assert standing(await shown(shop, order)) == (expected, money, goods)
    query = f"/orders?status={expected}&fulfillmentStatus={goods}"
    assert [one["id"] for one in (await shop.v1("GET", query)).data] == [order["id"]]
    assert (await cancel(shop, order)).data["status"] == "CANCELLED"
    assert (await shop.v1("GET", query)).data == []


async def test_a_shipment_after_cancellation_leaves_it_cancelled(shop: Shop) -> None:
    order = await placed(shop)
    await cancel(shop, order)
    assert (await fulfill(shop, order)).data["status"] == "CANCELLED"
