"""The SQLite store, and how it inserts events."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from backhaul.core.clock import SystemClock
from backhaul.core.identity import digest_of
from backhaul.errors import Busy
from backhaul.store.inbox import Arrival
from backhaul.store.sql_store import SqlStore
from backhaul.store.sqlite import connections, full_text
from backhaul.store.sqlite.engine import SqliteEngine, Writer
from backhaul.store.sqlite.file_backup import Damaged
from backhaul.store.sqlite.full_text import SqliteErasure, SqliteSearchIndex

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.store.sql.round_writer import Row
    from backhaul.store.sqlite.engine import Connect, MakeWriter


_COLUMNS = "store, kind, topic, received_at, headers, body, traceparent, digest"
_BODY, _DIGEST = 5, 7
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
    places = ",".join(["(?,?,?,?,?,?,?,?)"] * len(rows))
    # An event of another file keeps its digest, which shows damage done in that file.
    values = [
        value
        for row in rows
        for value in (*row[:_DIGEST], row[_DIGEST] or digest_of((row[_BODY],)))
    ]
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


_OLDEST = """
    SELECT id, store, kind, topic, received_at, headers, body, traceparent, digest
    FROM inbox WHERE id > :after ORDER BY id LIMIT :most
"""
_REMOVE = "DELETE FROM inbox WHERE id <= :last"
SPOOL_ROWS = 256
SPOOL_BYTES = 4 << 20
"""The most events and bytes of bodies that are forwarded in one batch."""


class SqliteSpool:
    """The inbox of a file whose events are removed once another database has them."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._engine = store.engine
        self.append = store.inbox.append
        self.start = store.start
        self.stop = store.stop
        self.watch = store.watch

    async def size(self) -> int:
        return await self._number("SELECT count(*) FROM inbox")

    async def newest(self) -> int:
        return await self._number("SELECT coalesce(max(id), 0) FROM inbox")

    async def _number(self, query: str) -> int:
        def unit(connection: sqlite3.Connection) -> int:
            return int(connection.execute(query).fetchone()[0])

        return await self._engine.read(unit)

    async def oldest(self, after: int = 0) -> list[tuple[int, Arrival]]:
        return await self._engine.read(partial(_oldest, after=after))

    async def remove(self, last: int) -> None:
        def unit(connection: sqlite3.Connection) -> None:
            connection.execute(_REMOVE, {"last": last})

        await self._engine.write(unit)

    async def clear(self) -> bool:
        await self._engine.writer.vacuum()
        return await self._engine.writer.checkpoint()


def _oldest(connection: sqlite3.Connection, after: int) -> list[tuple[int, Arrival]]:
    found, size = [], 0
    values = {"after": after, "most": SPOOL_ROWS}
    with closing(connection.execute(_OLDEST, values)) as rows:
        for id_, *values in rows:
            arrival = Arrival(*values)
            found.append((id_, arrival))
            size += len(arrival.body)
            if size >= SPOOL_BYTES:
                break
    return found


# No id is used twice, although rows are removed: the daemon reads on after an id.
_INBOX = """
    CREATE TABLE IF NOT EXISTS inbox (
        id INTEGER PRIMARY KEY AUTOINCREMENT, store TEXT NOT NULL, kind TEXT NOT NULL,
        topic TEXT NOT NULL, received_at TEXT NOT NULL, headers BLOB NOT NULL,
        body BLOB NOT NULL, traceparent TEXT, digest BLOB
    )
"""


def open_inbox_file(path: Path, clock: Clock) -> SqliteSpool:
    """Open a file that has nothing but the events of one receiver process.

    It is created if it is missing. Raises CorruptData if the file is damaged, and Busy
    if it cannot be opened now, such as on a full disk.
    """
    try:
        with suppress(FileExistsError):
            path.touch(0o600, exist_ok=False)
        with closing(connections.open_writer(path)) as connection:
            connection.execute(_INBOX)
    except (OSError, sqlite3.OperationalError) as error:
        raise Busy(f"{path} cannot be opened: {error}") from None
    except sqlite3.DatabaseError as error:
        raise Damaged(path, str(error)) from None
    return SqliteSpool(SqliteStore(path, clock))


@contextmanager
def open_readable(path: Path) -> Iterator[SqliteStore]:
    """Open a store for methods that only read; its writer is never started."""
    store = SqliteStore(path, SystemClock())
    try:
        yield store
    finally:
        store.engine.close()
