"""Runs operator commands without a daemon, under the database lock."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from backhaul.app.actions import ActionContext, actions
from backhaul.app.jobs import Jobs
from backhaul.app.wiring import (
    build_client,
    build_dialect,
    build_reconciler,
    build_refetcher,
    build_secret_files,
    guard_identity,
    load_secrets,
)
from backhaul.connect import registry
from backhaul.connect.host import Host
from backhaul.connect.matching import Matcher
from backhaul.core.clock import SystemClock
from backhaul.ingest.fold_worker import FoldWorker, Reprocessor
from backhaul.ingest.webhook_secrets import SecretRegistry
from backhaul.maintenance.search_indexer import SLICE_SECONDS, describe
from backhaul.platform.client import StoreFacts
from backhaul.store.opening import open_store, sole_writer
from backhaul.store.sqlite.looking import SqliteLook
from backhaul.sync.diff_repair import Comparison
from backhaul.sync.on_demand import SyncDryRun, SyncEndpoint
from backhaul.sync.store_identity import known_facts, learn_facts, require_same

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping

    from backhaul.app.actions import Action
    from backhaul.platform.client import PlatformClient
    from backhaul.settings import Settings
    from backhaul.store.sqlite.database import SqliteStore
    from backhaul.sync.reconciler import Reconciler
    from backhaul.sync.refetcher import Refetcher

CLOCK = SystemClock()
CHANCE = random.SystemRandom().random


@asynccontextmanager
async def open_sync(
    settings: Settings, stores: Collection[str]
) -> AsyncIterator[SyncEndpoint]:
    """Open the database as its only writer. Raises AlreadyRunning, Fatal.

    Only the stores that are named are asked for anything.
    """
    with sole_writer(settings.state_dir):
        store = open_store(settings.database_file, CLOCK)
        store.start()
        transports = []
        clients = {}
        facts = {}
        try:
            for name in stores:
                transport, clients[name] = build_client(settings, name, CLOCK)
                transports.append(transport)
                free = guard_identity(settings, name, transport, store.marks)
                facts[name] = await learn_facts(
                    name,
                    settings.stores[name].base_url,
                    free,
                    store.marks,
                    settings.database_file,
                )
            async with _working(settings, store, clients, facts) as reconcilers:
                yield SyncEndpoint(reconcilers)
        finally:
            for transport in transports:
                await transport.close()
            await store.stop()


@asynccontextmanager
async def offline(settings: Settings) -> AsyncIterator[Mapping[str, Action]]:
    """Offer the changes that a person may ask for. Raises AlreadyRunning, Fatal."""
    with sole_writer(settings.state_dir):
        store = open_store(settings.database_file, CLOCK)
        store.start()
        try:
            signers = SecretRegistry(store.webhook_secrets, CLOCK)
            secret_files = build_secret_files(settings, lambda _: None)
            await load_secrets(settings, signers, secret_files)
            facts = {
                name: await known_facts(name, store.marks) or StoreFacts()
                for name in settings.stores
            }
            refolder = Reprocessor(store.refolds, facts, lambda: None, lambda: None)
            dialects = {name: build_dialect(settings, name) for name in settings.stores}
            jobs = Jobs(settings, store.job_runs, CLOCK)
            parts = ActionContext(
                store,
                CLOCK,
                signers,
                refolder,
                _nobody,
                dialects,
                _nobody,
                jobs,
                partial(_ask_connector, settings, store),
            )
            yield actions(parts)
            while (await store.search.follow(describe, SLICE_SECONDS)).more:
                pass
        finally:
            await store.stop()


async def _ask_connector(
    settings: Settings, store: SqliteStore, name: str
) -> dict[str, int]:
    """Ask one connector for its records; what it asks for waits for the daemon."""
    own = settings.connectors[name]
    matcher = Matcher(CLOCK, settings.connect.match_wait)
    matcher.hold(settings.stores)
    host = Host(
        registry.build(name, own.type, own.options),
        own.store,
        own.every,
        store.records,
        matcher,
        CLOCK,
        _nobody,
        CHANCE,
    )
    try:
        return await host.once()
    finally:
        await host.close()


def _nobody() -> None:
    """Nobody waits to be woken: the next start finds what was changed."""


@asynccontextmanager
async def _working(
    settings: Settings,
    store: SqliteStore,
    clients: Mapping[str, PlatformClient],
    facts: Mapping[str, StoreFacts],
) -> AsyncIterator[dict[str, Reconciler]]:
    """Fold, and read again what is in doubt, as long as it is asked for."""
    rereaders: list[Refetcher] = []

    def asked() -> None:
        for rereader in rereaders:
            rereader.wake()

    drain = FoldWorker(store.inbox, CLOCK, facts, lambda: None, asked)
    reconcilers = {}
    for name, client in clients.items():
        rereaders.append(
            build_refetcher(name, store, client, drain, CLOCK, CHANCE),
        )
        reconcilers[name] = build_reconciler(
            settings, name, store, client, drain, CLOCK, CHANCE, facts, asked
        )
    async with asyncio.TaskGroup() as group:
        loops = [drain.run, *(rereader.run for rereader in rereaders)]
        tasks = [group.create_task(run()) for run in loops]
        try:
            yield reconcilers
            await drain.caught_up()
        finally:
            for task in tasks:
                task.cancel()


@asynccontextmanager
async def open_dry_run(settings: Settings, name: str) -> AsyncIterator[SyncDryRun]:
    """Open what a dry run needs: the platform, and the database to be read."""
    transport, client = build_client(settings, name, CLOCK)
    look = SqliteLook(settings.database_file)

    async def nothing() -> None:
        """Nothing is folded here; what is on its way has its grace."""

    try:
        facts = await client.facts()
        base_url, file = settings.stores[name].base_url, settings.database_file
        require_same(name, base_url, await known_facts(name, look), facts, file)
        mirror = Comparison(name, look, lambda: facts.currency, nothing)
        yield SyncDryRun(client, mirror, CLOCK, settings.reconcile.grace)
    finally:
        look.close()
        await transport.close()
