"""64 concurrent requests for stock, discounts, orders and keys have one result."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from reference_contract.moves import (
    TRACKING,
    cancel,
    fulfill,
    fulfill_some,
    outcome,
    placed,
    report,
    settle,
    shown,
)
from scenes.merchant import buy, discount, outbox
from scenes.reference_shop import CUSTOMER, Reply, Shop, cart

CROWD = 64
Outcomes = Counter[tuple[int, str]]


def counted(replies: list[Reply]) -> Outcomes:
    return Counter(outcome(reply) for reply in replies)


def check_ledger(state: Any) -> None:
    sums: Counter[str] = Counter()
    for row in state["history"]:
        sums[row["variantId"]] += row["adjustment"]
    levels = {one["variantId"]: one["stock"] for one in state["levels"]}
    assert {name: sums[name] for name in levels} == levels


async def test_baskets_in_opposite_order(shop: Shop) -> None:
    """Whoever gets one of two scarce things gets both."""
    one, other = await shop.product(stock=20), await shop.product(stock=10)
    bodies = []
    for number in range(CROWD):
        items = cart(one)["items"] + cart(other)["items"]
        bodies.append(cart(one) | {"items": items if number % 2 else items[::-1]})
    replies = await asyncio.gather(
        *(shop.shopper("POST", "/orders", body) for body in bodies)
    )
    assert counted(replies) == {(201, ""): 10, (409, "OUT_OF_STOCK"): 54}
    state = await shop.state()
    assert sorted(one["stock"] for one in state["levels"]) == [0, 10]
    check_ledger(state)


async def test_orders_of_both_surfaces_and_adjustments(shop: Shop) -> None:
    product = await shop.product(stock=30)
    item = {"productId": product["id"], "quantity": 1, "price": "1.00"}
    change = {"productId": product["id"], "adjustment": -1}
    calls = [
        call
        for _ in range(CROWD // 2)
        for call in (
            buy(shop, product),
            shop.v1("POST", "/orders", {"items": [item]}),
            shop.v1("POST", "/inventory/adjust", change),
        )
    ]
    found = counted(await asyncio.gather(*calls))
    assert found[201, ""] + found[200, ""] == 30
    assert set(found) - {(201, ""), (200, "")} <= {
        (409, "OUT_OF_STOCK"),
        (409, "INSUFFICIENT_STOCK"),
    }
    state = await shop.state()
    assert (state["levels"][0]["stock"], len(state["orders"])) == (0, found[201, ""])
    check_ledger(state)


async def test_concurrent_spellings_make_one_customer(shop: Shop) -> None:
    await discount(shop, usageLimitPerCustomer=2)
    product = await shop.product(stock=100)
    spelled = ["asha@example.com", "ASHA@example.com", "Asha@EXAMPLE.com"]
    calls = [
        buy(
            shop,
            product,
            discountCode="save10",
            customer={**CUSTOMER, "email": spelled[number % 3]},
        )
        for number in range(CROWD)
    ]
    found = counted(await asyncio.gather(*calls))
    assert found == {(201, ""): 2, (400, "DISCOUNT_USED_UP"): 62}
    state = await shop.state()
    assert [one["ordersCount"] for one in state["customers"]] == [2]
    assert state["discounts"][0]["usedCount"] == 2


async def test_a_use_given_back_is_given_once(shop: Shop) -> None:
    await discount(shop, usageLimit=3)
    product = await shop.product(stock=100)
    orders = [(await buy(shop, product, discountCode="SAVE10")).data for _ in range(3)]
    await asyncio.gather(*(cancel(shop, orders[0]) for _ in range(CROWD)))
    assert (await shop.state())["discounts"][0]["usedCount"] == 2


async def test_cancels_that_disagree(shop: Shop) -> None:
    """The first decides; half of the crowd agrees with it."""
    order = await placed(shop, 4)
    calls = [cancel(shop, order, restock=number % 2 == 0) for number in range(CROWD)]
    found = counted(await asyncio.gather(*calls))
    assert found == {(200, ""): 32, (409, "ORDER_ALREADY_CANCELLED"): 32}
    restocked = (await shown(shop, order))["cancellation"]["restocked"]
    state = await shop.state()
    assert state["levels"][0]["stock"] == (100 if restocked else 96)
    check_ledger(state)


async def test_shipping_one_by_one(shop: Shop) -> None:
    order = await placed(shop, 10)
    calls = [fulfill_some(shop, order, 1) for _ in range(CROWD)]
    found = counted(await asyncio.gather(*calls))
    # Once nothing is left, the same parcel again is a repetition.
    assert found == {(200, ""): CROWD}
    done = await shown(shop, order)
    assert done["items"][0]["fulfilledQuantity"] == len(done["shipments"]) == 10


async def test_shipping_three_by_three(shop: Shop) -> None:
    order = await placed(shop, 10)
    calls = [fulfill_some(shop, order, 3) for _ in range(CROWD)]
    found = counted(await asyncio.gather(*calls))
    assert found == {(200, ""): 3, (409, "QUANTITY_NOT_FULFILLABLE"): 61}
    assert (await shown(shop, order))["items"][0]["fulfilledQuantity"] == 9


async def test_sixty_four_couriers(shop: Shop) -> None:
    order = await placed(shop, 2)
    before = await shop.sequence()
    calls = [fulfill(shop, order, trackingNumber=f"T{n}") for n in range(CROWD)]
    found = counted(await asyncio.gather(*calls))
    assert found == {(200, ""): 1, (409, "ORDER_ALREADY_FULFILLED"): 63}
    assert len((await shown(shop, order))["shipments"]) == 1
    topics = await shop.topics_since(before)
    assert topics == ["orders/fulfilled", "orders/updated"]


@pytest.mark.parametrize("restock", [False, True], ids=["keep", "restock"])
async def test_shipments_against_cancels_of_one_order(
    shop: Shop, restock: bool
) -> None:
    order = await placed(shop, 3)
    before = await shop.sequence()
    calls = [
        call
        for _ in range(CROWD // 2)
        for call in (
            fulfill(shop, order, **TRACKING),
            cancel(shop, order, restock=restock),
        )
    ]
    assert counted(await asyncio.gather(*calls)) == {(200, ""): CROWD}
    done = await shown(shop, order)
    assert done["status"] == "CANCELLED"
    assert done["fulfillmentStatus"] == ("RESTOCKED" if restock else "FULFILLED")
    assert len(done["shipments"]) == 1
    assert (await shop.state())["levels"][0]["stock"] == (100 if restock else 97)
    told = Counter(await shop.topics_since(before))
    assert (told["orders/fulfilled"], told["orders/cancelled"]) == (1, 1)
    assert told["inventory/level_update"] == restock


async def test_payment_against_cancel(shop: Shop) -> None:
    """Paid first and then kept, or cancelled first and never paid."""
    orders = [await placed(shop) for _ in range(8)]
    calls = [
        call
        for order in orders
        for _ in range(4)
        for call in (settle(shop, order, "mark-paid"), cancel(shop, order))
    ]
    found = counted(await asyncio.gather(*calls))
    assert set(found) <= {(200, ""), (409, "ORDER_CANCELLED")}
    for order in orders:
        done = await shown(shop, order)
        assert done["status"] == "CANCELLED"
        paid = done["payment"]["paidAt"] is not None
        assert done["financialStatus"] == ("PAID" if paid else "VOIDED")


async def test_concurrent_refunds_make_one_refund(shop: Shop) -> None:
    order = await placed(shop)
    await settle(shop, order, "mark-paid")
    calls = [settle(shop, order, "refund") for _ in range(CROWD)]
    found = counted(await asyncio.gather(*calls))
    assert found == {(200, ""): 1, (409, "PAYMENT_SETTLED"): 63}


async def test_concurrent_reports_make_one_transaction(shop: Shop) -> None:
    order = await placed(shop)
    replies = await asyncio.gather(*(report(shop, order) for _ in range(CROWD)))
    assert len({str(reply.data) for reply in replies}) == 1
    mails = Counter(one["template"] for one in await outbox(shop))
    assert mails["payment_reported"] == 1


async def test_concurrent_orders_with_one_key_make_one_order(shop: Shop) -> None:
    product = await shop.product(stock=100)
    key = {"Idempotency-Key": "k"}
    replies = await asyncio.gather(
        *(
            shop.shopper("POST", "/orders", cart(product, 2), headers=key)
            for _ in range(CROWD)
        )
    )
    assert len({str(reply.data) for reply in replies}) == 1
    replayed = [one for one in replies if "Idempotency-Replayed" in one.headers]
    assert len(replayed) == 63
    state = await shop.state()
    assert (state["levels"][0]["stock"], len(state["orders"])) == (98, 1)
    mails = Counter(one["template"] for one in await outbox(shop))
    assert mails["order_placed"] == 1


async def test_two_requests_with_one_key(shop: Shop) -> None:
    product = await shop.product(stock=100)
    key = {"Idempotency-Key": "k"}
    calls = [
        shop.v1(
            "POST",
            "/inventory/adjust",
            {"productId": product["id"], "adjustment": 1 + number % 2},
            headers=key,
        )
        for number in range(CROWD)
    ]
    found = counted(await asyncio.gather(*calls))
    assert found == {(200, ""): 32, (422, "IDEMPOTENCY_KEY_REUSED"): 32}
    assert len((await shop.state())["history"]) == 2


@pytest.mark.parametrize(
    ("path", "member", "code"),
    [
        ("/products", "handle", "HANDLE_TAKEN"),
        ("/products", "sku", "SKU_TAKEN"),
        ("/products", "externalId", "DUPLICATE_EXTERNAL_ID"),
        ("/orders", "externalId", "DUPLICATE_EXTERNAL_ID"),
    ],
)
async def test_names_are_given_once(
    shop: Shop, path: str, member: str, code: str
) -> None:
    item = {"title": "T", "quantity": 1, "price": "1.00"}
    body = {"title": "T", "price": "1.00", "items": [item], member: "one"}
    calls = [shop.v1("POST", path, body) for _ in range(CROWD)]
    found = counted(await asyncio.gather(*calls))
    assert found == {(201, ""): 1, (409, code): 63}


async def test_titles_alike_get_handles_of_their_own(shop: Shop) -> None:
    made = await asyncio.gather(*(shop.product() for _ in range(CROWD)))
    assert len({one["handle"] for one in made}) == CROWD


async def test_order_numbers_leave_no_gap(shop: Shop) -> None:
    product = await shop.product(stock=40)
    replies = await asyncio.gather(*(buy(shop, product) for _ in range(CROWD)))
    numbers = sorted(one.data["number"] for one in replies if one.status == 201)
    assert numbers == list(range(1001, 1041))


async def test_orders_against_the_deletion_of_their_product(shop: Shop) -> None:
    product = await shop.product(stock=100)
    calls = [buy(shop, product) for _ in range(CROWD)]
    calls.insert(32, shop.v1("DELETE", f"/products/{product['id']}"))
    found = counted(await asyncio.gather(*calls))
    assert set(found) <= {(200, ""), (201, ""), (409, "PRODUCT_UNAVAILABLE")}
    state = await shop.state()
    assert len(state["orders"]) == found[201, ""]
    assert state["levels"] == []
    assert sum(row["adjustment"] for row in state["history"]) == 0
    for order in state["orders"]:
        assert [one["productId"] for one in order["items"]] == [None]
