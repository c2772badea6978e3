"""The people who work in the demo's Tryton, one thing after the other."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from backhaul.core.clock import to_text
from backhaul.demo.books import counted_since, records_from
from backhaul.demo.causes import Cause
from backhaul.demo.home import KEPT_BY_TRYTON, TRYTON
from backhaul.demo.tryton_house import House
from backhaul.demo.tryton_server import server_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.demo.causes import Placement
    from backhaul.demo.home import Home
    from backhaul.demo.programs import Program
    from backhaul.demo.sales import TrytonBooks
    from backhaul.demo.tryton_server import TrytonServer

T = TypeVar("T")
FIRST_STOCK = 300
LOOK_SECONDS, PATIENCE_SECONDS = 0.5, 300.0


class TrytonStaff:
    """Ships orders and takes goods in. Its library works in a thread of its own."""

    def __init__(self, server: TrytonServer, program: Program, clock: Clock) -> None:
        self.server = server
        self.program = program
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "tryton")
        self._house: House | None = None
        self._work: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()
        self._shipped = 0
        self._done_at = ""

    async def move_in(self, skus: Sequence[str]) -> None:
        """Log in, and make every article that the store sells.

        The last ones are kept here, and nobody else may say how many there are.
        """
        house = await self._do(House, self.server.url, self.server.password)
        self._house = house
        await self._do(house.add_services, skus[:-KEPT_BY_TRYTON])
        await self._do(house.add_goods, skus[-KEPT_BY_TRYTON:], FIRST_STOCK)

    async def close(self) -> None:
        """Log out, once what is being done is done."""
        if self._house is not None:
            await self._do(self._house.close)
        self._thread.shutdown()

    def ship(self, order: Placement, said: Callable[[Cause], None]) -> None:
        """Have an order shipped as soon as it is a sale; `said` hears of it."""

        async def work() -> None:
            if (cause := await self._ship(order)) is not None:
                said(cause)

        self._work.put_nowait(work)

    def receive(self, sku: str, quantity: int) -> None:
        """Have goods taken in."""

        async def work() -> None:
            await self._do(self._here.receive, sku, quantity)

        self._work.put_nowait(work)

    async def work(self) -> None:
        """Do what comes up, for ever. Cancel to stop."""
        while True:
            task = await self._work.get()
            await task()
            self._done_at = to_text(self._clock.now())
            self._work.task_done()

    async def finish(self) -> None:
        """Wait until all that came up is done."""
        await self._work.join()

    def untold(self, database: Path) -> int:
        """Return what the daemon has not heard: shipments, and levels since then."""
        shipments = self._shipped - records_from(database, TRYTON, "shipment %")
        levels = KEPT_BY_TRYTON - counted_since(database, TRYTON, self._done_at)
        return max(shipments, 0) + levels

    async def books(self) -> TrytonBooks:
        """Return what Tryton holds."""
        return await self._do(self._here.books)

    @property
    def _here(self) -> House:
        assert self._house is not None, "nobody has moved in"  # noqa: S101 - as it says
        return self._house

    async def _ship(self, order: Placement) -> Cause | None:
        """Ship it; without a sale there is nothing to ship, and the ledger tells."""
        until = self._clock.monotonic() + PATIENCE_SECONDS
        while not await self._do(self._here.has_sale, order.order_id):
            if self._clock.monotonic() > until:
                return None
            await self._clock.sleep(LOOK_SECONDS)
        tracking = f"TR{order.number:06}"
        number = await self._do(self._here.ship, order.order_id, tracking)
        self._shipped += 1
        return Cause(
            kind="fulfill",
            instance=TRYTON,
            locator=f"shipment {number}",
            order_id=order.order_id,
            tracking_number=tracking,
        )

    async def _do(self, work: Callable[..., T], *arguments: object) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, work, *arguments)


@asynccontextmanager
async def open_tryton(
    home: Home, port: int, kept: Path, clock: Clock
) -> AsyncIterator[TrytonStaff]:
    """Run a server on a copy of the database that is kept."""
    server = server_for(home, port, kept)
    program = server.program(home.path / "tryton.log", clock)
    staff = TrytonStaff(server, program, clock)
    try:
        await program.start()
        yield staff
    finally:
        await staff.close()
        await program.stop()
