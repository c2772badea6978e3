"""The store works behind a pooler, which gives each transaction another session."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest

from backhaul.core.clock import SystemClock
from backhaul.store.postgres.connection import Connection
from backhaul.store.postgres.database import open_store
from backhaul.store.sql.dialect import batch
from backhaul.store.testing import suites
from scenes.pgbouncer import pgbouncer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul.core.clock import Clock
    from backhaul.store import Store
    from backhaul.store.testing import MakeStore
    from scenes.postgres_databases import PostgresDatabases

pytestmark = pytest.mark.programs

SMOKE = {"TestFold", "TestInbox", "TestCommands", "TestDeliveries", "TestSearchIndex"}
"""A selection of the conformance tests: parallel reads and writes of each kind."""
ADD = batch("INSERT INTO kv (name, value) VALUES (?, ?)")
PREPARED = "SELECT count(*) FROM pg_prepared_statements"
SETTINGS = """
    SELECT current_setting('transaction_read_only'), current_setting('lock_timeout')
"""


@pytest.fixture(scope="module")
def port(postgres_server: PostgresDatabases) -> Iterator[int]:
    """Return the port of a pooler with one shared connection to each database."""
    with pgbouncer(postgres_server.server, connections=1) as started:
        yield started


@pytest.fixture
def url(postgres_server: PostgresDatabases, port: int) -> Iterator[str]:
    with postgres_server.lent() as direct:
        yield direct.replace(f":{postgres_server.server.port}/", f":{port}/")


@pytest.fixture
def make_store(url: str) -> MakeStore:
    def make(clock: Clock) -> Store:
        return open_store(url, clock)

    return make


def test_only_a_session_of_our_own_prepares_statements(
    url: str, postgres_server: PostgresDatabases
) -> None:
    """The next transaction may run in a session without these statements."""
    with postgres_server.lent() as direct:
        assert prepared(direct) > 0
    assert prepared(url) == 0


def prepared(url: str) -> int:
    """Return how many prepared statements a session has after it repeats two."""
    with closing(Connection(url)) as connection:
        for number in range(10):
            connection.execute("SELECT value FROM kv WHERE name = ?", (str(number),))
            connection.executemany(ADD, [(str(number), "")])
        return int(connection.execute(PREPARED).fetchall()[0][0])


async def test_a_read_leaves_the_session_writable(url: str) -> None:
    store = open_store(url, SystemClock())
    store.start()
    for value in ("1", "2"):
        await store.kv.put("a", value)
        await store.read(lambda reader: reader.counts())
    assert await store.kv.get("a") == "2"
    await store.stop()


def settings(connection: Connection) -> tuple[str, str]:
    """Return whether a transaction is read-only, and its lock timeout."""
    ((reads, waits),) = connection.execute(SETTINGS).fetchall()
    return reads, waits


def test_a_connection_that_reads_cannot_write(url: str) -> None:
    """Each transaction is set to read-only, because the session is shared."""
    with closing(Connection(url, read_only=True, lock_milliseconds=700)) as reader:
        assert settings(reader) == ("on", "700ms")
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            reader.execute("DELETE FROM kv")
    with closing(Connection(url)) as writer:
        assert settings(writer) == ("off", "0")


def test_a_transaction_has_the_limits_of_its_connection(url: str) -> None:
    with closing(Connection(url, lock_milliseconds=700)) as writer:
        assert writer.begin(SETTINGS, {}).fetchall() == [("off", "700ms")]
        writer.execute("COMMIT")
        writer.execute("BEGIN")
        assert settings(writer) == ("off", "700ms")
        writer.execute("COMMIT")


globals().update({name: each for name, each in suites().items() if name in SMOKE})
