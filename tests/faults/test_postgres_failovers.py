"""The primary of three PostgreSQL servers is killed repeatedly under load."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import SystemClock
from backhaul.errors import Busy, DatabaseUnavailable
from backhaul.store.inbox import Arrival
from backhaul.store.postgres.database import open_store
from faults.trials import LONG, chances, tell
from scenes import stored
from scenes.postgres_nodes import postgres_nodes
from scenes.waiting import PAUSE_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from backhaul.store.postgres.database import PostgresStore
    from scenes.postgres_nodes import Nodes

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3_600 if LONG else 600)]

FAILOVERS = 40 if LONG else 3
PRODUCERS = 8
EVENTS_BETWEEN = 100
"""So many events are confirmed before the next server dies."""
LONGEST_PAUSE_SECONDS = 0.1
NOON = "2026-03-01T12:00:00.000Z"
CLOCK = SystemClock()


@dataclass(slots=True)
class Load:
    """Producers of events, and a store that is opened again whenever it ends."""

    url: str
    store: PostgresStore
    confirmed_events: set[bytes] = field(default_factory=set)
    confirmed: set[str] = field(default_factory=set)
    """The names of values."""
    restarts: int = 0
    _next: int = 0

    async def produce(self) -> None:
        """Append events, and write values, one after another."""
        while True:
            self._next += 1
            number = str(self._next)
            body = number.encode()
            try:
                await self.store.inbox.append(
                    Arrival("main", "delivery", "", NOON, b"{}", body)
                )
                self.confirmed_events.add(body)
                await self.store.kv.put(number, number)
                self.confirmed.add(number)
            except Busy:
                await CLOCK.sleep(PAUSE_SECONDS)

    async def restart(self) -> None:
        """Open the store again each time its writer ends, as systemd does."""
        while True:
            await asyncio.wait([asyncio.ensure_future(self.store.watch())])
            await self.store.stop()
            self.store = await opened(self.url)
            self.restarts += 1

    async def await_more(self, events: int = EVENTS_BETWEEN) -> None:
        """Wait until so many more events are confirmed."""
        wanted = len(self.confirmed_events) + events
        await until(lambda: len(self.confirmed_events) >= wanted, "events")


async def opened(url: str) -> PostgresStore:
    while True:
        with suppress(DatabaseUnavailable):
            store = await asyncio.to_thread(open_store, url, CLOCK)
            store.start()
            return store


@asynccontextmanager
async def load_on(nodes: Nodes) -> AsyncIterator[Load]:
    load = Load(nodes.url, await opened(nodes.url))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(load.produce()) for _ in range(PRODUCERS)]
        tasks.append(group.create_task(load.restart()))
        try:
            yield load
        finally:
            for task in tasks:
                task.cancel()
    await load.store.stop()


async def lost_by(nodes: Nodes, load: Load) -> set[bytes]:
    """Return the confirmed events and values that the primary lacks."""
    kept = set(await asyncio.to_thread(stored.bodies, nodes.url))
    store = await opened(nodes.url)
    values = [each for each in load.confirmed if await store.kv.get(each) is None]
    await store.stop()
    return (load.confirmed_events - kept) | {each.encode() for each in values}


async def test_failovers_under_load_lose_nothing_that_was_confirmed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    random = chances()
    with postgres_nodes() as nodes:
        async with load_on(nodes) as load:
            for _ in range(FAILOVERS):
                await load.await_more()
                if random.random() < 0.5:
                    behind = random.choice(nodes.standbys)
                    await asyncio.to_thread(nodes.stall, behind)
                    await load.await_more()
                await CLOCK.sleep(random.uniform(0, LONGEST_PAUSE_SECONDS))
                old = await asyncio.to_thread(nodes.kill_primary)
                await asyncio.to_thread(nodes.promote)
                await asyncio.to_thread(nodes.rejoin, old)
            await load.await_more()
        lost = await lost_by(nodes, load)
    more = f"{len(load.confirmed_events)} events, {load.restarts} restarts"
    tell(capsys, len(lost), FAILOVERS, more)
    assert lost == set()


async def test_no_write_is_confirmed_that_only_the_primary_has() -> None:
    with postgres_nodes() as nodes:
        async with load_on(nodes) as load:
            await load.await_more()
            for standby in nodes.standbys:
                await asyncio.to_thread(nodes.stall, standby)
            wanted = len(load.confirmed_events) + EVENTS_BETWEEN
            while not await asyncio.to_thread(nodes.commits_wait):
                if len(load.confirmed_events) > wanted:
                    break  # nothing waits, so these are lost
                await CLOCK.sleep(PAUSE_SECONDS)
            await asyncio.to_thread(nodes.kill_primary)
            await asyncio.to_thread(nodes.promote)
            await load.await_more()
        assert await lost_by(nodes, load) == set()


async def test_without_a_quorum_a_failover_loses_confirmed_writes() -> None:
    """The test above would find a loss."""
    with postgres_nodes(synchronous=False) as nodes:
        async with load_on(nodes) as load:
            await load.await_more()
            for standby in nodes.standbys:
                await asyncio.to_thread(nodes.stall, standby)
            await load.await_more()
            await asyncio.to_thread(nodes.kill_primary)
            await asyncio.to_thread(nodes.promote)
        assert len(await lost_by(nodes, load)) >= EVENTS_BETWEEN
