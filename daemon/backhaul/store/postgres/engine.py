"""The engine of PostgreSQL: one connection that writes, and reads beside it."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from backhaul.errors import Busy, CommitsLost, ReadFailed, Superseded
from backhaul.store.ownership import Member
from backhaul.store.postgres.connection import (
    IDLE_TRANSACTION_SECONDS,
    LOCK_MILLISECONDS,
    CommitUnknown,
    Connection,
    concerns_the_server,
)
from backhaul.store.postgres.fence import session_name
from backhaul.store.postgres.streams import StreamWriter
from backhaul.store.sql.family import Idempotent
from backhaul.store.sql.round_writer import RoundEngine, RoundWriter, Row

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Sequence

    from backhaul.core.clock import Clock
    from backhaul.store.inbox import Arrival
    from backhaul.store.postgres.fence import Fence
    from backhaul.store.sql.family import Unit

T = TypeVar("T")
SIZE = "SELECT pg_database_size(current_database())"
"""Returns the bytes of the whole database."""


class PostgresWriter(RoundWriter):
    """Runs units one after another on one connection, which `fence` guards if given.

    Without a fence nothing keeps another daemon from writing: for tools and tests.
    """

    def __init__(self, url: str, fence: Fence | None = None) -> None:
        super().__init__()
        self._url = url
        self._fence = fence

    def _connect(self) -> Connection:
        # An owner that stops inside of a transaction must not keep its row locked.
        fence, seconds = self._fence, IDLE_TRANSACTION_SECONDS
        return Connection(
            self._url,
            lock_milliseconds=LOCK_MILLISECONDS,
            idle_seconds=seconds if fence is None else fence.ttl_seconds,
            name="" if fence is None else session_name(fence.member.id),
            quorum=fence is not None and fence.member.quorum,
        )

    def _begin(self, connection: Any) -> None:
        if self._fence is None:
            super()._begin(connection)
        else:
            self._fence.begin(connection)

    def _end(self, connection: Any) -> None:
        if self._fence is None:
            super()._end(connection)
        else:
            self._fence.end(connection)
            self._fence.committed()

    def _append_rows(self, connection: Any, rows: Sequence[Row]) -> Sequence[int]:
        raise NotImplementedError  # events are appended in streams

    def _rollback(self, connection: Any) -> None:
        with suppress(psycopg.Error):
            connection.roll_back()

    def _concerns_all(self, error: Exception) -> bool:
        return concerns_the_server(error)

    def _fatal(self, error: Exception) -> Exception | None:
        if all(isinstance(job.unit, Idempotent) for job in self._taken.jobs):
            # Its caller tries again: a failover must not end every member.
            fatal: tuple[type[Exception], ...] = Superseded, CommitsLost
        else:
            fatal = CommitUnknown, Superseded, CommitsLost
        return error if isinstance(error, fatal) else None

    def _refusal(self, error: Exception) -> Exception:
        if isinstance(error, psycopg.Error | CommitUnknown):
            return Busy(f"the database cannot be written now: {error}")
        return error


class PostgresEngine(RoundEngine):
    """One database: a writer, a receiver of events, and connections that only read.

    The receiver's units have no fence: any member may run them at any time.
    """

    def __init__(self, url: str, clock: Clock, fence: Fence | None = None) -> None:
        super().__init__(PostgresWriter(url, fence), clock)
        member = Member("tool", "", "") if fence is None else fence.member
        self.receiver = StreamWriter(url, member)
        self.url = url
        self._fence = fence
        self._idle: SimpleQueue[Connection] = SimpleQueue()
        self._is_closed = False

    def owned(self) -> frozenset[str] | None:
        """Return the stores that this process may work on; None for all of them."""
        return None if self._fence is None else self._fence.owned

    def append(self, arrival: Arrival) -> Awaitable[int]:
        """Append an event to this member's stream. May raise Busy."""
        return self.receiver.append(arrival)

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
            connection.rest()
        except Empty:
            connection = Connection(
                self.url, read_only=True, lock_milliseconds=LOCK_MILLISECONDS
            )
        try:
            yield connection
        finally:
            self._idle.put(connection)
            if self._is_closed:
                self.close()

    def concerns_the_file(self, error: Exception) -> bool:
        """Return True if the whole database failed, False if one statement did."""
        return concerns_the_server(error)

    def sizes(self) -> dict[str, int]:
        """Return the bytes of the database."""

        def unit(connection: Any) -> int:
            return int(connection.execute(SIZE).fetchone()[0])

        return {"database": self.read_here(unit)}

    def close(self) -> None:
        """Close the connections that read, each lent one when it comes back.

        The writer stops on its own.
        """
        self._is_closed = True
        with suppress(Empty):
            while True:
                self._idle.get_nowait().close()


class UnfencedEngine:
    """The engine of the few tables that every member may write, owner or not."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._receiver = engine.receiver
        self.read = engine.read
        self.append = engine.append
        self.now = engine.now
        self.owned = engine.owned
        self.sizes = engine.sizes
        self.concerns_the_file = engine.concerns_the_file

    def write(self, unit: Unit[T]) -> Awaitable[T]:
        return self._receiver.urgent(unit)

    def background(self, unit: Unit[T]) -> Awaitable[T]:
        return self._receiver.background(unit)
