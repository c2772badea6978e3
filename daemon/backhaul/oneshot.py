"""Reconciliation without a daemon: takes the lock, reads, folds, and ends."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from backhaul.app import build_client, build_reconciler
from backhaul.core.clock import SystemClock
from backhaul.ingest.drain import Drain
from backhaul.reconcile.acquaintance import acquaint
from backhaul.reconcile.desk import Desk
from backhaul.reconcile.rehearsing import Rehearsal
from backhaul.reconcile.repairing import Comparison
from backhaul.store.opening import open_store, sole_writer
from backhaul.store.sqlite.looking import SqliteLook

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from backhaul.settings import Settings
    from backhaul.shop.client import StoreFacts


@asynccontextmanager
async def desk(settings: Settings) -> AsyncIterator[Desk]:
    """Open the database as its only writer. Raises AlreadyRunning, Fatal."""
    clock, chance = SystemClock(), random.SystemRandom().random
    facts: dict[str, StoreFacts] = {}
    with sole_writer(settings.state_dir):
        store = open_store(settings.database_file, clock)
        store.start()
        drain = Drain(store.inbox, clock, facts, lambda: None)
        transports, reconcilers = [], {}
        try:
            for name, shop in settings.stores.items():
                transport, client = build_client(settings, name, clock)
                transports.append(transport)
                facts[name] = await acquaint(name, shop.base_url, client, store.marks)
                reconcilers[name] = build_reconciler(
                    settings, name, store, client, drain, clock, chance, facts
                )
            async with asyncio.TaskGroup() as group:
                folding = group.create_task(drain.run())
                yield Desk(reconcilers)
                await drain.caught_up()
                folding.cancel()
        finally:
            for transport in transports:
                await transport.close()
            await store.stop()


@asynccontextmanager
async def rehearsal(settings: Settings, name: str) -> AsyncIterator[Rehearsal]:
    """Open what a dry run needs: the platform, and the database to be read."""
    clock = SystemClock()
    transport, client = build_client(settings, name, clock)
    look = SqliteLook(settings.database_file)
    facts = await client.facts()

    async def nothing() -> None:
        """Nothing is folded here; what is on its way has its grace."""

    try:
        mirror = Comparison(name, look, lambda: facts.currency, nothing)
        yield Rehearsal(client, mirror, clock, settings.reconcile.grace)
    finally:
        look.close()
        await transport.close()
