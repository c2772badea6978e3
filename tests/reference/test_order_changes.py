"""Orders are fulfilled, cancelled and paid: states, refusals, events, and races."""

import asyncio
from typing import Any

import pytest

from scenes.reference_shop import Shop, cart

TRACKING = {"trackingCompany": "BlueDart", "trackingNumber": "BD1"}


async def fulfill(shop: Shop, order: Any, **body: Any) -> Any:
    return await shop.v1("POST", f"/orders/{order['id']}/fulfill", body or None)


async def cancel(shop: Shop, order: Any, **body: Any) -> Any:
    return await shop.v1("POST", f"/orders/{order['id']}/cancel", body or None)


async def settle(shop: Shop, order: Any, step: str) -> Any:
    return await shop.control("POST", f"/stores/demo/orders/{order['id']}/{step}")


def standing(order: Any) -> tuple[str, str, str]:
    return (order["status"], order["financialStatus"], order["fulfillmentStatus"])


async def test_fulfill_whole_order_once(shop: Shop) -> None:
    order = await shop.order(await shop.product(), 2)
    before = await shop.sequence()
    done = (await fulfill(shop, order, **TRACKING)).data
    assert standing(done) == ("CONFIRMED", "PENDING", "FULFILLED")
    assert done["shipments"][0]["trackingNumber"] == "BD1"
    assert done["items"][0]["fulfilledQuantity"] == 2
    assert done["updatedAt"] > order["updatedAt"]
    assert done["version"] == 2
    again = await fulfill(shop, order, **TRACKING)
    assert again.data == done
    assert await shop.topics_since(before) == ["orders/fulfilled", "orders/updated"]


async def test_a_repeated_fulfill_is_compared_by_units_and_not_by_lines(
    shop: Shop,
) -> None:
    order = await shop.order(await shop.product(), 2)
    line = {"lineItemId": order["items"][0]["id"], "quantity": 1}
    first = await fulfill(shop, order, **TRACKING, items=[line, line])
    again = await fulfill(shop, order, **TRACKING, items=[line, line])
    assert (first.status, again.status) == (200, 200)
    assert again.data == first.data
    whole = await fulfill(shop, order, **TRACKING, items=[{**line, "quantity": 2}])
    assert whole.data == first.data


async def test_fulfill_again_with_other_tracking(shop: Shop) -> None:
    order = await shop.order(await shop.product())
    await fulfill(shop, order, **TRACKING)
    reply = await fulfill(shop, order, trackingNumber="BD2")
    assert (reply.status, reply.code) == (409, "ORDER_ALREADY_FULFILLED")
    assert reply.body["current"]["fulfillmentStatus"] == "FULFILLED"


async def test_fulfill_in_parts(shop: Shop) -> None:
    order = await shop.order(await shop.product(), 3)
    line = order["items"][0]["id"]
    some = {"items": [{"lineItemId": line, "quantity": 2}]}
    partly = (await fulfill(shop, order, **some)).data
    assert partly["fulfillmentStatus"] == "PARTIALLY_FULFILLED"
    more = await fulfill(shop, order, **some)
    assert (more.status, more.code) == (409, "QUANTITY_NOT_FULFILLABLE")
    assert (await shop.v1("GET", f"/orders/{order['id']}")).data == partly
    rest = (await fulfill(shop, order)).data
    assert rest["fulfillmentStatus"] == "FULFILLED"
    assert [one["items"][0]["quantity"] for one in rest["shipments"]] == [2, 1]
    unknown = {"items": [{"lineItemId": "li_x", "quantity": 1}]}
    assert (await fulfill(shop, order, **unknown)).status == 422


async def test_cod_confirmation_holds_dispatch(shop: Shop) -> None:
    await shop.settings(codConfirmation=True)
    order = await shop.order(await shop.product())
    assert order["confirmation"] == {"required": True, "confirmedAt": None}
    reply = await fulfill(shop, order)
    assert (reply.status, reply.code) == (409, "ORDER_AWAITING_CONFIRMATION")
    before = await shop.sequence()
    confirmed = (await settle(shop, order, "confirm")).data
    assert confirmed["status"] == "CONFIRMED"
    assert (await settle(shop, order, "confirm")).data == confirmed
    assert await shop.topics_since(before) == ["orders/updated"]
    assert (await fulfill(shop, order)).status == 200


async def test_paid_and_fulfilled_is_completed(shop: Shop) -> None:
    order = await shop.order(await shop.product())
    before = await shop.sequence()
    paid = (await settle(shop, order, "mark-paid")).data
    assert standing(paid) == ("CONFIRMED", "PAID", "UNFULFILLED")
    assert paid["payment"]["amountDue"] == "0.00"
    assert (await settle(shop, order, "mark-paid")).data == paid
    assert await shop.topics_since(before) == ["orders/updated"]
    done = (await fulfill(shop, order)).data
    assert standing(done) == ("COMPLETED", "PAID", "FULFILLED")
    refunded = (await settle(shop, order, "refund")).data
    assert standing(refunded) == ("COMPLETED", "REFUNDED", "FULFILLED")
    assert (await shop.topics_since(before))[-2:] == [
        "orders/cancelled",
        "orders/updated",
    ]
    assert (await settle(shop, order, "refund")).status == 409


async def test_cancel_with_restock(shop: Shop) -> None:
    product = await shop.product(stock=5)
    order = await shop.order(product, 2)
    before = await shop.sequence()
    done = (await cancel(shop, order, restock=True, reason="customer")).data
    assert standing(done) == ("CANCELLED", "VOIDED", "RESTOCKED")
    assert done["items"][0]["restockedQuantity"] == 2
    assert done["cancellation"]["reason"] == "CUSTOMER"
    assert (await shop.state())["levels"][0]["stock"] == 5
    assert (await cancel(shop, order, restock=True)).data == done
    other = await cancel(shop, order)
    assert (other.status, other.code) == (409, "ORDER_ALREADY_CANCELLED")
    assert await shop.topics_since(before) == [
        "inventory/level_update",
        "orders/cancelled",
        "orders/updated",
    ]


@pytest.mark.parametrize(
    ("paid", "refund", "financial"),
    [
        (False, False, "VOIDED"),
        (False, True, "VOIDED"),
        (True, False, "PAID"),
        (True, True, "REFUNDED"),
    ],
)
async def test_cancel_and_money(
    shop: Shop, paid: bool, refund: bool, financial: str
) -> None:
    order = await shop.order(await shop.product())
    if paid:
        await settle(shop, order, "mark-paid")
    done = (await cancel(shop, order, refund=refund)).data
    assert standing(done) == ("CANCELLED", financial, "UNFULFILLED")
    assert (await settle(shop, order, "confirm")).code == "ORDER_CANCELLED"


async def test_a_cancelled_order_may_still_ship(shop: Shop) -> None:
    order = await shop.order(await shop.product())
    await cancel(shop, order)
    shipped = (await fulfill(shop, order, **TRACKING)).data
    assert standing(shipped) == ("CANCELLED", "VOIDED", "FULFILLED")
    other = await shop.order(await shop.product())
    await fulfill(shop, other)
    assert standing((await cancel(shop, other, restock=True)).data)[2] == "RESTOCKED"


async def test_sixty_four_cancels_restock_once(shop: Shop) -> None:
    product = await shop.product(stock=9)
    order = await shop.order(product, 4)
    replies = await asyncio.gather(
        *(cancel(shop, order, restock=True) for _ in range(64))
    )
    assert {reply.status for reply in replies} == {200}
    state = await shop.state()
    assert state["levels"][0]["stock"] == 9
    assert [row["adjustment"] for row in state["history"]] == [9, -4, 4]


async def test_cancels_racing_fulfills_agree(shop: Shop) -> None:
    product = await shop.product(stock=64)
    orders = [await shop.order(product) for _ in range(32)]
    await asyncio.gather(
        *(fulfill(shop, order, **TRACKING) for order in orders),
        *(cancel(shop, order, restock=True) for order in orders),
    )
    state = await shop.state()
    ends = {standing(order) for order in state["orders"]}
    assert ends == {("CANCELLED", "VOIDED", "RESTOCKED")}
    assert state["levels"][0]["stock"] == 64


async def test_deleting_a_product_unlinks_its_orders(shop: Shop) -> None:
    product = await shop.product()
    order = await shop.order(product)
    deleted = await shop.v1("DELETE", f"/products/{product['id']}")
    assert deleted.data == {"id": product["id"], "deleted": True}
    assert (await shop.v1("DELETE", f"/products/{product['id']}")).status == 404
    after = (await shop.v1("GET", f"/orders/{order['id']}")).data
    assert after["items"][0]["productId"] is None
    assert after["items"][0]["title"] == "Lamp"
    assert after["updatedAt"] > order["updatedAt"]
    cancelled = (await cancel(shop, order, restock=True)).data
    assert cancelled["cancellation"]["skippedItems"] == [order["items"][0]["id"]]
    history = (await shop.state())["history"]
    assert sum(row["adjustment"] for row in history) == 0


async def test_orders_are_recorded_as_sent(shop: Shop) -> None:
    product = await shop.product(sku="LAMP")
    body = {
        "externalId": "POS-9",
        "items": [
            {"sku": "LAMP", "quantity": 2, "price": "90.00"},
            {"title": "Engraving", "quantity": 1, "price": 5},
        ],
        "totals": {"total": "170.00"},
        "financialStatus": "PAID",
    }
    order = (await shop.v1("POST", "/orders", body)).data
    assert order["totals"]["subtotal"] == "185.00"
    assert order["totals"]["total"] == "170.00"
    assert order["items"][0]["productId"] == product["id"]
    assert order["items"][1]["productId"] is None
    assert standing(order) == ("CONFIRMED", "PAID", "UNFULFILLED")
    assert (await shop.state())["levels"][0]["stock"] == 8
    again = await shop.v1("POST", "/orders", body)
    assert (again.status, again.code) == (409, "DUPLICATE_EXTERNAL_ID")
    assert again.body["existingId"] == order["id"]


@pytest.mark.parametrize(
    ("behaviour", "status", "stock"),
    [
        ("DECREMENT_OBEYING_POLICY", 409, 1),
        ("DECREMENT_IGNORING_POLICY", 201, -1),
        ("BYPASS", 201, 1),
    ],
)
async def test_inventory_behaviours(
    shop: Shop, behaviour: str, status: int, stock: int
) -> None:
    product = await shop.product(stock=1)
    item = {"productId": product["id"], "quantity": 2, "price": "1"}
    body = {"items": [item], "inventoryBehaviour": behaviour}
    reply = await shop.v1("POST", "/orders", body)
    assert reply.status == status
    assert (await shop.state())["levels"][0]["stock"] == stock


async def test_lists_filter_page_and_follow_updates(shop: Shop) -> None:
    product = await shop.product(stock=50)
    orders = [await shop.order(product) for _ in range(5)]
    await fulfill(shop, orders[0])
    work = await shop.v1("GET", "/orders?status=pending&fulfillmentStatus=UNFULFILLED")
    assert len(work.data) == 4
    page = await shop.v1("GET", "/orders?limit=2&page=2")
    assert [one["number"] for one in page.data] == [1003, 1002]
    assert page.body["meta"] == {
        "page": 2,
        "limit": 2,
        "total": 5,
        "totalPages": 3,
        "hasMore": True,
    }
    assert 'rel="next"' in page.headers["Link"]
    since = orders[3]["updatedAt"]
    query = f"/orders?sort=updatedAt&updatedSince={since}"
    found = (await shop.v1("GET", query)).data
    assert [one["number"] for one in found] == [1004, 1005, 1001]
    assert (await shop.v1("GET", "/orders?status=LOST")).status == 422
    assert (await shop.v1("GET", "/orders?page=99")).data == []


async def test_updated_at_is_a_total_order(shop: Shop) -> None:
    product = await shop.product(stock=100)
    await asyncio.gather(
        *(shop.shopper("POST", "/orders", cart(product)) for _ in range(50))
    )
    moments = [one["updatedAt"] for one in (await shop.state())["orders"]]
    assert len(set(moments)) == 50
    assert moments == sorted(moments)
