"""Concurrent requests end in the same state, whichever commits first."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from scenes.reference_shop import Reply, Shop

FULFILL = ("fulfill", {"trackingCompany": "BlueDart", "trackingNumber": "BD1"})
VARYING = {"id", "number", "name", "externalId", "version"}


def step(shop: Shop, order: Any, move: tuple[str, Any]) -> Coroutine[Any, Any, Reply]:
    name, body = move
    return shop.v1("POST", f"/orders/{order['id']}/{name}", body)


def essence(value: Any) -> Any:
    """A document without what differs between any two orders: ids and instants."""
    if isinstance(value, list):
        return [essence(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: essence(one)
        for name, one in value.items()
        if name not in VARYING and not name.endswith(("At", "Id"))
    }


async def after(shop: Shop, order: Any) -> Any:
    state = await shop.state()
    found = next(one for one in state["orders"] if one["id"] == order["id"])
    products = {item["productId"] for item in order["items"]}
    levels = [one["stock"] for one in state["levels"] if one["productId"] in products]
    return essence(found), levels


@pytest.mark.parametrize("restock", [True, False])
@pytest.mark.parametrize("quantity", [1, 2])
async def test_fulfil_and_cancel_in_either_order(
    shop: Shop, restock: bool, quantity: int
) -> None:
    cancel = ("cancel", {"restock": restock})
    ends = []
    for moves in ((FULFILL, cancel), (cancel, FULFILL)):
        order = await shop.order(await shop.product(stock=5), quantity)
        for move in moves:
            assert (await step(shop, order, move)).status == 200
        ends.append(await after(shop, order))
    assert ends[0] == ends[1]


async def test_fulfil_and_cancel_at_once(shop: Shop) -> None:
    """Sixteen orders, both moves sent together: one end for all of them."""
    cancel = ("cancel", {"restock": True})
    orders = [await shop.order(await shop.product(stock=5), 2) for _ in range(16)]
    moves = [
        step(shop, order, move)
        for number, order in enumerate(orders)
        for move in ((FULFILL, cancel) if number % 2 else (cancel, FULFILL))
    ]
    assert {reply.status for reply in await asyncio.gather(*moves)} == {200}
    ends = [await after(shop, order) for order in orders]
    assert ends == [ends[0]] * 16
    shown, levels = ends[0]
    assert (shown["status"], shown["fulfillmentStatus"]) == ("CANCELLED", "RESTOCKED")
    assert levels == [5]


async def test_sixty_four_customers_with_one_key(shop: Shop) -> None:
    body, key = {"email": "a@b.example"}, {"Idempotency-Key": "k"}
    replies = await asyncio.gather(
        *(shop.v1("POST", "/customers", body, headers=key) for _ in range(64))
    )
    assert {(one.status, one.data["id"]) for one in replies} == {
        (201, replies[0].data["id"])
    }
    replayed = [one for one in replies if "Idempotency-Replayed" in one.headers]
    assert (len(replayed), await shop.sequence()) == (63, 1)


async def test_sixty_four_customers_with_one_email(shop: Shop) -> None:
    body = {"email": "a@b.example"}
    replies = await asyncio.gather(
        *(shop.v1("POST", "/customers", body) for _ in range(64))
    )
    assert sorted(one.status for one in replies) == [201] + [409] * 63
    assert len((await shop.state())["customers"]) == 1


async def test_an_order_against_the_deletion_of_its_customer(shop: Shop) -> None:
    """Either the customer stays with the order, or the order registers a new one."""
    product = await shop.product(stock=50)
    for number in range(16):
        email = f"c{number}@example.com"
        made = (await shop.v1("POST", "/customers", {"email": email})).data
        item = {"productId": product["id"], "quantity": 1, "price": "1.00"}
        body = {"items": [item], "customer": {"email": email}}
        moves = [
            shop.v1("POST", "/orders", body),
            shop.v1("DELETE", f"/customers/{made['id']}"),
        ]
        await asyncio.gather(*(moves if number % 2 else reversed(moves)))
    state = await shop.state()
    known = {one["id"] for one in state["customers"]}
    assert {order["customer"]["id"] for order in state["orders"]} <= known
    assert len(state["orders"]) == 16
