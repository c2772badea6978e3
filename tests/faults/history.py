"""A busy store's own history, and the disorder in which a network may deliver it."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scenes.payloads import envelope
from scenes.reference_shop import CUSTOMER, cart

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from scenes.reference_shop import Shop

LANES = 4
PRODUCTS_PER_LANE = 6
DISORDERLY = 0.05
UNKNOWN = 0.01
FARTHEST = 50
MILLISECONDS = re.compile(rb"(?<=:\d\d)\.\d{3}Z")


@dataclass(slots=True)
class Trade:
    """A sequence of work in the store: orders and all later changes to them."""

    shop: Shop
    chance: random.Random
    lane: int

    async def run(self, until: int) -> None:
        products = [await self._product(n) for n in range(PRODUCTS_PER_LANE)]
        number = 0
        while await self.shop.sequence() < until:
            number += 1
            for _ in range(5):
                await self._trade(self.chance.choice(products))
            if number % 4 == 0:
                short_lived = await self._product(100 + number)
                if number % 8 == 0:
                    await self._trade(short_lived)
                await self._delete(short_lived)

    async def _product(self, number: int) -> Any:
        sku = f"T-{self.lane}-{number}"
        return await self.shop.product(9_000, title=f"Thing {sku}", sku=sku)

    async def _delete(self, product: Any) -> None:
        assert (await self.shop.v1("DELETE", f"/products/{product['id']}")).status < 300

    async def _trade(self, product: Any) -> None:
        who = self.chance.randrange(40)
        customer = CUSTOMER | {
            "email": f"c{who}@example.com",
            "name": f"Customer {who}",
        }
        body = cart(product, self.chance.randint(1, 3), customer=customer)
        order = (await self.shop.shopper("POST", "/orders", body)).data["id"]
        fate = self.chance.random()
        if fate < 0.4:
            sent = {"trackingCompany": "DHL", "trackingNumber": f"T{order[-8:]}"}
            await self.shop.v1("POST", f"/orders/{order}/fulfill", sent)
        elif fate < 0.6:
            restock = {"restock": fate < 0.5}
            await self.shop.v1("POST", f"/orders/{order}/cancel", restock)
        elif fate < 0.8:
            change = {
                "productId": product["id"],
                "adjustment": self.chance.randint(1, 9),
            }
            await self.shop.v1("POST", "/inventory/adjust", change)
        else:
            title = {"title": f"Thing {self.chance.randrange(1_000)}"}
            await self.shop.v1("PUT", f"/products/{product['id']}", title)


def in_seconds(text: bytes) -> bytes:
    """Return the text with times in whole seconds, as some platforms write them."""
    return MILLISECONDS.sub(rb".000Z", text)


async def trade(
    shop: Shop, events: int, chance: random.Random
) -> tuple[list[bytes], Any]:
    """Work until there are this many events; return them in order, and the state.

    The events have whole seconds only. Most changes of an object have the same time,
    and only the sequence number shows which is newer.
    """
    lanes = [Trade(shop, chance, lane).run(events) for lane in range(LANES)]
    await asyncio.gather(*lanes)
    return [in_seconds(body) for body in shop.event_bodies()], await shop.state()


def disordered(bodies: Sequence[bytes], chance: random.Random) -> list[bytes]:
    """Repeat and move some, put deletions before creations, add unknown events."""
    places: list[tuple[float, bytes]] = []
    for at, body in enumerate(bodies):
        moved = chance.random() < DISORDERLY
        place = at + chance.uniform(-FARTHEST, FARTHEST) * moved
        if json.loads(body)["topic"] == "products/delete":
            place = at - FARTHEST
        places.append((place, body))
        if chance.random() < DISORDERLY:
            places.append((at + chance.uniform(0, len(bodies)), body))
        if chance.random() < UNKNOWN:
            store = json.loads(body)["storeId"]
            unknown = envelope("orders/exploded", {"id": f"x{at}"}, storeId=store)
            places.append((place, unknown))
    return [body for _, body in sorted(places, key=lambda pair: pair[0])]
