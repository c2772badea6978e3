"""A captured run of a reference store: its deliveries and its final state."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from scenes.reference_shop import (
    CUSTOMER,
    Shop,
    cart,
    open_receiver,
    open_shop,
    subscribe,
)

if TYPE_CHECKING:
    from scenes.reference_shop import Receiver

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Captured:
    """The bodies in the order of sending, and the objects of the store at the end."""

    store_id: str
    bodies: tuple[bytes, ...]
    orders: tuple[Document, ...]
    products: tuple[Document, ...]
    levels: tuple[Document, ...]


@cache
def captured() -> Captured:
    """Run a store and capture it, once for each process."""
    with TemporaryDirectory() as folder:
        return asyncio.run(_capture(Path(folder)))


async def _capture(folder: Path) -> Captured:
    async with open_shop(folder) as shop, open_receiver() as receiver:
        await subscribe(shop, receiver)
        await _trade(shop)
        bodies = await _received(shop, receiver)
        return Captured(
            store_id=shop.running.access.store_id,
            bodies=bodies,
            orders=tuple((await shop.v1("GET", "/orders?limit=100")).data),
            products=tuple((await shop.v1("GET", "/products?limit=100")).data),
            levels=tuple((await shop.v1("GET", "/inventory?limit=100")).data),
        )


async def _trade(shop: Shop) -> None:
    lamp = await shop.product(20, sku="LAMP")
    shirt = await _shirt(shop)
    orders = [await shop.order(lamp, 2) for _ in range(4)]
    await _fulfill_in_parts(shop, orders[0])
    await shop.v1("POST", f"/orders/{orders[1]['id']}/fulfill", TRACKED)
    await shop.v1("POST", f"/orders/{orders[1]['id']}/cancel", {"restock": True})
    await shop.v1("POST", f"/orders/{orders[2]['id']}/cancel", {"restock": False})
    await shop.control("POST", f"/stores/demo/orders/{orders[3]['id']}/mark-paid")
    await shop.control("POST", f"/stores/demo/orders/{orders[3]['id']}/refund")
    other = CUSTOMER | {"email": "ravi@example.com", "name": "Ravi"}
    await shop.shopper("POST", "/orders", cart(shirt, 3, customer=other))
    await _adjust(shop, lamp, shirt)
    await _change_the_shirt(shop, shirt)
    vase = await shop.product(5, title="Vase", sku="VASE")
    await shop.order(vase, 1)
    await shop.v1("PUT", f"/products/{vase['id']}", {"title": "Tall vase"})
    await shop.v1("DELETE", f"/products/{vase['id']}")


TRACKED = {"trackingCompany": "BlueDart", "trackingNumber": "BD1"}


async def _shirt(shop: Shop) -> Any:
    variants = [
        {"title": size, "sku": f"LS-{size}", "price": "1499.00", "stock": 30}
        for size in ("S", "M", "L")
    ]
    body = {"title": "Linen shirt", "variants": variants}
    return (await shop.v1("POST", "/products", body)).data


async def _fulfill_in_parts(shop: Shop, order: Document) -> None:
    line = order["items"][0]["id"]
    for number in ("A1", "A2"):
        body: Document = {"items": [{"lineItemId": line, "quantity": 1}]}
        body |= TRACKED | {"trackingNumber": number}
        reply = await shop.v1("POST", f"/orders/{order['id']}/fulfill", body)
        assert reply.status == 200, reply.body


async def _adjust(shop: Shop, lamp: Document, shirt: Document) -> None:
    for product, delta in ((lamp, -3), (shirt, 4), (lamp, 7), (shirt, -1)):
        body = {"productId": product["id"], "adjustment": delta}
        assert (await shop.v1("POST", "/inventory/adjust", body)).status == 200


async def _change_the_shirt(shop: Shop, shirt: Document) -> None:
    """Change a price, remove one size, then add stock."""
    kept = [
        {"id": variant["id"], "price": "1599.00"} for variant in shirt["variants"][:2]
    ]
    path = f"/products/{shirt['id']}"
    assert (await shop.v1("PUT", path, {"variants": kept})).status == 200
    body = {"productId": shirt["id"], "adjustment": 2}
    assert (await shop.v1("POST", "/inventory/adjust", body)).status == 200


async def _received(shop: Shop, receiver: Receiver) -> tuple[bytes, ...]:
    deliveries = await receiver.until(await shop.sequence())
    bodies = {delivery.body for delivery in deliveries}
    return tuple(sorted(bodies, key=lambda body: json.loads(body)["sequence"]))
