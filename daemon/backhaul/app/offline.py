"""Runs operator commands without a daemon, under the database lock."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from backhaul.app.actions import ActionContext, actions
from backhaul.app.cluster import joining
from backhaul.app.jobs import Jobs
from backhaul.app.receiver_files import LeftFiles
from backhaul.app.wiring import (
    build_client,
    build_dialect,
    build_keyrings,
    build_reconciler,
    guard_identity,
    load_secrets,
)
from backhaul.connect import registry
from backhaul.connect.host import Host
from backhaul.connect.polling import PollSchedule
from backhaul.connect.record_matching import Matcher
from backhaul.connect.submissions import Submissions
from backhaul.core.clock import SystemClock
from backhaul.errors import AlreadyRunning
from backhaul.ingest.fold_worker import FoldWorker, Reprocessor
from backhaul.ingest.webhook_secrets import SecretRegistry
from backhaul.maintenance.search_indexer import SLICE_SECONDS, describe
from backhaul.platform.client import StoreFacts
from backhaul.runtime.signals import SharedSignals, StoreContext
from backhaul.store import database_at, open_store
from backhaul.store.database import sole_writer
from backhaul.sync.diff_repair import Comparison
from backhaul.sync.on_demand import SyncDryRun, SyncEndpoint
from backhaul.sync.refetcher import Refetcher
from backhaul.sync.store_identity import known_facts, learn_facts, require_same

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping

    from backhaul.app.actions import Action
    from backhaul.platform.client import PlatformClient
    from backhaul.settings import Settings
    from backhaul.store import Store
    from backhaul.sync.sync_scheduler import Reconciler

CLOCK = SystemClock()
CHANCE = random.SystemRandom().random


@asynccontextmanager
async def open_sync(
    settings: Settings, stores: Collection[str]
) -> AsyncIterator[SyncEndpoint]:
    """Open the database as its only writer, to sync. Raises AlreadyRunning, Fatal.

    Only the platforms of the named `stores` get requests.
    """
    with sole_writer(settings.state_dir):
        store = await _opened(settings)
        transports = []
        clients = {}
        facts = {}
        try:
            for name in stores:
                transport, free = build_client(settings, name, CLOCK)
                transports.append(transport)
                clients[name] = guard_identity(settings, name, free, store.kv)
                facts[name] = await learn_facts(
                    name,
                    settings.stores[name].base_url,
                    free,
                    store.kv,
                    settings.database_name,
                )
            async with _working(settings, store, clients, facts) as reconcilers:
                yield SyncEndpoint(reconcilers)
        finally:
            for transport in transports:
                await transport.close()
            await store.stop()


async def _opened(settings: Settings) -> Store:
    """Open and start the store as its owner. Raises AlreadyRunning, Fatal."""
    member = joining(settings, roles=("command",))
    store = open_store(settings.place, CLOCK, member=member)
    store.start()
    await store.ownership.join(settings.stores, settings.pins)
    if await store.ownership.take_all():
        return store
    owners = [each for each in await store.ownership.members() if each.is_owner]
    await store.stop()
    where = f" on {owners[0].host} (see {owners[0].admin_url})" if owners else ""
    raise AlreadyRunning(
        f"{settings.database_name}: a daemon{where} owns this database; run the command"
        " there, or stop that daemon first"
    )


@asynccontextmanager
async def offline(settings: Settings) -> AsyncIterator[Mapping[str, Action]]:
    """Yield the operator actions, without a daemon. Raises AlreadyRunning, Fatal."""
    with sole_writer(settings.state_dir):
        store = await _opened(settings)
        try:
            signers = SecretRegistry(store.webhook_secrets, CLOCK)
            keyrings = build_keyrings(settings, store, lambda _: None)
            await load_secrets(settings, signers, keyrings)
            facts = {
                name: await known_facts(name, store.kv) or StoreFacts()
                for name in settings.stores
            }
            reprocessor = Reprocessor(store.reprocessing, facts)
            dialects = {name: build_dialect(settings, name) for name in settings.stores}
            jobs = Jobs(settings, store.job_runs, CLOCK)
            parts = ActionContext(
                store,
                CLOCK,
                signers,
                reprocessor,
                SharedSignals(),
                dialects,
                jobs,
                partial(_ask_connector, settings, store),
                Submissions(store.records, _holding(settings), lambda _: None),
                receivers=LeftFiles(settings.state_dir, store.inbox, CLOCK),
            )
            yield actions(parts)
            while (await store.search.follow(describe, SLICE_SECONDS)).more:
                pass
        finally:
            await store.stop()


def _holding(settings: Settings) -> Matcher:
    """Return a matcher that quarantines no record because its order is unknown."""
    matcher = Matcher(CLOCK, settings.connect.match_wait)
    matcher.hold(settings.stores)
    return matcher


async def _ask_connector(settings: Settings, store: Store, name: str) -> dict[str, int]:
    """Ask one connector for its records; the daemon matches them when it starts."""
    own = settings.connectors[name]
    matcher = _holding(settings)
    host = Host(
        registry.build(name, own.type, own.options),
        StoreContext(own.store, CLOCK, CHANCE),
        PollSchedule(CLOCK, own.every),
        store.records,
        store.documents,
        matcher,
    )
    try:
        return await host.once()
    finally:
        await host.close()


@asynccontextmanager
async def _working(
    settings: Settings,
    store: Store,
    clients: Mapping[str, PlatformClient],
    facts: Mapping[str, StoreFacts],
) -> AsyncIterator[dict[str, Reconciler]]:
    """Run the fold worker and the refetchers while the context is open."""
    signals = SharedSignals()
    fold_worker = FoldWorker(store.inbox, CLOCK, facts, signals)
    loops = [fold_worker.run]
    reconcilers = {}
    for name, client in clients.items():
        context = StoreContext(name, CLOCK, CHANCE)
        refetcher = Refetcher(context, client, store.inbox, store.refetch_queue)
        context.signals.events_arrived.connect(fold_worker.wake)
        signals.conflict_found.connect(refetcher.wake)
        loops.append(refetcher.run)
        known = partial(facts.__getitem__, name)
        reconcilers[name] = build_reconciler(
            settings, context, store, client, fold_worker, known
        )
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run()) for run in loops]
        try:
            yield reconcilers
            await fold_worker.caught_up()
        finally:
            for task in tasks:
                task.cancel()


@asynccontextmanager
async def open_dry_run(settings: Settings, name: str) -> AsyncIterator[SyncDryRun]:
    """Open the platform, and the database read-only, for a dry run."""
    transport, client = build_client(settings, name, CLOCK)

    async def nothing() -> None:
        """Do nothing: a dry run folds no events, it only waits for the grace time."""

    base_url, mirror = settings.stores[name].base_url, settings.database_name
    try:
        with database_at(settings.place).readable() as store:
            facts = await client.facts()
            known = await known_facts(name, store.mirror)
            require_same(name, base_url, known, facts, mirror)
            compared = Comparison(name, store.mirror, lambda: facts.currency, nothing)
            yield SyncDryRun(client, compared, CLOCK, settings.reconcile.grace)
    finally:
        await transport.close()
