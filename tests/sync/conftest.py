"""A store's client, its server, and a real store to write to."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from backhaul.ingest.fold_worker import FoldWorker
from backhaul.platform.client import PlatformClient, StoreFacts
from backhaul.platform.transport import Limits, Transport
from backhaul.runtime.signals import StoreContext
from backhaul.settings import Reconcile
from backhaul.sync.diff_repair import MirrorRepair
from backhaul.sync.sync_scheduler import Reconciler, SyncState, nothing
from scenes import payloads
from scenes.clock import RunningClock, VirtualClock
from scenes.databases import started_store
from scenes.pushing import Platform
from scenes.scripted_platform import Server, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from backhaul.store import Place as DatabasePlace
    from backhaul.store import Store

LIMITS = Limits(connect_seconds=60, read_seconds=10, max_response_bytes=1_000_000)
API_KEY = "svc_live_reconciling0123456789"


@dataclass(frozen=True, slots=True)
class Place:
    """The parts that the sync needs: platform, store, clock and client."""

    platform: Platform
    server: Server
    store: Store
    clock: VirtualClock
    client: PlatformClient


@pytest.fixture
async def place(database: DatabasePlace) -> AsyncIterator[Place]:
    async with opened(database, RunningClock()) as made:
        yield made


@asynccontextmanager
async def opened(database: DatabasePlace, clock: VirtualClock) -> AsyncIterator[Place]:
    """Open a store, a platform and its client, all on one clock."""
    platform = Platform()
    async with (
        started_store(database, clock) as store,
        serving(platform) as server,
    ):
        transport = Transport(server.url, API_KEY, LIMITS, clock)
        yield Place(platform, server, store, clock, PlatformClient(transport))
        await transport.close()


FACTS = StoreFacts(payloads.STORE_ID, "INR", ("updatedSince",))


@asynccontextmanager
async def reconciling(
    place: Place, guard: Callable[[], Awaitable[None]] = nothing
) -> AsyncIterator[Reconciler]:
    """Run the fold worker and yield a reconciler; `guard` checks the subscription."""
    drain = FoldWorker(place.store.inbox, place.clock, {"main": FACTS})
    repair = MirrorRepair(
        "main",
        place.store.mirror,
        place.store.inbox,
        lambda: "INR",
        drain.wake,
        drain.caught_up,
    )
    folding = asyncio.ensure_future(drain.run())
    try:
        store = place.store
        yield Reconciler(
            StoreContext("main", place.clock, lambda: 0.5),
            place.client,
            repair,
            SyncState(store.passes, store.refetch_queue, store.kv),
            lambda: FACTS,
            Reconcile(),
            guard,
        )
        await drain.caught_up()
    finally:
        folding.cancel()
        with suppress(asyncio.CancelledError):
            await folding
