"""After an unexpected error, the writer thread continues or reports that it cannot."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.errors import Busy, WriterFailed
from backhaul.store.sqlite import connections
from backhaul.store.sqlite.database import append_batch
from backhaul.store.sqlite.engine import Writer
from scenes.databases import count, started_store
from scenes.payloads import arrival
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

TROUBLE = "disk I/O error"


class FailingRollback(sqlite3.Connection):
    """A connection whose disk fails once during a rollback."""

    failed = False

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if sql == "ROLLBACK" and not self.failed:
            self.failed = True
            raise sqlite3.OperationalError(TROUBLE)
        return super().execute(sql, *values)


def failing_rollback(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, factory=FailingRollback)
    connections.prepare_writer(connection)
    return connection


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    async with started_store(tmp_path / "backhaul.db") as store:
        return store.path


@pytest.fixture
async def writer(path: Path) -> AsyncIterator[Writer]:
    started = Writer(path, append_batch)
    started.start()
    yield started
    async with asyncio.timeout(HANG_SECONDS):
        await started.stop()


def mark(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO kv (name, value) VALUES ('a', '')")


def full_disk(connection: sqlite3.Connection) -> None:
    mark(connection)
    error = sqlite3.OperationalError(TROUBLE)
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR
    raise error


async def test_a_round_that_cannot_be_undone_is_undone_later(path: Path) -> None:
    writer = Writer(path, append_batch, failing_rollback)
    writer.start()
    async with asyncio.timeout(HANG_SECONDS):
        with pytest.raises(Busy, match=TROUBLE):
            await writer.urgent(full_disk)
        with pytest.raises(Busy, match="within a transaction"):
            await writer.urgent(mark)
        assert count(path, "kv") == 0
        await writer.urgent(mark)
        await writer.stop()
    assert count(path, "kv") == 1


def leave(connection: sqlite3.Connection) -> None:
    raise SystemExit("the writer leaves")


async def test_a_caller_of_an_ended_thread_is_refused(
    writer: Writer, path: Path
) -> None:
    watched = asyncio.create_task(writer.watch())
    waiting: list[asyncio.Future[Any]] = [
        writer.urgent(leave),
        writer.urgent(mark),
        writer.background(mark),
    ]
    waiting.append(writer.append(arrival(b"1")))
    async with asyncio.timeout(HANG_SECONDS):
        errors = await asyncio.gather(*waiting, return_exceptions=True)
        with pytest.raises(WriterFailed, match=r"SystemExit.*Start the daemon again"):
            await watched
    assert [type(error) for error in errors] == [Busy] * 4
    with pytest.raises(Busy, match="writing to the database failed"):
        writer.append(arrival(b"2"))
    assert (count(path, "inbox"), count(path, "kv")) == (0, 0)


async def test_a_file_that_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    writer = Writer(tmp_path, append_batch)
    writer.start()
    async with asyncio.timeout(HANG_SECONDS):
        with pytest.raises(WriterFailed, match="unable to open"):
            await writer.watch()
        await writer.stop()
