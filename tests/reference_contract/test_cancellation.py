"""Contract 3.4: a cancellation, and its repetition."""

import itertools

import pytest

from reference_contract.moves import cancel, placed, settle, shown, standing
from scenes.merchant import buy, discount
from scenes.reference_shop import Shop

CHOICES = list(itertools.product((False, True), repeat=2))
REASONS = ("CUSTOMER", "FRAUD", "INVENTORY", "DECLINED", "STAFF", "OTHER")


@pytest.mark.parametrize(("restock", "refund"), CHOICES)
@pytest.mark.parametrize(("again_restock", "again_refund"), CHOICES)
async def test_repeats(
    shop: Shop, restock: bool, refund: bool, again_restock: bool, again_refund: bool
) -> None:
    """The same wishes have no further effect; other ones are refused."""
    order = await placed(shop, 2)
    await settle(shop, order, "mark-paid")
    first = (await cancel(shop, order, restock=restock, refund=refund)).data
    before = await shop.state()
    reply = await cancel(shop, order, restock=again_restock, refund=again_refund)
    assert await shop.state() == before
    if (restock, refund) == (again_restock, again_refund):
        assert reply.data == first
        return
    assert (reply.status, reply.code) == (409, "ORDER_ALREADY_CANCELLED")
    assert reply.body["current"] == {
        "status": "CANCELLED",
        "financialStatus": "REFUNDED" if refund else "PAID",
        "fulfillmentStatus": "RESTOCKED" if restock else "UNFULFILLED",
    }


@pytest.mark.parametrize(("restock", "refund"), CHOICES)
async def test_effects(shop: Shop, restock: bool, refund: bool) -> None:
    order = await placed(shop, 2)
    await settle(shop, order, "mark-paid")
    sequence = await shop.sequence()
    done = (await cancel(shop, order, restock=restock, refund=refund)).data
    assert done["cancellation"]["restocked"] is restock
    assert done["cancellation"]["refunded"] is refund
    assert done["items"][0]["restockedQuantity"] == (2 if restock else 0)
    assert (await shop.state())["levels"][0]["stock"] == (100 if restock else 98)
    moved = ["inventory/level_update"] if restock else []
    topics = [*moved, "orders/cancelled", "orders/updated"]
    assert await shop.topics_since(sequence) == topics


async def test_a_cancellation_without_options_restocks_nothing(shop: Shop) -> None:
    order = await placed(shop, 2)
    done = (await cancel(shop, order)).data
    assert standing(done) == ("CANCELLED", "VOIDED", "UNFULFILLED")
    assert done["cancellation"]["reason"] == "OTHER"
    assert (await shop.state())["levels"][0]["stock"] == 98
    assert (await cancel(shop, order, restock=False, refund=False)).data == done


@pytest.mark.parametrize("reason", REASONS)
async def test_reasons(shop: Shop, reason: str) -> None:
    done = await cancel(shop, await placed(shop), reason=reason.lower())
    assert done.data["cancellation"]["reason"] == reason


@pytest.mark.parametrize(
    "body", [{"reason": "WHIM"}, {"restock": "yes"}, {"refund": 1}, {"restock": None}]
)
async def test_an_invalid_cancellation_is_refused(
    shop: Shop, body: dict[str, object]
) -> None:
    order = await placed(shop)
    before = await shown(shop, order)
    reply = await cancel(shop, order, **body)
    assert (reply.status, reply.code) == (422, "VALIDATION_ERROR")
    assert await shown(shop, order) == before


async def test_a_discounts_use_is_given_back_once(shop: Shop) -> None:
    await discount(shop, usageLimit=1)
    product = await shop.product()
    order = (await buy(shop, product, discountCode="SAVE10")).data
    refused = await buy(shop, product, discountCode="SAVE10")
    assert (refused.status, refused.body["reason"]) == (400, "USED_UP")
    for _ in range(3):
        await cancel(shop, order)
    assert (await shop.state())["discounts"][0]["usedCount"] == 0
    assert (await buy(shop, product, discountCode="SAVE10")).status == 201
