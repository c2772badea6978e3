"""The server behaves as docs/reference-server.md says where the contract is open."""

from typing import Any

import pytest

from reference_contract.moves import cancel, fulfill, placed, settle, shown, standing
from scenes.merchant import quote
from scenes.reference_shop import Shop, cart

BYPASS = {"inventoryBehaviour": "BYPASS"}


async def test_restocked_stays_when_it_ships_after_all(shop: Shop) -> None:
    order = await placed(shop)
    await cancel(shop, order, restock=True)
    done = (await fulfill(shop, order)).data
    assert standing(done) == ("CANCELLED", "VOIDED", "RESTOCKED")
    assert (len(done["shipments"]), done["items"][0]["fulfilledQuantity"]) == (1, 1)


@pytest.mark.parametrize("refund", [False, True], ids=["keep", "refund"])
async def test_a_refunded_order_is_cancelled_once(shop: Shop, refund: bool) -> None:
    order = await placed(shop)
    for step in ("mark-paid", "refund"):
        await settle(shop, order, step)
    done = (await cancel(shop, order, refund=refund)).data
    assert standing(done) == ("CANCELLED", "REFUNDED", "UNFULFILLED")
    assert done["cancellation"]["refunded"] is refund
    assert (await cancel(shop, order, refund=not refund)).status == 409


async def test_a_cancellation_repeats_the_request(shop: Shop) -> None:
    order = await placed(shop)
    done = (await cancel(shop, order, refund=True, restock=True)).data
    assert done["financialStatus"] == "VOIDED"
    assert done["cancellation"]["refunded"] is True
    assert (await cancel(shop, order, refund=True, restock=True)).data == done


async def test_an_order_that_reserved_no_stock_returns_none(shop: Shop) -> None:
    product = await shop.product(stock=5)
    line = {"productId": product["id"], "quantity": 2, "price": "1.00"}
    order = (await shop.v1("POST", "/orders", {"items": [line], **BYPASS})).data
    done = (await cancel(shop, order, restock=True)).data
    assert done["fulfillmentStatus"] == "RESTOCKED"
    assert done["cancellation"]["restocked"] is True
    assert done["cancellation"]["skippedItems"] == [order["items"][0]["id"]]
    assert done["items"][0]["restockedQuantity"] == 0
    assert [one["stock"] for one in (await shop.state())["levels"]] == [5]


async def test_a_new_store_delivers_everywhere_for_nothing(shop: Shop) -> None:
    (zone,) = (await shop.control("GET", "/stores/demo/zones")).data
    assert (zone["name"], zone["countries"]) == ("Everywhere", [])
    assert [one["price"] for one in zone["rates"]] == ["0.00"]
    await shop.control("DELETE", f"/stores/demo/zones/{zone['id']}")
    assert (await quote(shop)).body == {"unavailable": True}
    reply = await shop.shopper("POST", "/orders", cart(await shop.product()))
    assert (reply.status, reply.code) == (409, "SHIPPING_UNAVAILABLE")


@pytest.mark.parametrize("whole", [False, True], ids=["variant", "product"])
async def test_stock_of_a_deleted_product_leaves_through_the_ledger(
    shop: Shop, whole: bool
) -> None:
    sizes = [{"title": one, "price": "1.00", "stock": 5} for one in "SM"]
    product = await shop.product(variants=sizes)
    path, keep = f"/products/{product['id']}", product["variants"][0]["id"]
    before = await shop.sequence()
    if whole:
        await shop.v1("DELETE", path)
    else:
        await shop.v1("PUT", path, {"variants": [{"id": keep}]})
    topic = "products/delete" if whole else "products/update"
    assert await shop.topics_since(before) == [topic]
    gone: list[Any] = (await shop.v1("GET", "/inventory/history?reason=OTHER")).data
    assert len(gone) == (2 if whole else 1)
    for row in gone:
        assert (row["adjustment"], row["stockAfter"]) == (-5, 0)
        assert row["note"] == "variant deleted"
        assert row["productId"] == product["id"]


async def test_the_first_reason_of_a_cancellation_stays(shop: Shop) -> None:
    """What a repeated cancellation says of its reason changes nothing."""
    order = await placed(shop)
    await cancel(shop, order, reason="FRAUD")
    await cancel(shop, order, reason="STAFF", note="again")
    kept = (await shown(shop, order))["cancellation"]
    assert (kept["reason"], kept["note"]) == ("FRAUD", None)
