"""The SQLite store, put together."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn, TypeVar

from backhaul.core.clock import SystemClock
from backhaul.core.identity import digest_of
from backhaul.store import Store
from backhaul.store.sql.commands.incidents import SqlIncidents
from backhaul.store.sql.commands.operator_decisions import SqlDecisions
from backhaul.store.sql.commands.reference_tags import SqlHistoryTags
from backhaul.store.sql.commands.repository import SqlCommands
from backhaul.store.sql.commands.uncertain import SqlUncertainCommands
from backhaul.store.sql.deliveries.repository import SqlDeliveries
from backhaul.store.sql.inbox.fold import SqlInbox
from backhaul.store.sql.inbox.quarantine_actions import SqlQuarantine
from backhaul.store.sql.inbox.refetch_queue import SqlRefetchQueue
from backhaul.store.sql.inbox.reprocess import SqlReprocessing
from backhaul.store.sql.mirror.sync_progress import SqlMirror, SqlPasses
from backhaul.store.sql.operations import alert_conditions
from backhaul.store.sql.operations.alert_conditions import SqlAlertConditions
from backhaul.store.sql.operations.alerts import SqlAlerts
from backhaul.store.sql.operations.gauges import SqlGauges, SqlMetricSamples
from backhaul.store.sql.operations.job_runs import SqlJobRuns
from backhaul.store.sql.operations.kv import SqlKeyValues
from backhaul.store.sql.operations.retention import SqlRetention
from backhaul.store.sql.operations.users import SqlUsers
from backhaul.store.sql.operations.webhook_secrets import SqlWebhookSecrets
from backhaul.store.sql.read_models.reader import SqlReader
from backhaul.store.sql.records.repository import SqlRecords
from backhaul.store.sql.stock_targets.repository import SqlTargets
from backhaul.store.sqlite import connections, full_text
from backhaul.store.sqlite.engine import SqliteEngine
from backhaul.store.sqlite.full_text import SqliteErasure, SqliteSearchIndex
from backhaul.store.sqlite.writer import Writer

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.store.operations import OrphanedWork
    from backhaul.store.read_models import Reader
    from backhaul.store.sql.round_writer import Row
    from backhaul.store.sqlite.writer import Connect, MakeWriter


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


T = TypeVar("T")


class SqliteStore(Store):
    """All families over one engine. `start` and `stop` may be called twice."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        connect: Connect = connections.open_writer,
        writer: MakeWriter = Writer,
    ) -> None:
        self.path = path
        self._writer = writer(path, append_batch, connect)
        self.engine = engine = SqliteEngine(path, self._writer, clock)
        self.inbox = SqlInbox(engine, clock)
        self.records = SqlRecords(engine)
        self.deliveries = SqlDeliveries(engine, clock)
        self.quarantine = SqlQuarantine(engine)
        self.commands = SqlCommands(engine)
        self.uncertain = SqlUncertainCommands(engine)
        self.tags = SqlHistoryTags(engine)
        self.targets = SqlTargets(engine)
        self.decisions = SqlDecisions(engine)
        self.incidents = SqlIncidents(engine)
        self.kv = SqlKeyValues(engine)
        self.webhook_secrets = SqlWebhookSecrets(engine)
        self.search = SqliteSearchIndex(engine, clock)
        self.erasure = SqliteErasure(engine, clock)
        self.retention = SqlRetention(engine, clock)
        self.job_runs = SqlJobRuns(engine)
        self.reprocessing = SqlReprocessing(engine, clock)
        self.refetch_queue = SqlRefetchQueue(engine)
        self.alerts = SqlAlerts(engine)
        self.passes = SqlPasses(engine)
        self.mirror = SqlMirror(engine)
        self.gauges = SqlGauges(engine, engine.sizes)
        self.alert_conditions = SqlAlertConditions(engine)
        self.users = SqlUsers(engine)
        self.metric_samples = SqlMetricSamples(engine)

    def start(self) -> None:
        self._writer.start()

    async def read(self, query: Callable[[Reader], T]) -> T:
        now = self.engine.now()
        return await self.engine.read(
            lambda connection: query(SqlReader(connection, full_text.find, now))
        )

    async def orphaned_work(self, stores: Iterable[str]) -> tuple[OrphanedWork, ...]:
        return await self._writer.urgent(
            lambda connection: alert_conditions.of_other_stores(connection, stores)
        )

    def heartbeat(self) -> asyncio.Future[None]:
        """Resolve once the writer's thread has answered, even if with Busy."""
        return self._writer.heartbeat()

    @property
    def is_rewriting(self) -> bool:
        """Return True while the writer rewrites the file, which may take minutes."""
        return self._writer.is_rewriting

    async def watch(self) -> NoReturn:
        """Raise WriterFailed once the writer has ended."""
        await self._writer.watch()

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
