"""The engine of PostgreSQL: one connection that writes, and reads beside it."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from backhaul.core.clock import to_text
from backhaul.core.identity import digest_of
from backhaul.errors import Busy, ReadFailed
from backhaul.store.postgres.connection import CommitUnknown, Connection, insert
from backhaul.store.sql.round_writer import RoundWriter, Row

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Sequence

    from backhaul.core.clock import Clock
    from backhaul.store.inbox import Arrival
    from backhaul.store.sql.family import Unit

T = TypeVar("T")
_COLUMNS = "store, kind, topic, received_at, headers, body, digest"
_BODY = 5
_EVENTS_AT_ONCE = 256


class PostgresWriter(RoundWriter):
    """Runs units one after another on one connection."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url

    def _connect(self) -> Connection:
        return Connection(self._url)

    def _append_rows(self, connection: Any, rows: Sequence[Row]) -> Sequence[int]:
        ids: list[int] = []
        for start in range(0, len(rows), _EVENTS_AT_ONCE):
            some = rows[start : start + _EVENTS_AT_ONCE]
            events = [(*row, digest_of((row[_BODY],))) for row in some]
            ids += insert(connection, "inbox", _COLUMNS, events)
        return ids

    def _rollback(self, connection: Any) -> None:
        with suppress(psycopg.Error):
            connection.roll_back()

    def _concerns_all(self, error: Exception) -> bool:
        return isinstance(error, psycopg.OperationalError)

    def _fatal(self, error: Exception) -> Exception | None:
        return error if isinstance(error, CommitUnknown) else None

    def _refusal(self, error: Exception) -> Exception:
        if isinstance(error, psycopg.Error):
            return Busy(f"the database cannot be written now: {error}")
        return error

    def _after_round(self, connection: Any) -> None:
        pass


class PostgresEngine:
    """One database: a writer, and connections that only read."""

    def __init__(self, url: str, clock: Clock) -> None:
        self.url = url
        self.writer = PostgresWriter(url)
        self._clock = clock
        self._idle: SimpleQueue[Connection] = SimpleQueue()

    def write(self, unit: Unit[T]) -> Awaitable[T]:
        """Run a unit in the next transaction. May raise Busy."""
        return self.writer.urgent(unit)

    def background(self, unit: Unit[T]) -> Awaitable[T]:
        """Run a unit of at most 5 ms behind everything urgent. May raise Busy."""
        return self.writer.background(unit)

    def append(self, arrival: Arrival) -> Awaitable[int]:
        """Append an event to the inbox, in a batch with others. May raise Busy."""
        return self.writer.append(arrival)

    async def read(self, unit: Unit[T]) -> T:
        """Run a unit that only reads, in a thread. Raises ReadFailed."""
        return await asyncio.to_thread(self.read_here, unit)

    def read_here(self, unit: Unit[T]) -> T:
        """Run a unit that only reads, in this thread. Raises ReadFailed."""
        try:
            with self._lend() as connection:
                return unit(connection)
        except psycopg.Error as error:
            raise ReadFailed(f"the database cannot be read: {error}") from error

    @contextmanager
    def _lend(self) -> Iterator[Connection]:
        try:
            connection = self._idle.get_nowait()
            connection.reopen()
        except Empty:
            connection = Connection(self.url, read_only=True)
        try:
            yield connection
        finally:
            self._idle.put(connection)

    def now(self) -> str:
        """Return the time as text, with milliseconds, in UTC."""
        return to_text(self._clock.now())

    def concerns_the_file(self, error: Exception) -> bool:
        """Return True if the whole database failed, False if one statement did."""
        return isinstance(error, psycopg.OperationalError)

    def sizes(self) -> dict[str, int]:
        """Return the bytes of the database."""

        def unit(connection: Any) -> int:
            size = "SELECT pg_database_size(current_database())"
            return int(connection.execute(size).fetchone()[0])

        return {"database": self.read_here(unit)}

    def close(self) -> None:
        """Close the connections that read; the writer stops on its own."""
        with suppress(Empty):
            while True:
                self._idle.get_nowait().close()
