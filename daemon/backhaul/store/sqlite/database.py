"""The SQLite store, and how it inserts events."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from backhaul.core.clock import SystemClock
from backhaul.core.identity import digest_of
from backhaul.store.sql_store import SqlStore
from backhaul.store.sqlite import connections, full_text
from backhaul.store.sqlite.engine import SqliteEngine, Writer
from backhaul.store.sqlite.full_text import SqliteErasure, SqliteSearchIndex

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.store.sql.round_writer import Row
    from backhaul.store.sqlite.engine import Connect, MakeWriter


_COLUMNS = "store, kind, topic, received_at, headers, body, digest"
_BODY = 5
CHUNK_ROWS = 32
CHUNK_BYTES = 256 << 10
"""The most rows (a power of two) and bytes of bodies that one statement inserts."""


def append_batch(connection: sqlite3.Connection, rows: Sequence[Row]) -> list[int]:
    """Insert rows and return their ids.

    A statement inserts many rows, because the interpreter lock changes hands once for
    each statement. Beside a busy event loop that costs more than the insert.
    """
    ids: list[int] = []
    for chunk in _chunks(rows):
        ids += _insert(connection, chunk)
    return ids


def _chunks(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Yield the rows in order, a power of two at a time; a large body comes alone.

    A cached statement keeps a copy of its last values, and each number of rows has a
    statement of its own. Few different numbers mean few copies.
    """
    start = 0
    while left := len(rows) - start:
        number = min(CHUNK_ROWS, 1 << (left.bit_length() - 1))
        while number > 1 and _bytes(rows[start : start + number]) > CHUNK_BYTES:
            number //= 2
        yield rows[start : start + number]
        start += number


def _bytes(rows: Sequence[Row]) -> int:
    return sum(len(row[_BODY]) for row in rows)


def _insert(connection: sqlite3.Connection, rows: Sequence[Row]) -> list[int]:
    places = ",".join(["(?,?,?,?,?,?,?)"] * len(rows))
    values = [value for row in rows for value in (*row, digest_of((row[_BODY],)))]
    cursor = connection.execute(
        f"INSERT INTO inbox ({_COLUMNS}) VALUES {places}",  # noqa: S608 - constants
        values,
    )
    # With one writer and an INTEGER PRIMARY KEY the ids are consecutive.
    last = cursor.lastrowid or 0
    return list(range(last - len(rows) + 1, last + 1))


class SqliteStore(SqlStore):
    """The store of one file."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        connect: Connect = connections.open_writer,
        writer: MakeWriter = Writer,
    ) -> None:
        self.path = self.place = path
        self.engine = engine = SqliteEngine(
            path, writer(path, append_batch, connect), clock
        )
        super().__init__(
            engine,
            engine.writer,
            clock,
            SqliteSearchIndex(engine, clock),
            SqliteErasure(engine, clock),
            full_text.find,
        )

    async def stop(self) -> None:
        """Finish waiting work and close the file, without a log beside it."""
        await self._writer.stop()
        self.engine.close()
        await asyncio.to_thread(connections.end_log, self.path)


@contextmanager
def open_readable(path: Path) -> Iterator[SqliteStore]:
    """Open a store for methods that only read; its writer is never started."""
    store = SqliteStore(path, SystemClock())
    try:
        yield store
    finally:
        store.engine.close()
