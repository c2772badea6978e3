"""The engine of PostgreSQL: one connection that writes, and reads beside it."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from backhaul.core.identity import digest_of
from backhaul.errors import Busy, ReadFailed
from backhaul.store.postgres.connection import CommitUnknown, Connection, insert
from backhaul.store.sql.round_writer import RoundEngine, RoundWriter, Row

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backhaul.core.clock import Clock
    from backhaul.store.sql.family import Unit

T = TypeVar("T")
_COLUMNS = "store, kind, topic, received_at, headers, body, digest"
_BODY = 5
_EVENTS_AT_ONCE = 256
SIZE = "SELECT pg_database_size(current_database())"
"""Returns the bytes of the whole database."""


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


class PostgresEngine(RoundEngine):
    """One database: a writer, and connections that only read."""

    def __init__(self, url: str, clock: Clock) -> None:
        super().__init__(PostgresWriter(url), clock)
        self.url = url
        self._idle: SimpleQueue[Connection] = SimpleQueue()

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

    def concerns_the_file(self, error: Exception) -> bool:
        """Return True if the whole database failed, False if one statement did."""
        return isinstance(error, psycopg.OperationalError)

    def sizes(self) -> dict[str, int]:
        """Return the bytes of the database."""

        def unit(connection: Any) -> int:
            return int(connection.execute(SIZE).fetchone()[0])

        return {"database": self.read_here(unit)}

    def close(self) -> None:
        """Close the connections that read; the writer stops on its own."""
        with suppress(Empty):
            while True:
                self._idle.get_nowait().close()
