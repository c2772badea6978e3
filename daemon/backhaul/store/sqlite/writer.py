"""The one writer: a thread that owns the only write connection.

Work arrives as units. A round takes every urgent unit that waits, the accepted
deliveries as one batch, and one slice of background work; each unit in its own
SAVEPOINT, all in one commit with `synchronous=FULL`. Futures resolve after the commit,
so whoever was answered can rely on the disk (architecture, Life of an event).
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

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]
Unit: TypeAlias = Callable[[sqlite3.Connection], T]
AppendBatch: TypeAlias = "Callable[[sqlite3.Connection, Sequence[Row]], Sequence[int]]"


class _Signal(Enum):
    WAKE = auto()
    STOP = auto()


@dataclass(frozen=True, slots=True)
class _Job(Generic[T]):
    unit: Unit[T]
    future: asyncio.Future[T]


@dataclass(frozen=True, slots=True)
class _Append:
    row: Row
    future: asyncio.Future[int]


@dataclass(frozen=True, slots=True)
class _Result:
    future: asyncio.Future[Any]
    value: object = None
    error: Exception | None = None


@dataclass(slots=True)
class _Round:
    jobs: list[_Job[Any]] = field(default_factory=list)
    appends: list[_Append] = field(default_factory=list)
    last: bool = False

    def take(self, item: _Job[Any] | _Append | _Signal) -> None:
        if isinstance(item, _Append):
            self.appends.append(item)
        elif isinstance(item, _Job):
            self.jobs.append(item)
        else:
            self.last = self.last or item is _Signal.STOP

    def futures(self) -> list[asyncio.Future[Any]]:
        return [item.future for item in self.appends] + [
            job.future for job in self.jobs
        ]


class Writer:
    """Runs units one after the other on the write connection."""

    def __init__(self, path: Path, append_batch: AppendBatch) -> None:
        self._path = path
        self._append_batch = append_batch
        self._urgent: queue.SimpleQueue[_Job[Any] | _Append | _Signal]
        self._urgent = queue.SimpleQueue()
        self._background: queue.SimpleQueue[_Job[Any]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Open the connection in its thread. Call from the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(
            target=self._work, name="backhaul-writer", daemon=True
        )
        self._thread.start()

    async def stop(self) -> None:
        """Finish what was handed in, then close. Safe to call twice."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._urgent.put(_Signal.STOP)
            await asyncio.to_thread(thread.join)

    def urgent(self, unit: Unit[T]) -> asyncio.Future[T]:
        """Run a unit in the next round. Waiting for it may raise Busy."""
        job = _Job(unit, self._future())
        self._urgent.put(job)
        return job.future

    def background(self, unit: Unit[T]) -> asyncio.Future[T]:
        """Run a unit of at most 5 ms behind the urgent ones. May raise Busy."""
        job = _Job(unit, self._future())
        self._background.put(job)
        self._urgent.put(_Signal.WAKE)
        return job.future

    def append(self, row: Row) -> asyncio.Future[int]:
        """Add a row to the inbox; resolves with its id once it is on the disk."""
        item = _Append(row, self._future())
        self._urgent.put(item)
        return item.future

    def _future(self) -> asyncio.Future[Any]:
        if self._thread is None or self._loop is None:
            raise Busy("the database is closed")
        return self._loop.create_future()

    def _work(self) -> None:
        connection = connections.open_writer(self._path)
        try:
            last = False
            while not last:
                work = self._collect()
                self._publish(self._commit(connection, work))
                last = work.last
        finally:
            connection.close()

    def _collect(self) -> _Round:
        """Wait for work, then take all that is there and one background slice."""
        work = _Round()
        work.take(self._urgent.get())
        while not self._urgent.empty():
            work.take(self._urgent.get())
        if not self._background.empty():
            work.take(self._background.get())
            if not self._background.empty():
                self._urgent.put(_Signal.WAKE)
        return work

    def _commit(self, connection: sqlite3.Connection, work: _Round) -> list[_Result]:
        if not work.jobs and not work.appends:
            return []
        try:
            connection.execute("BEGIN IMMEDIATE")
            results = self._append(connection, work.appends)
            results += [_run(connection, job) for job in work.jobs]
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            busy = Busy(f"the database does not take writes now: {error}")
            return [_Result(future, error=busy) for future in work.futures()]
        return results

    def _append(
        self, connection: sqlite3.Connection, appends: list[_Append]
    ) -> list[_Result]:
        if not appends:
            return []
        ids = self._append_batch(connection, [item.row for item in appends])
        pairs = zip(appends, ids, strict=True)
        return [_Result(item.future, value=id_) for item, id_ in pairs]

    def _publish(self, results: list[_Result]) -> None:
        if results and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_resolve, results)


def _run(connection: sqlite3.Connection, job: _Job[Any]) -> _Result:
    """Run one unit so that its failure undoes its own work only."""
    connection.execute("SAVEPOINT unit")
    try:
        value = job.unit(connection)
    except Exception as error:
        if connections.concerns_the_file(error):
            raise
        connection.execute("ROLLBACK TO unit")
        connection.execute("RELEASE unit")
        return _Result(job.future, error=error)
    connection.execute("RELEASE unit")
    return _Result(job.future, value=value)


def _resolve(results: list[_Result]) -> None:
    for result in results:
        if result.future.done():
            continue
        if result.error is None:
            result.future.set_result(result.value)
        else:
            result.future.set_exception(result.error)
