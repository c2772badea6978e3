"""The one writer: a thread that owns the only connection that writes.

Work arrives as units. A round takes the waiting urgent units, with the accepted events
as one batch; or, in turn, one slice of background work. Each unit has its own
SAVEPOINT, and a round is one durable commit. Futures resolve after the commit, so a
caller with a result can rely on the disk (architecture, Life of an event).

An engine subclasses `RoundWriter` for its connection and the meaning of its errors.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import closing
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeAlias, TypeVar

from loguru import logger
from msgspec import Struct, field

from backhaul.core.clock import to_text
from backhaul.errors import (
    Busy,
    CommitsLost,
    CorruptData,
    Fatal,
    Superseded,
    WriterFailed,
)
from backhaul.store.sql.family import Connection, Idempotent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from backhaul.core.clock import Clock
    from backhaul.store.inbox import Arrival

T = TypeVar("T")
MOST_UNITS = 256
"""The most urgent units of one round. Thousands that come at once, as when a daemon
takes thousands of stores, must not become one transaction that takes seconds."""
Row: TypeAlias = tuple[Any, ...]


class WriteConnection(Connection, Protocol):
    """The connection of a writer."""

    def close(self) -> None: ...


Unit: TypeAlias = Callable[[Any], T]


class _Signal(Enum):
    WAKE = auto()
    STOP = auto()


class _Job(Struct, Generic[T], frozen=True):
    unit: Unit[T]
    future: asyncio.Future[T]
    outside: bool = False
    """Runs without a transaction; then it is background work."""


class Batch(Struct, frozen=True):
    """Rows for the inbox, each with the future that gets its id."""

    rows: list[Row] = field(default_factory=list)
    futures: list[asyncio.Future[int]] = field(default_factory=list)


_Item: TypeAlias = "_Job[Any] | Batch | _Signal"


class _Failure(Struct, frozen=True):
    error: Exception


class _Round(Struct):
    jobs: list[_Job[Any]] = field(default_factory=list)
    appends: Batch = field(default_factory=Batch)
    last: bool = False

    def take(self, item: _Item) -> None:
        if isinstance(item, Batch):
            self.appends.rows.extend(item.rows)
            self.appends.futures.extend(item.futures)
        elif isinstance(item, _Job):
            self.jobs.append(item)
        else:
            self.last = self.last or item is _Signal.STOP

    def futures(self) -> list[asyncio.Future[Any]]:
        return [*self.appends.futures, *(job.future for job in self.jobs)]


@Idempotent
def sign_of_life(_: Any) -> None:
    """Write nothing: a unit whose transaction only shows that the writer works."""


class RoundWriter(ABC):
    """Runs units one after another on the write connection."""

    def __init__(self) -> None:
        self._urgent: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._background: queue.SimpleQueue[_Job[Any]] = queue.SimpleQueue()
        self._gathered = Batch()
        self._taken = _Round()
        self._under_way = False
        self._background_is_next = False
        self._rewriting = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: Fatal | None = None
        self._failed = asyncio.Event()

    def start(self) -> None:
        """Open the connection in its thread. Call from the running event loop.

        Safe to call twice: there is never a second thread.
        """
        if self._thread is not None:
            return
        self._loop = asyncio.get_running_loop()
        self._under_way = False
        self._thread = threading.Thread(
            target=self._work, name="backhaul-writer", daemon=True
        )
        self._thread.start()

    async def stop(self) -> None:
        """Finish the waiting units, then close. Safe to call twice."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._hand_over()
            self._urgent.put(_Signal.STOP)
            await asyncio.to_thread(thread.join)

    async def watch(self) -> NoReturn:
        """Raise the Fatal error that ended the thread, once there is one."""
        await self._failed.wait()
        raise self._failure or WriterFailed

    def urgent(self, unit: Unit[T]) -> asyncio.Future[T]:
        """Run a unit in the next round. May raise Busy."""
        job = _Job(unit, self._open_loop().create_future())
        self._urgent.put(job)
        return job.future

    def background(self, unit: Unit[T]) -> asyncio.Future[T]:
        """Run a unit of at most 5 ms behind the urgent ones. May raise Busy."""
        job = _Job(unit, self._open_loop().create_future())
        self._background.put(job)
        self._urgent.put(_Signal.WAKE)
        return job.future

    def alone(self, unit: Unit[T]) -> asyncio.Future[T]:
        """Run a unit without a transaction; every other write waits meanwhile."""
        job = _Job(unit, self._open_loop().create_future(), outside=True)
        self._background.put(job)
        self._urgent.put(_Signal.WAKE)
        return job.future

    def heartbeat(self) -> asyncio.Future[None]:
        """Resolve once the thread has done a round. May raise Busy, or resolve with it.

        Any answer proves that the thread works, even if the disk refuses writes.
        """
        return self.urgent(sign_of_life)

    @property
    def is_rewriting(self) -> bool:
        """Return True during a unit without a transaction, which may take minutes."""
        return self._rewriting

    def append(self, row: Row) -> asyncio.Future[int]:
        """Append a row to the inbox; resolve with its id once it is durable."""
        future = self._open_loop().create_future()
        if not self._gathered.rows and not self._under_way:
            self._open_loop().call_soon(self._hand_over)
        self._gathered.rows.append(row)
        self._gathered.futures.append(future)
        return future

    def _hand_over(self) -> None:
        """Give the thread all rows that were gathered since its last batch.

        One batch is under way at a time, and the thread wakes up once for it instead of
        once for each row: each wake competes for the interpreter lock.
        """
        if self._gathered.rows:
            self._urgent.put(self._gathered)
            self._gathered, self._under_way = Batch(), True

    def _finish(self, futures: list[asyncio.Future[Any]], results: list[Any]) -> None:
        """After a commit, give the thread the next batch, then resolve the futures."""
        self._under_way = False
        self._hand_over()
        _resolve(futures, results)

    def _open_loop(self) -> asyncio.AbstractEventLoop:
        if self._thread is None or self._loop is None:
            raise Busy("the database is closed, because the daemon is stopping")
        if self._failure is not None:
            raise Busy(str(self._failure))
        return self._loop

    def _work(self) -> None:
        try:
            with closing(self._connect()) as connection:
                last = False
                while not last or not self._background.empty():
                    last = self._work_once(connection) or last
        except BaseException as error:  # noqa: BLE001 - reported by `watch`
            self._call(self._fail, error)

    def _work_once(self, connection: WriteConnection) -> bool:
        """Do a round, then release it, as its bodies may be large.

        Returns whether it was the last. `_taken` holds the round's futures from its
        first unit on, so that `_fail` can resolve them.
        """
        work = self._taken = _Round()
        self._collect(work)
        if results := self._commit(connection, work):
            self._call(self._finish, work.futures(), results)
        self._taken = _Round()
        self._after_round(connection)
        return work.last

    def _fail(self, error: BaseException) -> None:
        """Refuse everything from now on, until the program is started again."""
        if isinstance(error, CorruptData):
            self._failure = error
            logger.bind(action="database.damaged").error("{}", error)
        elif isinstance(error, Superseded):
            self._failure = error
            logger.bind(action="database.superseded").error("{}", error)
        elif isinstance(error, CommitsLost):
            self._failure = error
            logger.bind(action="database.commits_lost").error("{}", error)
        else:
            self._failure = WriterFailed(
                f"writing to the database failed ({type(error).__name__}: {error})."
                " Nothing that Backhaul confirmed is lost. Start the daemon again"
            )
            logger.bind(action="database.writer_failed").opt(exception=error).error(
                "{}", self._failure
            )
        self._failed.set()
        left, self._gathered = self._gathered, Batch()
        self._taken.take(left)
        for waiting in (self._urgent, self._background):
            while not waiting.empty():
                self._taken.take(waiting.get())
        refuse(self._taken.futures(), Busy(str(self._failure)))

    def _collect(self, work: _Round) -> None:
        """Take all urgent units or, in turn, one background slice.

        Never both: the caller of an accept would wait for the slice too.
        """
        is_next = self._background_is_next or self._urgent.empty()
        if is_next and not self._background.empty():
            self._background_is_next = False
            work.take(self._background.get())
            return
        if self._background.empty():
            work.take(self._urgent.get())
        while len(work.jobs) < MOST_UNITS and not self._urgent.empty():
            work.take(self._urgent.get())
        self._background_is_next = True

    def _commit(self, connection: WriteConnection, work: _Round) -> list[Any]:
        """Return a value or a failure for each future of the round."""
        futures = work.futures()
        if not futures:
            return []
        if any(job.outside for job in work.jobs):
            self._rewriting = True
            try:
                return [self._run_outside(connection, job.unit) for job in work.jobs]
            finally:
                self._rewriting = False
        try:
            self._begin(connection)
            results: list[Any] = []
            if work.appends.rows:
                results += self._append(connection, work.appends.rows)
            elif len(work.jobs) == 1:
                return [self._run_alone(connection, work.jobs[0].unit)]
            results += [self._run(connection, job.unit) for job in work.jobs]
            self._end(connection)
        except Exception as error:
            self._rollback(connection)
            if (fatal := self._fatal(error)) is not None:
                raise fatal from error
            return [_Failure(self._refusal(error))] * len(futures)
        return results

    def _append(self, connection: WriteConnection, rows: list[Row]) -> list[Any]:
        """Append the batch; if that fails, row by row, so that one row fails alone."""

        def unit(batch: list[Row]) -> Unit[list[int]]:
            return lambda connection: list(self._append_rows(connection, batch))

        ids = self._run(connection, unit(rows))
        if not isinstance(ids, _Failure):
            return ids
        alone = [self._run(connection, unit([row])) for row in rows]
        return [one if isinstance(one, _Failure) else one[0] for one in alone]

    def _run_outside(self, connection: WriteConnection, unit: Unit[T]) -> T | _Failure:
        """Run a unit without a transaction; it cannot be undone."""
        try:
            return unit(connection)
        except Exception as error:  # noqa: BLE001 - the future raises it
            return _Failure(self._refusal(error))

    def _run_alone(self, connection: WriteConnection, unit: Unit[T]) -> T | _Failure:
        """Run the only unit of a round and commit; a failure undoes the transaction."""
        try:
            value = unit(connection)
        except Exception as error:
            if self._concerns_all(error):
                raise
            self._rollback(connection)
            return _Failure(error)
        self._end(connection)
        return value

    def _run(self, connection: WriteConnection, unit: Unit[T]) -> T | _Failure:
        """Run one unit; a failure undoes only its own work."""
        connection.execute("SAVEPOINT unit")
        try:
            value = unit(connection)
        except Exception as error:
            if self._concerns_all(error):
                raise
            connection.execute("ROLLBACK TO unit")
            connection.execute("RELEASE unit")
            return _Failure(error)
        connection.execute("RELEASE unit")
        return value

    @abstractmethod
    def _connect(self) -> WriteConnection:
        """Open the connection, in the writer's thread."""

    def _begin(self, connection: WriteConnection) -> None:
        """Begin a round."""
        connection.execute("BEGIN")

    def _end(self, connection: WriteConnection) -> None:
        """Commit a round."""
        connection.execute("COMMIT")

    @abstractmethod
    def _append_rows(
        self, connection: WriteConnection, rows: Sequence[Row]
    ) -> Sequence[int]:
        """Insert rows into the inbox; return their ids in the same order."""

    @abstractmethod
    def _rollback(self, connection: WriteConnection) -> None:
        """Undo the round. If that fails, the next round fails and tries it again."""

    @abstractmethod
    def _concerns_all(self, error: Exception) -> bool:
        """Return True if the whole database failed, False if one statement did."""

    @abstractmethod
    def _fatal(self, error: Exception) -> Exception | None:
        """Return what the writer ends with after this error of a round, if it must."""

    @abstractmethod
    def _refusal(self, error: Exception) -> Exception:
        """Return what a caller gets: Busy for an error of the driver."""

    def _after_round(self, connection: WriteConnection) -> None:  # noqa: B027 - most do nothing
        """Do what an engine does after each round."""

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        """Call a function in the event loop."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)


class RoundEngine(ABC):
    """An engine with a `RoundWriter`, and reads in threads beside it."""

    def __init__(self, writer: RoundWriter, clock: Clock) -> None:
        self.writer = writer
        self._clock = clock

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

    @abstractmethod
    def read_here(self, unit: Unit[T]) -> T:
        """Run a unit that only reads, in this thread. Raises ReadFailed."""

    def owned(self) -> frozenset[str] | None:
        """Return the stores that this process may work on; None for all of them."""
        return None

    def now(self) -> str:
        """Return the time as text, with milliseconds, in UTC."""
        return to_text(self._clock.now())


def refuse(futures: list[asyncio.Future[Any]], error: Exception) -> None:
    """Let each future that is open raise the error."""
    _resolve(futures, [_Failure(error)] * len(futures))


def _resolve(futures: list[asyncio.Future[Any]], results: list[Any]) -> None:
    for future, result in zip(futures, results, strict=True):
        if future.done():
            continue
        if isinstance(result, _Failure):
            future.set_exception(result.error)
        else:
            future.set_result(result)
