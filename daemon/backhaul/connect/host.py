"""Runs each connection: polls it, serves its HTTP routes and stores its records."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

from loguru import logger
from msgspec.structs import replace

from backhaul.connect import http_routes
from backhaul.connect.health import (
    ConnectorFailed,
    Health,
    NegativeStockCounter,
    Notices,
    error_text,
    guarded,
    with_timeout,
)
from backhaul.connect.own_documents import OwnDocuments, read_sqlite
from backhaul.connect.quarantine_fields import encode_read
from backhaul.connect.record_matching import encode, log_outcome
from backhaul.connect.record_spans import TracedRecords
from backhaul.core.clock import to_text
from backhaul.core.strict_json import storable
from backhaul.errors import BackhaulError, Busy
from backhaul.runtime.signals import no_report
from backhaul.store.records import NewRecord
from backhaul_sdk import Bad, Capability, Receipt, Rejection

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from aiohttp import web

    from backhaul.connect.polling import PollSchedule
    from backhaul.connect.record_matching import Matcher
    from backhaul.runtime.signals import StoreContext
    from backhaul.store.operations import ReportEnd
    from backhaul.store.records import ConnectorDocuments, RecordOutcome, Records
    from backhaul_sdk import (
        Batch,
        Connector,
        HttpRequest,
        HttpResponse,
        NameInStore,
        Record,
        Route,
    )
    from backhaul_sdk.contract import HttpHandler

    Accept: TypeAlias = Callable[
        [Sequence[NewRecord]], Awaitable[Sequence[RecordOutcome]]
    ]
    Waiting: TypeAlias = tuple[NewRecord, asyncio.Future[RecordOutcome]]

MAX_BATCH = 200
"""Most records of one transaction; a webhook waits for all of them."""


class RecordBatcher:
    """Stores together the records that came while the last ones were written.

    A transaction for each record would wake the writer's thread as often, and each wake
    competes for the interpreter lock.
    """

    def __init__(self, accept: Accept) -> None:
        self._accept = accept
        self._waiting: list[Waiting] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, record: NewRecord) -> asyncio.Future[RecordOutcome]:
        """Store one record; resolves after its commit. Waiting may raise Busy."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[RecordOutcome] = loop.create_future()
        self._waiting.append((record, future))
        if self._task is None:
            self._task = loop.create_task(self._work())
        return future

    async def _work(self) -> None:
        try:
            while group := self._waiting[:MAX_BATCH]:
                del self._waiting[: len(group)]
                await self._take(group)
        finally:
            self._task = None

    async def _take(self, group: list[Waiting]) -> None:
        """Store a group; if that fails, store its records one by one."""
        try:
            outcomes = await self._accept([record for record, _ in group])
        except Exception as error:  # noqa: BLE001 - passed to the waiting callers
            if len(group) == 1 or isinstance(error, Busy):
                _fail_all([future for _, future in group], error)
                return
            for waiting in group:
                await self._take([waiting])
            return
        for (_, future), outcome in zip(group, outcomes, strict=True):
            if not future.done():
                future.set_result(outcome)


def _fail_all(futures: list[asyncio.Future[RecordOutcome]], error: Exception) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)


OPEN_SECONDS = 30.0
"""Longer than the connectors' own limits, whose errors say more."""
STOP_SECONDS = 2.0


class ConnectorOpener:
    """Opens one connector, at most one attempt at a time.

    An attempt that takes too long is cancelled but not awaited: a thread that reads a
    lost network share may hang. No second attempt starts before the first one has
    ended.
    """

    def __init__(self, connector: Connector[Any]) -> None:
        self.done = False
        self._connector = connector
        self._turn = asyncio.Lock()
        self._trying: asyncio.Task[None] | None = None

    async def within(self, seconds: float) -> None:
        """Open the connector unless it is open. Raises ConnectorFailed and Busy."""
        async with self._turn:
            if self.done:
                return
            if self._trying is None or self._trying.done():
                loop = asyncio.get_running_loop()
                self._trying = loop.create_task(guarded(self._connector.open()))
            await with_timeout(seconds, self._trying, "to open")
            self.done = True

    async def stop(self) -> None:
        """Cancel the attempt, and wait shortly until it has ended."""
        if self._trying is not None:
            self._trying.cancel()
            await asyncio.wait([self._trying], timeout=STOP_SECONDS)


START_SECONDS = 10.0
"""How long the start of the daemon waits for all connectors together."""


REPORTED_AT_ONCE = 1_000
MIRROR_LOOKUP_SECONDS = 2.0
"""How long a scan waits for an optional lookup in the mirror."""
_RECEIPT_TEXTS = {
    "accepted": "on its way to the store",
    "waiting": "{}. The record is stored, and Backhaul will try again",
    "duplicate": "{}",
    "conflict": "{}",
    "quarantined": "{}",
}


class Host:
    """Runs one connection in its own task; its failures stay its own.

    `polls` decides when it is polled; `report` stores the result of each poll.
    """

    def __init__(
        self,
        connector: Connector[Any],
        context: StoreContext,
        polls: PollSchedule,
        records: Records,
        documents: ConnectorDocuments,
        matcher: Matcher,
        report: ReportEnd = no_report,
    ) -> None:
        self.connector = connector
        self._store = context.name
        self.polls = polls
        self._report = report
        self._records = records
        self._matcher = matcher
        self._clock = context.clock
        self._tracer = context.tracer
        self._accepted = context.signals.records_accepted
        self._stored = context.signals.record_stored
        self._opening = ConnectorOpener(connector)
        self._rounds = asyncio.Lock()
        self._counts: Counter[str] = Counter()
        self._health = Health(connector.instance, "", context.clock, context.chance)
        self._listen_error: str | None = None
        self._batcher = RecordBatcher(self._accept)
        self._notices = Notices(connector)
        self._below_zero = NegativeStockCounter()
        self._log = logger.bind(instance=connector.instance)
        connector.find_in_store = self._find_in_store
        connector.documents = OwnDocuments(
            documents, connector.instance, self._readable_store
        )
        connector.read_sqlite = read_sqlite

    def state(self) -> dict[str, object]:
        """Return whether the connection works, if not why, and when it last worked."""
        health = self._health
        return {
            "up": health.up and self._listen_error is None,
            "reason": health.reason or self._listen_error,
            "worked_at": health.worked_at,
            "notices": [*self._notices.current, *self._below_zero.notices()],
        }

    async def listen(self, seconds: float) -> Sequence[Route]:
        """Open the connector and return the HTTP routes that it serves.

        A connector that does not open within `seconds` (a share that is not mounted
        yet) is down and is retried: webhooks and the other connectors do not wait for
        it.
        """
        try:
            await self._opening.within(seconds)
        except (ConnectorFailed, Busy) as error:
            self.polls.failed(self._health.failed(error_text(error)))
        try:
            asked = asyncio.get_running_loop().create_task(guarded(self._routes()))
            return await with_timeout(seconds, asked, "to listen")
        except (ConnectorFailed, Busy) as error:
            until = "cannot receive requests until the daemon is restarted"
            self._listen_error = f"{until}: {error_text(error)}"
            self._log.bind(action="connector.listen_failed").error(
                "{}: {}", self.connector.instance, self._listen_error
            )
            return ()

    async def _routes(self) -> Sequence[Route]:
        routes = await self.connector.listen(self.emit)
        http_routes.check(self.connector.instance, routes)
        return [replace(route, handler=self._when_open(route)) for route in routes]

    async def open(self) -> None:
        """Open the connector unless it is open. Raises ConnectorFailed and Busy."""
        await self._opening.within(OPEN_SECONDS)

    def _when_open(self, route: Route) -> HttpHandler:
        async def handle(request: HttpRequest) -> HttpResponse:
            if not self._opening.done:
                raise Busy(
                    f"connection {self.connector.instance} is down:"
                    f" {self._health.reason}"
                )
            return await route.handler(request)

        return handle

    async def run(self) -> None:
        """Poll for records until cancelled."""
        while True:
            # Wait first: `listen` may just have failed to open the connector.
            does_poll = await self.polls.next(self._health.log_recovery)
            async with self._rounds:
                await self._round(does_poll=does_poll)

    async def close(self) -> None:
        """Close the connector; its errors are only logged."""
        await self._opening.stop()
        try:
            await guarded(self.connector.close())
        except (ConnectorFailed, Busy) as error:
            self._log.bind(action="connector.close_failed").warning("{}", error)

    async def emit(self, record: Record | Bad) -> Receipt:
        """Store one record; return its receipt after the commit. May raise Busy."""
        outcome = await self._batcher.add(_new(record))
        error_text = _RECEIPT_TEXTS[outcome.state].format(outcome.reason)
        state = "duplicate" if outcome.state == "conflict" else outcome.state
        return Receipt(state, error_text)

    def _readable_store(self) -> str | None:
        return None if self._matcher.is_held(self._store) else self._store

    async def _find_in_store(
        self, names: Sequence[str]
    ) -> dict[str, NameInStore] | None:
        """Read the mirror for the connector; None if it cannot answer now."""
        if (store := self._readable_store()) is None:
            return None
        try:
            async with asyncio.timeout(MIRROR_LOOKUP_SECONDS):
                own = self.connector.instance
                return await self._records.find_names(store, names, own)
        except (Busy, TimeoutError):
            return None

    async def once(self) -> dict[str, int]:
        """Poll now; return the number of records by state. Raises BackhaulError."""
        async with self._rounds:
            await self._round(does_poll=True)
        if self._health.reason is not None:
            raise BackhaulError(
                f"connection {self.connector.instance}: {self._health.reason}"
            )
        return dict(self._counts)

    async def _round(self, *, does_poll: bool) -> None:
        self._counts, began = Counter(), to_text(self._clock.now())
        reason = ""
        try:
            await self.open()
            if does_poll:
                await self._poll()
        except (ConnectorFailed, Busy) as error:
            reason = error_text(error)
            self.polls.failed(self._health.failed(reason))
        else:
            self.polls.succeeded(polled=does_poll)
            if not self.polls.is_owed:
                self._health.worked()
        if does_poll:
            await self._report(began, reason or self._result(), failed=bool(reason))

    async def _poll(self) -> None:
        await guarded(self._apply())
        if Capability.PULL in self.connector.spec.capabilities:
            await guarded(self._pull())
        self._notices.refresh()
        await guarded(self.report())

    def _result(self) -> str:
        """Return the result of a poll for operators, such as `3 accepted`."""
        counts = sorted(self._counts.items())
        return (
            ", ".join(f"{number} {state}" for state, number in counts) or "nothing new"
        )

    async def _pull(self) -> None:
        cursor = await self._cursor()
        async for batch in self.connector.pull(cursor):
            await self._take(batch)

    async def _cursor(self) -> str | None:
        """Return where to go on; after a restore, once with all stock counts again."""
        own = self.connector.instance
        cursor = await self._records.cursor(own)
        if not await self._records.must_read_stock_list(own):
            return cursor
        restarted = self.connector.restart_stock(cursor)
        await self._records.begin_stock_list(own, restarted)
        if restarted != cursor:
            self._log.bind(action="connector.stock_restarted").info(
                "{} reads all stock counts again, because some are on hold since the"
                " database was restored",
                own,
            )
        return restarted

    async def _apply(self) -> None:
        """Let the connector apply the rows that an operator approved."""
        for row in await self._records.approved(self.connector.instance):
            cursor = await self._records.cursor(self.connector.instance)
            wanted = Rejection(row.key, row.raw, row.reason, row.locator)
            async for batch in self.connector.apply(wanted, cursor):
                await self._take(batch)
            await self._records.mark_applied(row.id)

    async def _take(self, batch: Batch) -> None:
        await self._accept([_new(record) for record in batch.records], batch.cursor)
        self._notices.log_notes(batch.notes)
        self._below_zero.add(batch.records)
        await batch.ack()

    async def _accept(
        self, records: Sequence[NewRecord], cursor: str | None = None
    ) -> Sequence[RecordOutcome]:
        traced = None
        if self._tracer is not None:
            traced = TracedRecords(
                self._tracer, self.connector.instance, self._store, records
            )
            records = traced.records
        outcomes = await self._records.accept(
            self.connector.instance, self._store, records, cursor, self._matcher
        )
        if traced is not None:
            traced.end(outcomes)
        every = [each for outcome in outcomes for each in (outcome, *outcome.also)]
        if any(outcome.state in {"accepted", "waiting"} for outcome in every):
            self._accepted.emit()
        for outcome in every:
            self._counts[outcome.state] += 1
            self._stored.emit(self.connector.instance, outcome.state)
            log_outcome(outcome)
        return outcomes

    async def report(self) -> None:
        """Pass quarantined rows that the connector has not seen to the connector."""
        own = self.connector.instance
        while rows := await self._records.unreported(own, REPORTED_AT_ONCE):
            await self.connector.report(
                [Rejection(row.key, row.raw, row.reason, row.locator) for row in rows]
            )
            await self._records.mark_reported([row.id for row in rows])


async def listen_all(hosts: Sequence[Host], seconds: float) -> list[web.RouteDef]:
    """Start listening on every connection; return the routes for the public listener.

    Each connection gets at most `seconds`; no connection waits for another.
    """
    wanted = await asyncio.gather(*(host.listen(seconds) for host in hosts))
    pairs = zip(hosts, wanted, strict=True)
    return [
        one
        for host, own in pairs
        for one in http_routes.routes(host.connector.instance, own)
    ]


async def poll_now(hosts: Sequence[Host], name: str) -> dict[str, int]:
    """Poll one connection now. Raises BackhaulError."""
    for host in hosts:
        if host.connector.instance == name:
            return await host.once()
    raise BackhaulError(
        f"connection {name} does not run, because enabled is false for it in the"
        f" configuration; set enabled = true in [connectors.{name}]"
    )


def _new(record: Record | Bad) -> NewRecord:
    """Return a record as a row to store; invalid Unicode makes it a bad record."""
    raw, locator = storable(record.raw), storable(record.locator)
    if isinstance(record, Bad):
        reason = storable(record.reason)
        key = storable(record.key)
        can_apply, read = record.can_apply, encode_read(record)
        return NewRecord(key, None, raw, reason, locator, can_apply, read)
    try:
        return NewRecord(record.key, encode(record), raw, "", locator)
    except UnicodeEncodeError:
        reason = "it contains characters that are not valid text"
        return NewRecord(storable(record.key), None, raw, reason, locator)
