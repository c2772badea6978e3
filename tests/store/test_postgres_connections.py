"""What the PostgreSQL engine does when its server cannot do a request."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing, suppress
from typing import TYPE_CHECKING, cast

import psycopg
import pytest

from backhaul.core.clock import SystemClock
from backhaul.errors import BackhaulError, Busy, ReadFailed, WriterFailed
from backhaul.store import database_at
from backhaul.store.inbox import Arrival
from backhaul.store.ownership import Member
from backhaul.store.postgres import connection
from backhaul.store.postgres.connection import CommitUnknown, Connection
from backhaul.store.postgres.database import open_store
from backhaul.store.postgres.dialect import without_zeros
from backhaul.store.postgres.engine import PostgresEngine
from backhaul.store.postgres.fence import Fence
from backhaul.store.postgres.streams import FEWEST
from backhaul.store.sql.operations import kv
from backhaul.store.testing.event_scenes import webhook
from scenes.databases import append, fold_as_demo, locked
from scenes.postgres import PASSWORD, USER, postgres
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from backhaul.store import Store
    from backhaul.store.read_models import Reader
    from scenes.postgres import Postgres
    from scenes.postgres_databases import PostgresDatabases

pytestmark = pytest.mark.programs

END_AT_COMMIT = (
    """
    CREATE FUNCTION end_session() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$
    """,
    """
    CREATE CONSTRAINT TRIGGER ends AFTER INSERT ON kv
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION end_session()
    """,
)
END_OTHERS = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid != pg_backend_pid()
"""
STREAMS = "SELECT stream FROM inbox ORDER BY id"
ONLY_READ = "default_transaction_read_only"
RELOAD = "SELECT pg_reload_conf()"


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as started:
        yield started


def address(server: Postgres) -> str:
    return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{server.port}/postgres"


async def test_a_connection_that_was_lost_at_rest_is_opened_again(
    server: Postgres,
) -> None:
    """No request is open, so nothing notices the loss."""
    store = open_store(address(server), SystemClock())
    store.start()
    await store.kv.put("a", "1")
    assert (await store.read(lambda reader: reader.counts())).to_fold == 0
    server.run(END_OTHERS)
    assert (await store.read(lambda reader: reader.counts())).to_fold == 0
    await store.kv.put("b", "2")
    assert await store.kv.get("b") == "2"
    await store.stop()


async def test_a_new_connection_appends_to_a_new_stream(server: Postgres) -> None:
    """On a new primary without the old stream, its events would never be folded."""
    store = open_store(address(server), SystemClock())
    store.start()
    event = Arrival("main", "delivery", "", "2026-03-01T12:00:00.000Z", b"{}", b"{}")
    await store.inbox.append(event)
    await store.inbox.append(event)
    server.run(END_OTHERS)
    await store.inbox.append(event)
    with server.connect("public") as connection:
        streams = [stream for (stream,) in connection.execute(STREAMS)]
    assert streams[0] == streams[1] != streams[2]
    await store.stop()


async def test_a_stream_whose_beginning_was_undone_gets_no_event(
    server: Postgres,
) -> None:
    """The first work of a connection fails, and nobody would fold such a stream."""
    store = open_store(address(server), SystemClock())
    store.start()
    with pytest.raises(psycopg.Error, match="nothing"):
        await store.engine.receiver.urgent(
            lambda connection: connection.execute("SELECT * FROM nothing")
        )
    await store.inbox.append(webhook("x", store="undone"))
    with server.connect("public") as connection:
        lost = connection.execute(
            "SELECT count(*) FROM inbox WHERE store = 'undone'"
            " AND stream NOT IN (SELECT id FROM streams)"
        )
        assert lost.fetchone() == (0,)
    await store.stop()


async def test_an_event_that_cannot_be_stored_fails_alone(server: Postgres) -> None:
    """The batch is appended again, row by row, and no id is used twice."""
    store = open_store(address(server), SystemClock())
    store.start()
    event = Arrival("main", "delivery", "", "2026-03-01T12:00:00.000Z", b"{}", b"{}")
    bad = event._replace(topic=cast("str", None))
    waiting = [store.inbox.append(each) for each in (event, bad, event)]
    first, failed, second = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(failed, psycopg.Error | BackhaulError)
    assert isinstance(first, int)
    assert isinstance(second, int)
    with server.connect("public") as connection:
        appended = connection.execute("SELECT id, stream FROM inbox ORDER BY id")
        *_, one, two = appended.fetchall()
    assert (one[0], two[0]) == (first, second)
    assert one[1] == two[1]
    await store.stop()


async def test_a_slice_reads_about_as_many_events_as_it_folds(server: Postgres) -> None:
    """The first slice reads few, the next ones more; each reports if events remain."""
    store = open_store(server.new_database(), SystemClock())
    store.start()
    await append(store, [b"{}"] * (FEWEST + 2 * FEWEST + 1))
    reports = [await store.inbox.fold(fold_as_demo, HANG_SECONDS) for _ in range(3)]
    found = [(report.folded, report.more) for report in reports]
    assert found == [(FEWEST, True), (2 * FEWEST, True), (1, False)]
    await store.stop()


async def test_a_server_that_was_started_again_is_found(server: Postgres) -> None:
    store = open_store(address(server), SystemClock())
    store.start()
    await store.kv.put("e", "1")
    await asyncio.to_thread(server.kill)
    with pytest.raises(ReadFailed):
        await store.read(lambda reader: reader.counts())
    writing = asyncio.create_task(put(store, "e", "2"))
    await asyncio.to_thread(server.start)
    await writing
    assert await store.kv.get("e") == "2"
    await store.stop()


async def put(store: Store, key: str, value: str) -> None:
    """Write, and retry while the store is busy."""
    while True:
        with suppress(Busy):
            return await store.kv.put(key, value)


def test_a_connection_that_is_lost_in_a_transaction_is_not_opened_again(
    server: Postgres,
) -> None:
    """The earlier statements of the transaction are lost."""
    connection = Connection(address(server))
    connection.execute("BEGIN")
    connection.execute("SELECT 1")
    server.run(END_OTHERS)
    for _ in range(2):
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    connection.execute("BEGIN")
    connection.execute("SELECT 1")
    server.run(END_OTHERS)
    with pytest.raises(CommitUnknown):
        connection.execute("COMMIT")


async def test_a_commit_without_an_answer_ends_the_writer(server: Postgres) -> None:
    """It is unknown what was committed, and other callers rely on answers."""
    store = open_store(address(server), SystemClock())
    server.run(*END_AT_COMMIT)
    store.start()
    with pytest.raises(Busy):
        await store.engine.write(lambda connection: kv.put(connection, "c", "3"))
    with pytest.raises(WriterFailed, match="lost during a commit"):
        await store.watch()
    with pytest.raises(Busy):
        await store.kv.put("d", "4")
    await store.stop()


async def test_a_lock_of_another_program_makes_it_busy(
    postgres_server: PostgresDatabases,
) -> None:
    """Otherwise the writer would wait for the lock, and accept no event."""
    with postgres_server.lent() as url:
        store = open_store(url, SystemClock())
        store.start()
        with locked(url):
            with pytest.raises(Busy):
                await store.kv.put("a", "1")
            with pytest.raises(Busy):
                await store.inbox.append(webhook("folded"))
            assert await store.kv.get("a") is None
        await store.kv.put("a", "1")
        await store.stop()


def test_a_program_beside_the_daemon_waits_for_no_lock(
    postgres_server: PostgresDatabases,
) -> None:
    with postgres_server.lent() as url, locked(url, "ACCESS EXCLUSIVE"):
        refused = pytest.raises(BackhaulError, match="lock timeout")
        with refused, database_at(url).reader() as reader:
            reader.counts()


async def test_a_read_that_outlives_the_store_leaves_no_connection(
    postgres_server: PostgresDatabases,
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def query(_: Reader) -> bool:
        begun.set()
        return may_end.wait(HANG_SECONDS)

    with postgres_server.lent() as url:
        store = open_store(url, SystemClock())
        store.start()
        reading = asyncio.create_task(store.read(query))
        await asyncio.to_thread(begun.wait, HANG_SECONDS)
        await store.stop()
        may_end.set()
        assert await reading
        assert store.engine._idle.empty()


async def repeat(write: Callable[[], Awaitable[object]]) -> None:
    """Write until it fails: a session gets a new setting only a moment later."""
    while True:
        await write()


async def test_a_server_that_only_reads_makes_it_busy(server: Postgres) -> None:
    """Hosting providers set this for all sessions when the disk is full."""
    url = server.new_database()
    store = open_store(url, SystemClock())
    store.start()
    await store.kv.put("a", "1")
    await store.inbox.append(webhook("folded"))
    server.run(f"ALTER SYSTEM SET {ONLY_READ} = on", RELOAD)
    try:
        with pytest.raises(Busy, match="read-only"):
            await repeat(lambda: store.kv.put("a", "2"))
        with pytest.raises(Busy, match="read-only"):
            await repeat(lambda: store.inbox.append(webhook("folded")))
        for future in [store.kv.put(key, "1") for key in "ab"]:
            with pytest.raises(Busy, match="read-only"):
                await future
    finally:
        server.run(f"ALTER SYSTEM RESET {ONLY_READ}", RELOAD)
    await store.stop()


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("a\0b", "a\ufffdb"),
        (r'"a\u0000b"', r'"a\ufffdb"'),
        (r'"a\\u0000b"', r'"a\\u0000b"'),
        (r'"\\\u0000"', r'"\\\ufffd"'),
        (r'"\u00e9"', r'"\u00e9"'),
    ],
)
def test_only_zero_bytes_and_their_escapes_are_replaced(text: str, sent: str) -> None:
    assert without_zeros(text) == sent


def test_a_database_without_tables_says_what_to_do(server: Postgres) -> None:
    database = database_at(server.new_database())
    assert not database.exists()
    assert database.orphaned_work(["main"]) == ()
    with (
        pytest.raises(BackhaulError, match="backhaul migrate"),
        database.reader() as reader,
    ):
        reader.counts()


def test_a_new_primary_that_may_lose_commits_is_refused_by_who_needs_a_quorum(
    server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would confirm what it loses."""
    monkeypatch.setattr(connection, "RECONNECT_SECONDS", 0.0)
    with pytest.raises(psycopg.OperationalError, match="fsync is off"):
        Connection(address(server), quorum=True)
    with closing(Connection(address(server))) as opened:
        opened._quorum = True
        assert opened.execute("SELECT 1").fetchone() == (1,)
        server.run(END_OTHERS)
        with pytest.raises(psycopg.OperationalError, match="fsync is off"):
            opened.execute("BEGIN")


def test_each_writer_of_a_member_with_a_quorum_refuses_such_a_server(
    server: Postgres,
) -> None:
    fence = Fence(Member("a", "host of a", "0.1.0", quorum=True))
    engine = PostgresEngine(address(server), SystemClock(), fence)
    for writer in (engine.writer, engine.receiver):
        with pytest.raises(psycopg.OperationalError, match="fsync is off"):
            writer._connect()
