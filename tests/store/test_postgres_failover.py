"""Confirmed rows are there after a failover, whatever happened to the commit."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

import psycopg
import pytest

from backhaul.core.clock import SystemClock
from backhaul.errors import Busy, WriterFailed
from backhaul.store.postgres.connection import CommitUnknown, Connection
from backhaul.store.postgres.database import open_store
from backhaul.store.sql.operations import kv
from backhaul.store.testing.event_scenes import webhook
from scenes.postgres import PASSWORD, USER
from scenes.postgres_nodes import COMMIT_ALONE, END_OF_COPY, postgres_nodes
from scenes.tcp_relay import tcp_relay
from scenes.waiting import await_true

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from backhaul.store.postgres.database import PostgresStore
    from scenes.postgres_nodes import Nodes
    from scenes.tcp_relay import Relay

pytestmark = pytest.mark.programs

ROWS = 20
UNKNOWN = "unknown"
WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    with postgres_nodes() as started:
        yield started


def address(port: int) -> str:
    return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{port}/postgres"


async def opened(url: str) -> PostgresStore:
    store = await asyncio.to_thread(open_store, url, SystemClock())
    store.start()
    return store


async def put(store: PostgresStore, *names: str) -> None:
    """Write each name, and retry until the store confirms it."""
    for name in names:
        await put_one(store, name)


async def put_one(store: PostgresStore, name: str) -> None:
    while True:
        with suppress(Busy):
            return await store.kv.put(name, "kept")


async def write_unknown(store: PostgresStore) -> None:
    """Write in a unit that must not run twice, so its commit must be known."""
    await store.engine.write(lambda connection: kv.put(connection, UNKNOWN, "kept"))


def waiting_commit(nodes: Nodes) -> int:
    """Wait for a process whose commit waits for a replica; return its id."""
    with nodes.connect() as connection:

        def waiting() -> list[int]:
            return [pid for (pid,) in connection.execute(WAITING)]

        return await_true(waiting, "a commit waits for a standby")[0]


async def cut_before(nodes: Nodes, relay: Relay, store: PostgresStore) -> None:
    """Lose the connection before COMMIT reaches the server."""
    relay.cut_before = COMMIT_ALONE
    with pytest.raises(Busy):
        await write_unknown(store)


async def cut_after(nodes: Nodes, relay: Relay, store: PostgresStore) -> None:
    """Lose the connection after the server answered COMMIT."""
    relay.cut_after = COMMIT_ALONE
    with pytest.raises(Busy):
        await write_unknown(store)


async def killed(nodes: Nodes, relay: Relay, store: PostgresStore) -> None:
    """Lose the server while COMMIT waits for a replica that receives nothing."""
    for standby in nodes.standbys:
        await asyncio.to_thread(nodes.stall, standby)
    writing = asyncio.ensure_future(write_unknown(store))
    await asyncio.to_thread(waiting_commit, nodes)
    await asyncio.to_thread(nodes.kill_primary)
    with pytest.raises(Busy):
        await writing


Loss: TypeAlias = "Callable[[Nodes, Relay, PostgresStore], Awaitable[None]]"


@pytest.mark.parametrize(
    ("lose", "is_kept"), [(cut_before, False), (cut_after, True), (killed, False)]
)
async def test_an_unknown_commit_ends_the_writer_and_loses_no_other(
    nodes: Nodes, lose: Loss, is_kept: bool
) -> None:
    """The daemon gets the same error, whether the commit succeeded or not."""
    names = [str(number) for number in range(ROWS)]
    async with tcp_relay(nodes.primary.port) as relay:
        store = await opened(address(relay.port))
        await put(store, *names)
        await lose(nodes, relay, store)
        with pytest.raises(WriterFailed, match="lost during a commit"):
            await store.watch()
        await store.stop()
        relay.cut_before = relay.cut_after = None
        await asyncio.to_thread(nodes.kill_primary)
        relay.upstream = (await asyncio.to_thread(nodes.promote)).port
        store = await opened(address(relay.port))
        assert [await store.kv.get(name) for name in names] == ["kept"] * ROWS
        assert (await store.kv.get(UNKNOWN) == "kept") is is_kept
        await store.stop()


async def test_a_store_at_rest_follows_the_new_primary(nodes: Nodes) -> None:
    store = await opened(nodes.url)
    await put(store, "before")
    await asyncio.to_thread(nodes.kill_primary)
    writing = asyncio.create_task(put(store, "meanwhile"))
    await asyncio.to_thread(nodes.promote)
    await writing
    await put(store, "after")
    for name in ("before", "meanwhile", "after"):
        assert await store.kv.get(name) == "kept"
    assert (await store.read(lambda reader: reader.counts())).to_fold == 0
    await store.stop()


async def test_events_are_appended_at_once_when_there_is_no_other_work(
    nodes: Nodes,
) -> None:
    async with tcp_relay(nodes.primary.port) as relay:
        store = await opened(address(relay.port))
        await store.inbox.append(webhook("opens the stream"))
        relay.counted, relay.seen = b"; COMMIT\0", 0
        events = [webhook(f"{number}") for number in range(ROWS)]
        ids = await asyncio.gather(*map(store.inbox.append, events))
        assert relay.seen == 1
        await store.stop()
    assert ids == sorted(ids)
    assert in_inbox(nodes) == ["opens the stream", *(f"{n}" for n in range(ROWS))]


@pytest.mark.parametrize(("cut", "count"), [("cut_before", 1), ("cut_after", 2)])
async def test_an_event_is_appended_again_when_its_commit_is_unknown(
    nodes: Nodes, cut: str, count: int
) -> None:
    """The inbox may have it twice then; its body says that it is a repeat."""
    async with tcp_relay(nodes.primary.port) as relay:
        store = await opened(address(relay.port))
        await store.inbox.append(webhook("opens the stream"))
        relay.when_cut = lambda: setattr(relay, cut, None)
        setattr(relay, cut, END_OF_COPY)
        await store.inbox.append(webhook("event"))
        assert getattr(relay, cut) is None
        await store.inbox.append(webhook("next"))
        await store.stop()
    assert in_inbox(nodes) == ["opens the stream", *["event"] * count, "next"]


async def test_an_event_gets_its_own_id_though_the_database_lost_some(
    nodes: Nodes,
) -> None:
    """As if a pooler had led to a replica whose ids are smaller than those so far."""
    store = await opened(nodes.url)
    last = await store.inbox.append(webhook("opens the stream"))
    store.engine.receiver._newest = last + 1
    events = [webhook(f"{number}") for number in range(ROWS)]
    ids = await asyncio.gather(*map(store.inbox.append, events))
    await store.stop()
    with nodes.connect() as connection:
        rows = connection.execute("SELECT id, body FROM inbox").fetchall()
    bodies = {id_: body.decode() for id_, body in rows}
    assert [bodies[each] for each in ids] == [f"{n}" for n in range(ROWS)]


def in_inbox(nodes: Nodes) -> list[str]:
    with nodes.connect() as connection:
        rows = connection.execute("SELECT body FROM inbox ORDER BY id")
        return [body.decode() for (body,) in rows]


def test_a_commit_whose_wait_was_cancelled_is_unknown(nodes: Nodes) -> None:
    """The server answers such a commit like a normal one."""
    nodes.primary.run("CREATE TABLE kept (number integer)")
    connection = Connection(nodes.url)
    connection.execute("BEGIN")
    connection.execute("INSERT INTO kept VALUES (1)")
    for standby in nodes.standbys:
        nodes.stall(standby)
    with ThreadPoolExecutor() as pool:
        committing = pool.submit(connection.execute, "COMMIT")
        waits = waiting_commit(nodes)
        nodes.primary.run(f"SELECT pg_cancel_backend({waits})")
        with pytest.raises(CommitUnknown, match="the server only"):
            committing.result()
    connection.close()


@pytest.mark.parametrize(
    "write",
    [
        lambda connection: connection.execute("CREATE TABLE kept (number integer)"),
        lambda connection: connection.copy_in("COPY pg_am FROM STDIN", [], "SELECT 1"),
    ],
    ids=["statement", "copy"],
)
def test_a_writer_leaves_a_server_that_is_a_standby(
    nodes: Nodes, write: Callable[[Connection], object]
) -> None:
    """A load balancer may have chosen it; the next connection may be better."""
    connection = Connection(address(nodes.standbys[0].port))
    connection.execute("BEGIN")
    with pytest.raises(psycopg.OperationalError, match="the server only reads"):
        write(connection)
    assert connection.limits.closed
