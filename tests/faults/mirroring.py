"""What keeps a mirror equal, put together as the daemon does, on a clock that runs."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from backhaul.app.wiring import build_client, build_reconciler
from backhaul.core.clock import SystemClock, to_text
from backhaul.ingest.fold_worker import FoldWorker
from backhaul.runtime.signals import SharedSignals, StoreContext
from backhaul.sync.refetcher import Refetcher
from backhaul.sync.resource_types import FULL, KINDS
from backhaul.sync.store_identity import learn_facts
from scenes.clock import RunningClock
from scenes.databases import started_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Sequence
    from pathlib import Path

    from backhaul.platform.client import StoreFacts
    from backhaul.settings import Settings
    from backhaul.store.inbox import Arrival
    from backhaul.store.sqlite.database import SqliteStore
    from backhaul.sync.sync_scheduler import Reconciler

STORE = "main"
PART = 100
"""The number of webhooks that arrive at once."""


@dataclass(frozen=True, slots=True)
class Mirror:
    """One store's mirror and the parts that fill it."""

    store: SqliteStore
    clock: RunningClock
    drain: FoldWorker
    rereader: Refetcher
    reconciler: Reconciler

    async def take(self, arrivals: Sequence[Arrival]) -> None:
        """Append webhooks in this order, in parts, and fold them."""
        for first in range(0, len(arrivals), PART):
            now = to_text(self.clock.now())
            part = [a._replace(received_at=now) for a in arrivals[first : first + PART]]
            await asyncio.gather(*(self.store.inbox.append(one) for one in part))
            await self.drain.caught_up()
            await self.clock.sleep(1)

    async def fill(self) -> None:
        """Run the backfill."""
        await self.reconciler.backfill()
        await self.settle()

    async def sweep(self) -> None:
        """Run one full sync of every list."""
        await self.reconciler.read_lists(FULL, KINDS)
        await self.settle()

    async def settle(self) -> None:
        """Wait until nothing is left to do: all conflicts are refetched."""
        self.rereader.release()
        while await self.store.refetch_queue.next_due(STORE):
            self.rereader.wake()
            await self.clock.sleep(1)
            await self.drain.caught_up()


@asynccontextmanager
async def mirroring(settings: Settings, path: Path) -> AsyncIterator[Mirror]:
    """Start with an empty mirror; run the fold worker and the refetcher."""
    clock = RunningClock(SystemClock().now())
    known: dict[str, StoreFacts] = {}
    transport, client = build_client(settings, STORE, clock)
    async with AsyncExitStack() as at_end:
        at_end.push_async_callback(transport.close)
        store = await at_end.enter_async_context(started_store(path, clock))
        base_url = settings.stores[STORE].base_url
        known[STORE] = await learn_facts(STORE, base_url, client, store.kv, str(path))
        signals, context = SharedSignals(), StoreContext(STORE, clock, _middling)
        drain = FoldWorker(store.inbox, clock, known, signals)
        context.signals.events_arrived.connect(drain.wake)
        rereader = Refetcher(context, client, store.inbox, store.refetch_queue)
        signals.conflict_found.connect(rereader.wake)
        reconciler = build_reconciler(
            settings, context, store, client, drain, lambda: known[STORE]
        )
        await at_end.enter_async_context(_beside(drain.run(), rereader.run()))
        yield Mirror(store, clock, drain, rereader, reconciler)


def _middling() -> float:
    return 0.5


@asynccontextmanager
async def _beside(*works: Coroutine[None, None, None]) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
