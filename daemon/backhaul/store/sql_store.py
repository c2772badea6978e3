"""The store over an engine, put together from the families of the common text."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, TypeVar

from backhaul.runtime.loop import OpenWork
from backhaul.store import Store
from backhaul.store.operators import MemoryLogins
from backhaul.store.ownership import SoleOwner
from backhaul.store.sql.commands.incidents import SqlIncidents
from backhaul.store.sql.commands.operator_decisions import SqlDecisions
from backhaul.store.sql.commands.reference_tags import SqlHistoryTags
from backhaul.store.sql.commands.repository import SqlCommands
from backhaul.store.sql.commands.uncertain import SqlUncertainCommands
from backhaul.store.sql.deliveries.repository import SqlDeliveries
from backhaul.store.sql.inbox.fold import SqlInbox
from backhaul.store.sql.inbox.quarantine import SqlQuarantine
from backhaul.store.sql.inbox.refetch_queue import SqlRefetchQueue
from backhaul.store.sql.inbox.reprocess import SqlReprocessing
from backhaul.store.sql.mirror.sync_progress import SqlMirror, SqlPasses
from backhaul.store.sql.operations import alerts
from backhaul.store.sql.operations.alerts import SqlAlertConditions, SqlAlerts
from backhaul.store.sql.operations.gauges import SqlGauges, SqlMetricSamples
from backhaul.store.sql.operations.job_runs import SqlJobRuns
from backhaul.store.sql.operations.kv import SqlKeyValues
from backhaul.store.sql.operations.operators import SqlUsers
from backhaul.store.sql.operations.retention import SqlRetention
from backhaul.store.sql.operations.tokens import SqlTokens
from backhaul.store.sql.operations.webhook_secrets import (
    SqlSealedSecrets,
    SqlWebhookSecrets,
)
from backhaul.store.sql.read_models.reader import SqlReader
from backhaul.store.sql.records.mappings import SqlMappings
from backhaul.store.sql.records.repository import SqlConnectorDocuments, SqlRecords
from backhaul.store.sql.stock_targets.repository import SqlTargets

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from backhaul.core.clock import Clock
    from backhaul.store.customer_erasure import Erasure
    from backhaul.store.operations import OrphanedWork
    from backhaul.store.operators import Logins, Requests
    from backhaul.store.ownership import Ownership
    from backhaul.store.read_models import Reader, SearchIndex
    from backhaul.store.sql.family import Engine
    from backhaul.store.sql.read_models.reader import Search
    from backhaul.store.sql.round_writer import RoundWriter

T = TypeVar("T")


class SqlStore(Store):
    """All families over one engine. `start` and `stop` may be called twice.

    The engine gives the families that differ: search and erasure.
    """

    def __init__(
        self,
        engine: Engine,
        writer: RoundWriter,
        clock: Clock,
        search: SearchIndex,
        erasure: Erasure,
        find: Search,
    ) -> None:
        self._engine = engine
        self._writer = writer
        self._find = find
        self.ownership: Ownership = SoleOwner()
        self.logins: Logins = MemoryLogins(clock)
        self.requests: Requests | None = None
        self.search = search
        self.erasure = erasure
        self.inbox = SqlInbox(engine, clock)
        self.records = SqlRecords(engine)
        self.documents = SqlConnectorDocuments(engine)
        self.mappings = SqlMappings(engine)
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
        self.sealed_secrets = SqlSealedSecrets(engine, engine)
        self.retention = SqlRetention(engine, clock)
        self.job_runs = SqlJobRuns(engine)
        self.reprocessing = SqlReprocessing(engine, clock)
        self.refetch_queue = SqlRefetchQueue(engine)
        self.alerts = SqlAlerts(engine)
        self.passes = SqlPasses(engine)
        self.mirror = SqlMirror(engine)
        self.gauges = SqlGauges(engine)
        self.open_work = OpenWork(self.gauges.open_stores, clock)
        self.alert_conditions = SqlAlertConditions(engine)
        self.users = SqlUsers(engine)
        self.tokens = SqlTokens(engine)
        self.metric_samples = SqlMetricSamples(engine)

    def start(self) -> None:
        self._writer.start()

    async def read(self, query: Callable[[Reader], T]) -> T:
        now = self._engine.now()
        return await self._engine.read(
            lambda connection: query(SqlReader(connection, self._find, now))
        )

    async def orphaned_work(self, stores: Iterable[str]) -> tuple[OrphanedWork, ...]:
        return await self._writer.urgent(
            lambda connection: alerts.of_other_stores(connection, stores)
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
