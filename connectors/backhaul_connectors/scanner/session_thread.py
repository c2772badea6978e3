"""Runs the thread that owns the session store; many scans share a commit."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeVar, cast

from backhaul_connectors.scanner.deduplication import StoredRecentScans
from backhaul_connectors.scanner.session_store import connect, lines_of, sessions_in
from backhaul_connectors.scanner.sessions import ScanCollector
from backhaul_sdk import CheckFailed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from backhaul_connectors.scanner.order_validation import StoreLookup
    from backhaul_connectors.scanner.scan import Scan
    from backhaul_connectors.scanner.session_store import Session
    from backhaul_connectors.scanner.sessions import (
        ScanCollected,
        SessionComplete,
        SessionRules,
        StandaloneScan,
    )
    from backhaul_sdk import Line

T = TypeVar("T")


class SessionJob:
    """A piece of work on the database, and the caller that waits for it."""

    __slots__ = ("future", "loop", "work")

    def __init__(self, work: Callable[[sqlite3.Connection], Any]) -> None:
        self.work = work
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()

    def end(self, result: object) -> None:
        """Pass the result to the caller."""
        if self.loop.is_closed():
            return
        self.loop.call_soon_threadsafe(self._resolve, result)

    def _resolve(self, result: object) -> None:
        if self.future.done():
            return
        if isinstance(result, Exception):
            self.future.set_exception(result)
        else:
            self.future.set_result(result)


class SessionThread:
    """Stores sessions. A result comes after the commit; `close` is final."""

    def __init__(
        self,
        folder: Path,
        rules: SessionRules,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._rules = rules
        self._clock = clock
        self._wall = wall
        self._jobs: queue.SimpleQueue[SessionJob | None] = queue.SimpleQueue()
        try:
            self._connection = connect(folder)
        except (OSError, sqlite3.Error) as error:
            problem = f"{folder} cannot be used for sessions: {error}"
            raise CheckFailed(problem) from None
        self._thread = threading.Thread(
            target=self._work, name="scanner-floor", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Finish submitted work and close the file. Blocks."""
        self._jobs.put(None)
        self._thread.join()

    def take(
        self, scan: Scan, shop: StoreLookup
    ) -> Awaitable[ScanCollected | SessionComplete | StandaloneScan]:
        """Store a scan, after all earlier ones.

        Waiting raises ScanRefused, or sqlite3.Error if the scan could not be stored.
        """

        def work(
            connection: sqlite3.Connection,
        ) -> ScanCollected | SessionComplete | StandaloneScan:
            repeats = StoredRecentScans(connection, self._wall())
            second = self._clock()
            collector = ScanCollector(connection, self._rules, second, repeats, shop)
            return collector.take(scan)

        return self._do(work)

    async def answered(self, scan: Scan) -> None:
        """Record that the device of an unnumbered scan gets its answer now."""

        def work(connection: sqlite3.Connection) -> None:
            repeats = StoredRecentScans(connection, self._wall())
            repeats.answered(scan, self._rules.dedupe_seconds)

        await self._do(work)

    async def owed(self) -> list[Session]:
        """Return the complete sessions that were not submitted."""
        return await self._do(lambda connection: sessions_in(connection, "closed"))

    async def lines(self, session: Session) -> tuple[Line, ...]:
        """Return the collected lines of a session."""
        return await self._do(lambda connection: lines_of(connection, session.id))

    async def record_result(self, session: Session, state: str, what: str) -> None:
        """Store the outcome of a submitted session."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE sessions SET state = ?, what = ? WHERE id = ?",
                (state, what, session.id),
            )

        await self._do(work)

    def _do(self, work: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        job = SessionJob(work)
        self._jobs.put(job)
        return cast("asyncio.Future[T]", job.future)

    def _work(self) -> None:
        with closing(self._connection):
            last = False
            while not last:
                jobs = [self._jobs.get()]
                while not self._jobs.empty():
                    jobs.append(self._jobs.get())
                last = None in jobs
                self._commit([job for job in jobs if job is not None])

    def _commit(self, jobs: list[SessionJob]) -> None:
        """Run all jobs in one transaction, so that they share the wait for the disk."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            results = [self._result(job) for job in jobs]
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            results = [error] * len(jobs)
        for job, result in zip(jobs, results, strict=True):
            job.end(result)

    def _result(self, job: SessionJob) -> object:
        self._connection.execute("SAVEPOINT job")
        try:
            result = job.work(self._connection)
        except sqlite3.OperationalError:
            raise
        except Exception as error:  # noqa: BLE001 - passed to the waiting caller
            self._connection.execute("ROLLBACK TO job")
            result = error
        self._connection.execute("RELEASE job")
        return result
