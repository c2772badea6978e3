"""The transaction of one mutation, and the thread that commits them in batches."""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from backhaul_reference.platform.formats import IdSource
from backhaul_reference.platform.problems import Problem
from backhaul_reference.platform.state.database import Params, Rows
from backhaul_reference.platform.state.unique_values import refusal_of

T = TypeVar("T")
ROUND_LIMIT = 256
STORAGE_FAILURES = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
}

TICK = """UPDATE counter SET tick = MAX(tick + 1, ?) + ? WHERE store_id = ?
RETURNING tick"""


class Tx(Rows):
    """The transaction of one mutation."""

    __slots__ = ("ids",)

    def __init__(self, connection: sqlite3.Connection, ids: IdSource) -> None:
        super().__init__(connection)
        self.ids = ids

    def run(self, sql: str, params: Params = ()) -> int:
        """Execute a statement and say how many rows it changed."""
        return self.connection.execute(sql, params).rowcount

    def insert(self, table: str, values: dict[str, Any]) -> int:
        """Insert one row and answer its rowid; names come from our own code only.

        Raises a 409 if another row has a value that must be unique.
        """
        names = ",".join(values)
        marks = ",".join("?" * len(values))
        sql = f"INSERT INTO {table}({names}) VALUES({marks})"
        try:
            row_id = self.connection.execute(sql, tuple(values.values())).lastrowid
        except sqlite3.IntegrityError as error:
            self._refuse_taken(error, values)
            raise
        return row_id or 0

    def update(self, table: str, row_id: str, values: dict[str, Any]) -> None:
        """Update one row by id; names come from our own code only.

        Raises a 409 if another row has a value that must be unique.
        """
        names = ",".join(f"{name}=?" for name in values)
        sql = f"UPDATE {table} SET {names} WHERE id=?"  # noqa: S608  - names are literals of this package
        try:
            self.connection.execute(sql, (*values.values(), row_id))
        except sqlite3.IntegrityError as error:
            self._refuse_taken(error, values, row_id)
            raise

    def _refuse_taken(
        self, error: sqlite3.IntegrityError, values: dict[str, Any], row_id: str = ""
    ) -> None:
        if error.sqlite_errorcode == sqlite3.SQLITE_CONSTRAINT_UNIQUE:
            refusal = refusal_of(self, str(error), values, row_id)
            if refusal is not None:
                raise refusal from error

    def now_ms(self) -> int:
        return self.ids.clock.now_ms()

    def tick(self, store_id: str) -> int:
        """The store's next instant: later than each one given before."""
        return self.ticks(store_id, 1)[0]

    def ticks(self, store_id: str, count: int) -> range:
        """Return `count` ascending times."""
        last: int = self.value(TICK, (self.now_ms(), count - 1, store_id))
        return range(last - count + 1, last + 1)


@dataclass(frozen=True, slots=True)
class Job:
    """A queued mutation and the future of its caller."""

    operation: Callable[[Tx], Any]
    future: asyncio.Future[Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a job."""

    job: Job
    value: Any
    error: BaseException | None


class Writer:
    """Runs each mutation in its own savepoint and commits them in batches."""

    def __init__(self, connection: sqlite3.Connection, ids: IdSource) -> None:
        self._tx = Tx(connection, ids)
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._work, name="state-writer")
        self._thread.start()

    async def run(self, operation: Callable[[Tx], T]) -> T:
        """Apply a mutation; returns after its commit, raises if it did not commit."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put(Job(operation, future))
        return await future

    def post(self, operation: Callable[[Tx], object]) -> None:
        """Queue a mutation without waiting; losing it does no harm."""
        future: asyncio.Future[object] = self._loop.create_future()
        future.add_done_callback(lambda done: done.exception())
        self._jobs.put(Job(operation, future))

    def close(self) -> None:
        """Finish what is queued, stop the thread, close the connection."""
        self._jobs.put(None)
        self._thread.join()
        self._tx.connection.close()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            outcomes, more = self._round(job)
            self._loop.call_soon_threadsafe(_notify, outcomes)
            if not more:
                return

    def _round(self, first: Job) -> tuple[list[Outcome], bool]:
        jobs, more = self._gather(first)
        try:
            return self._commit(jobs), more
        except sqlite3.Error as error:
            self._rollback()
            refusal = unavailable(error)
            return [Outcome(job, None, refusal) for job in jobs], more

    def _gather(self, first: Job) -> tuple[list[Job], bool]:
        jobs = [first]
        while len(jobs) < ROUND_LIMIT:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            if job is None:
                return jobs, False
            jobs.append(job)
        return jobs, True

    def _commit(self, jobs: Sequence[Job]) -> list[Outcome]:
        self._tx.run("BEGIN IMMEDIATE")
        outcomes = [self._apply(job) for job in jobs]
        self._tx.run("COMMIT")
        return outcomes

    def _apply(self, job: Job) -> Outcome:
        if job.future.cancelled():
            return Outcome(job, None, None)
        self._tx.run("SAVEPOINT job")
        try:
            value = job.operation(self._tx)
        except Exception as error:
            if isinstance(error, sqlite3.Error) and storage_failed(error):
                raise  # the whole batch is uncertain
            self._tx.run("ROLLBACK TO job")
            self._tx.run("RELEASE job")
            return Outcome(job, None, error)
        self._tx.run("RELEASE job")
        return Outcome(job, value, None)

    def _rollback(self) -> None:
        if self._tx.connection.in_transaction:
            self._tx.run("ROLLBACK")


def storage_failed(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in STORAGE_FAILURES


def unavailable(error: sqlite3.Error) -> Problem:
    kind = getattr(error, "sqlite_errorname", "unknown")
    return Problem(
        503,
        "STORAGE_UNAVAILABLE",
        f"the change could not be stored ({kind})",
        headers={"Retry-After": "1"},
    )


def _notify(outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        if outcome.job.future.done():
            continue
        if outcome.error is None:
            outcome.job.future.set_result(outcome.value)
        else:
            outcome.job.future.set_exception(outcome.error)
