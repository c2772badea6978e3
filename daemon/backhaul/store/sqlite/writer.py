"""The one writer: a thread that owns the only write connection.

Work arrives as units. A round takes every urgent unit that waits, with the accepted
deliveries as one batch; or, when it is its turn, one slice of background work. Each
unit has its own SAVEPOINT, and a round is one commit with `synchronous=FULL`. Futures
resolve after the commit, so whoever was answered can rely on the disk (architecture,
Life of an event).
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from backhaul.errors import Busy
from backhaul.store.sqlite import connections
from backhaul.store.sqlite.log_size import LogSize

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]
Unit: TypeAlias = Callable[[sqlite3.Connection], T]
Connect: TypeAlias = "Callable[[Path], sqlite3.Connection]"
AppendBatch: TypeAlias = "Callable[[sqlite3.Connection, Sequence[Row]], Sequence[int]]"


class _Signal(Enum):
    WAKE = auto()
    STOP = auto()


@dataclass(frozen=True, slots=True)
class _Job(Generic[T]):
    unit: Unit[T]
    future: asyncio.Future[T]
    outside: bool = False
    """Whether it runs outside of a transaction; then it is background work."""


@dataclass(frozen=True, slots=True)
class _Batch:
    rows: list[Row] = field(default_factory=list)
    futures: list[asyncio.Future[int]] = field(default_factory=list)


_Item: TypeAlias = "_Job[Any] | _Batch | _Signal"


@dataclass(frozen=True, slots=True)
class _Failure:
    error: Exception


@dataclass(slots=True)
class _Round:
    jobs: list[_Job[Any]] = field(default_factory=list)
    appends: _Batch = field(default_factory=_Batch)
    last: bool = False

    def take(self, item: _Item) -> None:
        if isinstance(item, _Batch):
            self.appends.rows.extend(item.rows)
            self.appends.futures.extend(item.futures)
        elif isinstance(item, _Job):
            self.jobs.append(item)
        else:
            self.last = self.last or item is _Signal.STOP

    def futures(self) -> list[asyncio.Future[Any]]:
        return [*self.appends.futures, *(job.future for job in self.jobs)]


class Writer:
    """Runs units one after the other on the write connection."""

    def __init__(
        self,
        path: Path,
        append_batch: AppendBatch,
        connect: Connect = connections.open_writer,
    ) -> None:
        self._path = path
        self._connect = connect
        self._append_batch = append_batch
        self._log_size = LogSize(path)
        self._urgent: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._background: queue.SimpleQueue[_Job[Any]] = queue.SimpleQueue()
        self._gathered = _Batch()
        self._under_way = False
        self._background_is_next = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Open the connection in its thread. Call from the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._under_way = False
        self._thread = threading.Thread(
            target=self._work, name="backhaul-writer", daemon=True
        )
        self._thread.start()

    async def stop(self) -> None:
        """Finish what was handed in, then close. Safe to call twice."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._hand_over()
            self._urgent.put(_Signal.STOP)
            await asyncio.to_thread(thread.join)

    def urgent(self, unit: Unit[T]) -> asyncio.Future[T]:
        """Run a unit in the next round. Waiting for it may raise Busy."""
        job = _Job(unit, self._open_loop().create_future())
        self._urgent.put(job)
        return job.future

    def background(self, unit: Unit[T]) -> asyncio.Future[T]:
        """Run a unit of at most 5 ms behind the urgent ones. May raise Busy."""
        job = _Job(unit, self._open_loop().create_future())
        self._background.put(job)
        self._urgent.put(_Signal.WAKE)
        return job.future

    def checkpoint(self) -> asyncio.Future[bool]:
        """Bring the write-ahead log into the file and empty it.

        False where a reader kept it from that. May raise Busy.
        """
        job = _Job(_truncate, self._open_loop().create_future(), outside=True)
        self._background.put(job)
        self._urgent.put(_Signal.WAKE)
        return job.future

    def vacuum(self) -> asyncio.Future[bool]:
        """Write the whole file anew, keeping every other write waiting meanwhile."""
        job = _Job(_vacuum, self._open_loop().create_future(), outside=True)
        self._background.put(job)
        self._urgent.put(_Signal.WAKE)
        return job.future

    def append(self, row: Row) -> asyncio.Future[int]:
        """Add a row to the inbox; resolves with its id once it is on the disk."""
        future = self._open_loop().create_future()
        if not self._gathered.rows and not self._under_way:
            self._open_loop().call_soon(self._hand_over)
        self._gathered.rows.append(row)
        self._gathered.futures.append(future)
        return future

    def _hand_over(self) -> None:
        """Give the thread all rows gathered since it took the last.

        One batch is under way at a time and the thread is woken once for it, not once
        for each row: a wake is a fight for the interpreter lock.
        """
        if self._gathered.rows:
            self._urgent.put(self._gathered)
            self._gathered, self._under_way = _Batch(), True

    def _finish(self, futures: list[asyncio.Future[Any]], results: list[Any]) -> None:
        """After a commit: let the thread go on, then answer."""
        self._under_way = False
        self._hand_over()
        _resolve(futures, results)

    def _open_loop(self) -> asyncio.AbstractEventLoop:
        if self._thread is None or self._loop is None:
            raise Busy("the database is closed")
        return self._loop

    def _work(self) -> None:
        connection = self._connect(self._path)
        try:
            last = False
            while not last or not self._background.empty():
                work = self._collect()
                self._publish(work, self._commit(connection, work))
                self._log_size.look()
                last = last or work.last
        finally:
            connection.close()

    def _collect(self) -> _Round:
        """Take all that is urgent or, in turn, one background slice.

        Never both: who waits for an accept would wait for the slice as well.
        """
        if self._background_is_next and not self._background.empty():
            self._background_is_next = False
            return _Round(jobs=[self._background.get()])
        work = _Round()
        if self._background.empty():
            work.take(self._urgent.get())
        while not self._urgent.empty():
            work.take(self._urgent.get())
        self._background_is_next = True
        return work

    def _commit(self, connection: sqlite3.Connection, work: _Round) -> list[Any]:
        """Return a value or a failure for each future of the round."""
        futures = work.futures()
        if not futures:
            return []
        if any(job.outside for job in work.jobs):
            return [_unwrapped(connection, job) for job in work.jobs]
        try:
            connection.execute("BEGIN IMMEDIATE")
            results: list[Any] = []
            if work.appends.rows:
                results += self._append(connection, work.appends.rows)
            results += [_run(connection, job.unit) for job in work.jobs]
            connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - handed to whoever waits
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            told = error
            if isinstance(error, sqlite3.Error):
                told = Busy(f"the database does not take writes now: {error}")
            return [_Failure(told)] * len(futures)
        return results

    def _append(self, connection: sqlite3.Connection, rows: list[Row]) -> list[Any]:
        """Append the batch, or else row by row: one that cannot be kept fails alone."""

        def unit(batch: list[Row]) -> Unit[list[int]]:
            return lambda connection: list(self._append_batch(connection, batch))

        ids = _run(connection, unit(rows))
        if not isinstance(ids, _Failure):
            return ids
        alone = [_run(connection, unit([row])) for row in rows]
        return [one if isinstance(one, _Failure) else one[0] for one in alone]

    def _publish(self, work: _Round, results: list[Any]) -> None:
        if results and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._finish, work.futures(), results)


def _truncate(connection: sqlite3.Connection) -> bool:
    # A reader is not waited for: that would keep accepts waiting.
    connection.execute("PRAGMA busy_timeout=0")
    try:
        busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        connection.execute(f"PRAGMA busy_timeout={connections.BUSY_MILLISECONDS}")
    return not busy


def _vacuum(connection: sqlite3.Connection) -> bool:
    connection.execute("VACUUM")
    return True


def _unwrapped(connection: sqlite3.Connection, job: _Job[Any]) -> object:
    """Run what cannot be undone and so needs no transaction."""
    try:
        value: object = job.unit(connection)
    except sqlite3.Error as error:
        return _Failure(Busy(f"the database is not at rest now: {error}"))
    return value


def _run(connection: sqlite3.Connection, unit: Unit[T]) -> T | _Failure:
    """Run one unit so that its failure undoes its own work only."""
    connection.execute("SAVEPOINT unit")
    try:
        value = unit(connection)
    except Exception as error:
        if connections.concerns_the_file(error):
            raise
        connection.execute("ROLLBACK TO unit")
        connection.execute("RELEASE unit")
        return _Failure(error)
    connection.execute("RELEASE unit")
    return value


def _resolve(futures: list[asyncio.Future[Any]], results: list[Any]) -> None:
    for future, result in zip(futures, results, strict=True):
        if future.done():
            continue
        if isinstance(result, _Failure):
            future.set_exception(result.error)
        else:
            future.set_result(result)
