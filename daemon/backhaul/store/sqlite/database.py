"""The SQLite store, put together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NoReturn

from backhaul.store.sqlite import connections, stranded
from backhaul.store.sqlite.alerting import SqliteAlerts
from backhaul.store.sqlite.commands import SqliteCommands
from backhaul.store.sqlite.deciding import SqliteDecisions
from backhaul.store.sqlite.deliveries import SqliteDeliveries
from backhaul.store.sqlite.doubts import SqliteDoubts
from backhaul.store.sqlite.forgetting import SqliteForgetting
from backhaul.store.sqlite.inbox import SqliteInbox, append_batch
from backhaul.store.sqlite.incidents import SqliteIncidents
from backhaul.store.sqlite.job_runs import SqliteJobRuns
from backhaul.store.sqlite.marks import SqliteMarks
from backhaul.store.sqlite.needing import SqliteNeeds
from backhaul.store.sqlite.numbers import Numbers, SqliteSamples
from backhaul.store.sqlite.quarantining import SqliteQuarantine
from backhaul.store.sqlite.records import SqliteRecords
from backhaul.store.sqlite.refolding import SqliteRefolds
from backhaul.store.sqlite.rereads import SqliteRereads
from backhaul.store.sqlite.retention import SqliteRetention
from backhaul.store.sqlite.search import SqliteSearch
from backhaul.store.sqlite.sweeps import SqliteLook, SqliteSweeps
from backhaul.store.sqlite.tags import SqliteTags
from backhaul.store.sqlite.targets import SqliteTargets
from backhaul.store.sqlite.users import SqliteUsers
from backhaul.store.sqlite.webhook_secrets import SqliteWebhookSecrets
from backhaul.store.sqlite.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.store.alerting import Stranded
    from backhaul.store.sqlite.writer import Connect, MakeWriter


class SqliteStore:
    """All verbs over one writer. `start` and `stop` may be called twice."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        connect: Connect = connections.open_writer,
        writer: MakeWriter = Writer,
    ) -> None:
        self.path = path
        self._writer = writer(path, append_batch, connect)
        self.inbox = SqliteInbox(self._writer, clock)
        self.records = SqliteRecords(self._writer, clock)
        self.deliveries = SqliteDeliveries(self._writer, clock)
        self.quarantine = SqliteQuarantine(self._writer, clock)
        self.commands = SqliteCommands(self._writer, clock)
        self.doubts = SqliteDoubts(self._writer, clock)
        self.tags = SqliteTags(self._writer, clock)
        self.targets = SqliteTargets(self._writer, clock)
        self.decisions = SqliteDecisions(self._writer, clock)
        self.incidents = SqliteIncidents(self._writer, clock)
        self.marks = SqliteMarks(self._writer)
        self.webhook_secrets = SqliteWebhookSecrets(self._writer, clock)
        self.search = SqliteSearch(self._writer, clock)
        self.forgetting = SqliteForgetting(path, self._writer, clock)
        self.retention = SqliteRetention(self._writer, clock)
        self.job_runs = SqliteJobRuns(self._writer, clock)
        self.refolds = SqliteRefolds(self._writer, clock)
        self.rereads = SqliteRereads(self._writer, clock)
        self.alerts = SqliteAlerts(self._writer, clock)
        self.sweeps = SqliteSweeps(self._writer, clock)
        self.look = SqliteLook(path)
        self.numbers = Numbers(path, clock)
        self.needs = SqliteNeeds(path)
        self.users = SqliteUsers(path, self._writer, clock)
        self.samples = SqliteSamples(path, self._writer)

    def start(self) -> None:
        """Start the writer. Call from the running event loop."""
        self._writer.start()

    async def stranded(self, stores: Iterable[str]) -> tuple[Stranded, ...]:
        """Return what is open for stores other than these."""
        return await self._writer.urgent(lambda c: stranded.counted(c, stores))

    def heartbeat(self) -> asyncio.Future[None]:
        """Resolve once the writer's thread has answered, though it be with Busy."""
        return self._writer.heartbeat()

    @property
    def is_rewriting(self) -> bool:
        """Whether the writer's thread is at what may take minutes."""
        return self._writer.is_rewriting

    async def watch(self) -> NoReturn:
        """Raise WriterFailed once nothing can be written any more."""
        await self._writer.watch()

    async def stop(self) -> None:
        """Finish what was handed in and close the file, without a log beside it."""
        await self._writer.stop()
        self.look.close()
        self.numbers.close()
        self.needs.close()
        self.users.close()
        self.samples.close()
        await asyncio.to_thread(connections.end_log, self.path)
