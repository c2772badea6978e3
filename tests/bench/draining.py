"""Events appended to an inbox, and the drain as shipped run until it has none left."""

from __future__ import annotations

import asyncio
from time import perf_counter, process_time
from typing import TYPE_CHECKING

from backhaul.core.clock import SystemClock, to_text
from backhaul.ingest.fold_worker import FoldWorker
from backhaul.store.inbox import Arrival
from bench.orders import STORE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from backhaul.store import Store
    from backhaul.store.inbox import FoldOne, FoldReport, Inbox

APPENDED_AT_ONCE = 1_000


class Timer:
    """Tells seconds of the clock and of the processor since it was made."""

    def __init__(self) -> None:
        self._started = perf_counter(), process_time()

    def read(self) -> tuple[float, float]:
        return perf_counter() - self._started[0], process_time() - self._started[1]


async def append(store: Store, topic: str, bodies: Iterable[bytes]) -> None:
    """Append the bodies as if they had been delivered now."""
    now = to_text(SystemClock().now())
    pending = []
    for body in bodies:
        arrival = Arrival(STORE, "delivery", topic, now, b"{}", body)
        pending.append(store.inbox.append(arrival))
        if len(pending) == APPENDED_AT_ONCE:
            await asyncio.gather(*pending)
            pending.clear()
    await asyncio.gather(*pending)


class _Watched:
    """The inbox, telling when nothing is left to fold."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self.emptied = asyncio.Event()

    def append(self, arrival: Arrival) -> Awaitable[int]:
        return self._inbox.append(arrival)

    async def newest(self) -> int:
        return await self._inbox.newest()

    async def fold(self, fold_one: FoldOne, slice_seconds: float) -> FoldReport:
        report = await self._inbox.fold(fold_one, slice_seconds)
        if not report.more:
            self.emptied.set()
        return report


async def fold_all(store: Store) -> tuple[float, float]:
    """Fold all there is; return the seconds of the clock and of the processor."""
    watched = _Watched(store.inbox)
    timer = Timer()
    async with asyncio.TaskGroup() as tasks:
        drain = FoldWorker(watched, SystemClock(), {})
        running = tasks.create_task(drain.run())
        await watched.emptied.wait()
        running.cancel()
    return timer.read()
