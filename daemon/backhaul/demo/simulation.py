"""Simulates a shop: buying, shipping, cancelling and counting."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from backhaul.demo import workers
from backhaul.demo.demo_folder import KEPT_BY_TRYTON
from backhaul.demo.workers import (
    Clerk,
    Handheld,
    SoldOut,
    Station,
    Storefront,
    fill_cart,
)

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.demo.daemon_rows import Cause, Placement
    from backhaul.demo.demo_folder import Access
    from backhaul.demo.tryton import TrytonStaff
    from backhaul.demo.workers import Article, Erp

SCAN, COURIER, HOUSE = "scan", "courier", "house"
CANCEL, LEAVE = "cancel", "leave"
FATES = {SCAN: 45, COURIER: 20, HOUSE: 15, CANCEL: 12, LEAVE: 8}
"""What becomes of an order, out of a hundred."""
SHIPPED = (SCAN, COURIER, HOUSE)
TRYTON_SHARE = 0.3
"""How much of the shop's trade is in what Tryton keeps, where there is one."""
ORDERS_PER_COUNT = 10
COUNTED_BY_ERP = 2
"""Articles whose stock the ERP counts; the keeper leaves those alone."""


class Pace(Struct, frozen=True):
    """How fast the floor works; `orders` is None for a day without end.

    The pauses are in seconds, chosen between the two numbers.
    """

    orders: int | None
    shoppers: int
    shopper_pause: tuple[float, float]
    packing_pause: tuple[float, float]
    paper_seconds: float


def at_once(orders: int) -> Pace:
    """Everything as fast as the two programs take it."""
    return Pace(orders, 6, (0.0, 0.0), (0.0, 0.0), 0.25)


LIVE = Pace(None, 1, (1.5, 4.0), (0.5, 2.5), 6.0)
"""A pace to watch, and within the store's limits for one address."""


class Shop(Protocol):
    """One store, and what its people work with.

    `drop` is the folder for CSV files, `scanner` the connection of the handhelds.
    Without `lines_port` there is no packing station.
    """

    @property
    def access(self) -> Access: ...
    @property
    def public_url(self) -> str: ...
    @property
    def drop(self) -> Path: ...
    @property
    def scanner(self) -> str: ...
    @property
    def device_tokens(self) -> Mapping[str, str]: ...
    @property
    def lines_port(self) -> int | None: ...
    @property
    def erp(self) -> Erp | None: ...
    @property
    def tryton(self) -> TrytonStaff | None: ...


class ShopFloor:
    """Everybody who works in a shop, and what they did.

    `placements` and `causes` grow as the work is acknowledged.
    """

    def __init__(
        self, shop: Shop, pace: Pace, rng: random.Random, clock: Clock
    ) -> None:
        self.placements: list[Placement] = []
        self.causes: list[Cause] = []
        self._shop = shop
        self._pace = pace
        self._rng = rng
        self._clock = clock
        self._packed: asyncio.Queue[Placement] = asyncio.Queue()
        drop, said = shop.drop, self.causes.append
        self._courier = Clerk(drop, workers.FULFILLMENTS, said)
        self._office = Clerk(drop, workers.CANCELLATIONS, said)
        self._keeper = Clerk(drop, workers.STOCK_DELTAS, said)
        people = pace.orders or 200
        self._customers = max(2, people * 2 // 3)
        wanted = itertools.count() if pace.orders is None else range(pace.orders)
        self._closed = False
        self._wanted = itertools.takewhile(lambda _: not self._closed, wanted)
        self._articles: Sequence[Article] = ()
        self._of_tryton: Sequence[Article] = ()
        self._counted = 0

    def close(self) -> None:
        """Sell nothing more; `play` returns when the work on the last order is done."""
        self._closed = True

    async def play(self) -> None:
        """Work until every order is placed and everything is said, or until closed."""
        async with self._equipment() as (storefront, devices):
            self._articles = await storefront.articles()
            if self._shop.tryton is not None:
                await self._shop.tryton.move_in([each.sku for each in self._articles])
                self._of_tryton = self._articles[-KEPT_BY_TRYTON:]
                self._articles = self._articles[:-KEPT_BY_TRYTON]
            async with asyncio.TaskGroup() as group:
                staff = [group.create_task(self._pack(each)) for each in devices]
                for clerk in self._clerks:
                    work = clerk.work(self._pace.paper_seconds, self._clock)
                    staff.append(group.create_task(work))
                if self._shop.tryton is not None:
                    staff.append(group.create_task(self._shop.tryton.work()))
                await self._sell(storefront)
                await self._packed.join()
                for clerk in self._clerks:
                    clerk.hand_in()
                if self._shop.tryton is not None:
                    await self._shop.tryton.finish()
                for task in staff:
                    task.cancel()

    @property
    def _clerks(self) -> tuple[Clerk, ...]:
        return (self._courier, self._office, self._keeper)

    @asynccontextmanager
    async def _equipment(
        self,
    ) -> AsyncIterator[tuple[Storefront, list[Handheld | Station]]]:
        async with AsyncExitStack() as stack:
            storefront = Storefront(self._shop.access, self._clock)
            stack.push_async_callback(storefront.close)
            devices: list[Handheld | Station] = []
            if self._shop.lines_port is not None:
                station = Station(self._shop.lines_port, self._clock)
                stack.push_async_callback(station.close)
                devices.append(station)
            for device, token in self._shop.device_tokens.items():
                url = f"{self._shop.public_url}/connect/{self._shop.scanner}"
                handheld = Handheld(device, token, url, self._clock)
                stack.push_async_callback(handheld.close)
                devices.append(handheld)
            yield storefront, devices

    async def _sell(self, storefront: Storefront) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(self._pace.shoppers):
                group.create_task(self._visit(storefront))

    async def _visit(self, storefront: Storefront) -> None:
        for number in self._wanted:
            placed = await self._buy(storefront, number)
            self.placements.append(placed)
            self._hand_over(placed)
            await self._pause(self._pace.shopper_pause)

    async def _buy(self, storefront: Storefront, number: int) -> Placement:
        """Place one order; where the shelf is empty, choose again."""
        attempt = 0
        while True:
            attempt += 1
            cart = fill_cart(self._rng, self._articles_on_sale(), self._customers)
            try:
                return await storefront.place(cart, f"shopper-{number}-{attempt}")
            except SoldOut:
                self._count()
                await self._pause(self._pace.shopper_pause)

    def _articles_on_sale(self) -> Sequence[Article]:
        """Choose where a shopper looks: an order is shipped from one place."""
        if self._of_tryton and self._rng.random() < TRYTON_SHARE:
            return self._of_tryton
        return self._articles

    def _hand_over(self, order: Placement) -> None:
        (fate,) = self._rng.choices(list(FATES), weights=list(FATES.values()))
        if fate in SHIPPED and self._is_of_tryton(order):
            self._ship_in_tryton(order)
        elif fate == SCAN:
            self._packed.put_nowait(order)
        elif fate == HOUSE and self._shop.erp is not None:
            self.causes.append(self._shop.erp.ship(order))
        elif fate in {COURIER, HOUSE}:
            self._courier.note(*workers.parcel(order))
        elif fate == CANCEL:
            self._office.note(*workers.cancellation(order))
        if len(self.placements) % ORDERS_PER_COUNT == 0:
            self._count()
            self._count_in_erp()
            self._receive_in_tryton()

    def _is_of_tryton(self, order: Placement) -> bool:
        return any(each.variant_id in order.lines for each in self._of_tryton)

    def _ship_in_tryton(self, order: Placement) -> None:
        if self._shop.tryton is not None:
            self._shop.tryton.ship(order, self.causes.append)

    def _receive_in_tryton(self) -> None:
        """Have new goods come in: nobody tells the store but the next reading."""
        if self._shop.tryton is not None:
            article = self._rng.choice(self._of_tryton)
            self._shop.tryton.receive(article.sku, self._rng.choice((6, 12)))

    def _count(self) -> None:
        """Correct an article's stock: mostly new goods, now and then a unit less."""
        article = self._rng.choice(self._of_keeper)
        delta = self._rng.choice((-1, 12, 20, 24))
        self._counted += 1
        document = f"COUNT-{self._counted:04}"
        self._keeper.note(*workers.count(document, article.sku, delta))

    def _count_in_erp(self) -> None:
        """Say how many there are of an article; orders go on meanwhile."""
        if self._shop.erp is not None:
            article = self._rng.choice(self._articles[:COUNTED_BY_ERP])
            quantity = self._rng.randrange(200, 400)
            self.causes.append(self._shop.erp.count(article.sku, quantity))

    @property
    def _of_keeper(self) -> Sequence[Article]:
        return self._articles[COUNTED_BY_ERP if self._shop.erp else 0 :]

    async def _pack(self, device: Handheld | Station) -> None:
        while True:
            order = await self._packed.get()
            await self._pause(self._pace.packing_pause)
            self.causes.append(await device.pack(order))
            self._packed.task_done()

    async def _pause(self, between: tuple[float, float]) -> None:
        await self._clock.sleep(self._rng.uniform(*between))
