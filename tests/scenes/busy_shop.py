"""A store with many random changes, from a seed, all through the real API."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from backhaul_reference.platform.quirks import NONE
from scenes.reference_shop import CUSTOMER, Reply, Shop, cart

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from random import Random

    from backhaul_reference.platform.quirks import Quirks

Document = dict[str, Any]
PLENTY = 100_000
REASONS = ("MANUAL_ADJUSTMENT", "MANUAL_ADJUSTMENT", "DAMAGED")


@dataclass(slots=True)
class BusyShop:
    """Products, orders and customers that change at random.

    Requests follow the store's quirks.
    """

    shop: Shop
    chance: Random
    quirks: Quirks = NONE
    products: list[Document] = field(default_factory=list)
    orders: list[Document] = field(default_factory=list)

    async def trade(self, events: int, objects: int) -> int:
        """Create about this many objects, change them; return the last sequence."""
        for number in range(max(objects // 4, 2)):
            await self._make_product(number)
        for number in range(objects // 2):
            await self._place(number)
        while (told := await self.shop.sequence()) < events:
            for _ in range(min(events - told, 50)):
                await self._change_something()
        return told

    async def _make_product(self, number: int) -> None:
        variants = [
            {"title": size, "sku": f"P{number}-{size}", "price": "10.00"}
            | {"stock": PLENTY}
            for size in ("S", "M")
        ]
        body = {"title": f"Thing {number}", "variants": variants}
        made = await self.shop.v1("POST", "/products", body)
        self.products.append(_document(made))

    async def _place(self, number: int) -> None:
        buyer = f"buyer{number // 2}@example.com"
        wanted = cart(
            self.chance.choice(self.products),
            self.chance.randint(1, 4),
            customer=CUSTOMER | {"email": buyer},
        )
        placed = await self.shop.shopper("POST", "/orders", wanted)
        order = await self.shop.v1("GET", f"/orders/{placed.data['id']}")
        self.orders.append(_document(order))

    async def _change_something(self) -> None:
        change = self.chance.choice(CHANGES)
        reply = await change(self)
        # A refused change (already paid, all sent) did not happen.
        assert reply.status < 500, reply.body

    async def _adjust(self) -> Reply:
        product = self.chance.choice(self.products)
        body = {"productId": product["id"], "adjustment": self.chance.choice((-3, 2))}
        body["reason"] = self.chance.choice(REASONS)
        if self._sends_extra_members():
            body["variantId"] = self.chance.choice(product["variants"])["id"]
        return await self.shop.v1("POST", "/inventory/adjust", body)

    async def _rename(self) -> Reply:
        product = self.chance.choice(self.products)
        body = {"title": f"Thing {self.chance.randrange(PLENTY)}"}
        return await self.shop.v1("PUT", f"/products/{product['id']}", body)

    async def _drop(self) -> Reply:
        """Delete a product now and then, but never all of them."""
        if len(self.products) < 3 or self.chance.random() < 0.9:
            return await self._rename()
        product = self.products.pop(self.chance.randrange(len(self.products)))
        return await self.shop.v1("DELETE", f"/products/{product['id']}")

    async def _fulfill(self) -> Reply:
        order = self.chance.choice(self.orders)
        line = self.chance.choice(order["items"])["id"]
        parcel = ("DHL", f"T{self.chance.randrange(PLENTY)}")
        body: Document = dict(zip(self.quirks.tracking_fields, parcel, strict=True))
        if self._sends_extra_members():
            body["items"] = [{"lineItemId": line, "quantity": 1}]
        return await self.shop.v1("POST", f"/orders/{order['id']}/fulfill", body)

    async def _cancel(self) -> Reply:
        if self.chance.random() < 0.7:
            return await self._fulfill()
        order = self.chance.choice(self.orders)
        body = {self.quirks.restock_field: self.chance.random() < 0.5}
        return await self.shop.v1("POST", f"/orders/{order['id']}/cancel", body)

    async def _pay_or_refund(self) -> Reply:
        order = self.chance.choice(self.orders)
        step = self.chance.choice(("confirm", "mark-paid", "mark-paid", "refund"))
        path = f"/stores/demo/orders/{order['id']}/{step}"
        return await self.shop.control("POST", path)

    def _sends_extra_members(self) -> bool:
        """Choose whether to send members that a strict store rejects."""
        return "strict-body" not in self.quirks and self.chance.random() < 0.8


def _document(reply: Reply) -> Document:
    """Return the object of a response, with or without `data` around it."""
    assert reply.status < 300, reply.body
    document: Document = reply.body.get("data", reply.body)
    return document


CHANGES: tuple[Callable[[BusyShop], Awaitable[Reply]], ...] = (
    BusyShop._adjust,
    BusyShop._adjust,
    BusyShop._rename,
    BusyShop._drop,
    BusyShop._fulfill,
    BusyShop._cancel,
    BusyShop._pay_or_refund,
)
