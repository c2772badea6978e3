"""Runs one connection: polls it, listens for it and stores its records."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

from loguru import logger
from msgspec.structs import replace

from backhaul.connect import http_routes
from backhaul.connect.health import (
    BelowZero,
    ConnectorFailed,
    Health,
    Notices,
    guarded,
    within,
    words,
)
from backhaul.connect.matching import encode
from backhaul.connect.polling import Polls
from backhaul.core.clock import to_text
from backhaul.core.text import storable
from backhaul.errors import BackhaulError, Busy
from backhaul.store.contract import NewRecord
from backhaul_sdk import Bad, Capability, Receipt, Rejection

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from backhaul.connect.matching import Matcher
    from backhaul.core.clock import Clock
    from backhaul.store.contract import RecordOutcome, Records
    from backhaul.store.job_runs import Told
    from backhaul_sdk import (
        Batch,
        Connector,
        HttpRequest,
        HttpResponse,
        NameInShop,
        Record,
        Route,
    )
    from backhaul_sdk.contract import HttpHandler

    Accept: TypeAlias = Callable[
        [Sequence[NewRecord]], Awaitable[Sequence[RecordOutcome]]
    ]
    Waiting: TypeAlias = tuple[NewRecord, asyncio.Future[RecordOutcome]]


MOST_AT_ONCE = 200
"""A webhook that comes meanwhile waits for all of them."""


class Gathering:
    """Accepts together what came while the last records were on their way to the disk.

    One unit of work for each record would wake the writer's thread as often, and each
    wake is a fight for the interpreter lock.
    """

    def __init__(self, accept: Accept) -> None:
        self._accept = accept
        self._waiting: list[Waiting] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, record: NewRecord) -> asyncio.Future[RecordOutcome]:
        """Accept one record; resolves after its commit. Waiting may raise Busy."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[RecordOutcome] = loop.create_future()
        self._waiting.append((record, future))
        if self._task is None:
            self._task = loop.create_task(self._work())
        return future

    async def _work(self) -> None:
        try:
            while group := self._waiting[:MOST_AT_ONCE]:
                del self._waiting[: len(group)]
                await self._take(group)
        finally:
            self._task = None

    async def _take(self, group: list[Waiting]) -> None:
        """Accept a group, or else one by one: what cannot be kept fails alone."""
        try:
            outcomes = await self._accept([record for record, _ in group])
        except Exception as error:  # noqa: BLE001 - handed to whoever waits
            if len(group) == 1 or isinstance(error, Busy):
                _tell([future for _, future in group], error)
                return
            for waiting in group:
                await self._take([waiting])
            return
        for (_, future), outcome in zip(group, outcomes, strict=True):
            if not future.done():
                future.set_result(outcome)


def _tell(futures: list[asyncio.Future[RecordOutcome]], error: Exception) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)


OPEN_SECONDS = 30.0
"""Longer than the limits that connectors have of their own: their words tell more."""
FAREWELL_SECONDS = 2.0


class Opening:
    """One connector's way to being open.

    A try that takes too long is cancelled, but not waited for: in a thread, at a share
    that is gone, it may hang on. No second one is begun beside it; it is waited for
    again, and begun anew once it has ended.
    """

    def __init__(self, connector: Connector[Any]) -> None:
        self.done = False
        self._connector = connector
        self._turn = asyncio.Lock()
        self._trying: asyncio.Task[None] | None = None

    async def within(self, seconds: float) -> None:
        """Open the connector unless it is open. Raises ConnectorFailed, and Busy."""
        async with self._turn:
            if self.done:
                return
            if self._trying is None or self._trying.done():
                loop = asyncio.get_running_loop()
                self._trying = loop.create_task(guarded(self._connector.open()))
            await within(seconds, self._trying, "to open")
            self.done = True

    async def stop(self) -> None:
        """Leave nothing under way that ends when it is asked to."""
        if self._trying is not None:
            self._trying.cancel()
            await asyncio.wait([self._trying], timeout=FAREWELL_SECONDS)


REPORTED_AT_ONCE = 1_000
LOOK_UP_SECONDS = 2.0
"""A person with a scanner waits no longer for a check that may be left out."""
_WORDS = {
    "accepted": "on its way to the store",
    "waiting": "kept: {}; it is tried again",
    "duplicate": "{}",
    "conflict": "{}",
    "quarantined": "{}",
}


class Host:
    """One instance in its own task; its failures are its own.

    `every_seconds` is None where its job says when it is polled, through `polls`; that
    job is told by `polled` what came of it.
    """

    def __init__(
        self,
        connector: Connector[Any],
        store: str,
        every_seconds: float | None,
        records: Records,
        matcher: Matcher,
        clock: Clock,
        planned: Callable[[], None],
        chance: Callable[[], float],
    ) -> None:
        self.connector = connector
        self._store = store
        self.polls = Polls(clock, every_seconds)
        self.polled: Told | None = None
        self._records = records
        self._matcher = matcher
        self._clock = clock
        self._planned = planned
        self._opening = Opening(connector)
        self._rounds = asyncio.Lock()
        self._counts: Counter[str] = Counter()
        self._health = Health(connector.instance, "", clock, chance)
        self._deaf: str | None = None
        self._emitted = Gathering(self._accept)
        self._notices = Notices(connector)
        self._below_zero = BelowZero()
        self._log = logger.bind(instance=connector.instance)
        connector.look_up = self._look_up

    def state(self) -> dict[str, object]:
        """Return whether the instance works, if not why, and when it last did."""
        health = self._health
        return {
            "up": health.up and self._deaf is None,
            "reason": health.reason or self._deaf,
            "worked_at": health.worked_at,
            "notices": [*self._notices.current, *self._below_zero.notices()],
        }

    async def listen(self, seconds: float) -> Sequence[Route]:
        """Open the connector and return the HTTP routes it wants served.

        One that cannot be opened (a share that is not mounted yet), or not within so
        many seconds, is down and tried again: webhooks and the other connectors do not
        wait for it.
        """
        try:
            await self._opening.within(seconds)
        except (ConnectorFailed, Busy) as error:
            self.polls.failed(self._health.fell(words(error)))
        try:
            asked = asyncio.get_running_loop().create_task(guarded(self._routes()))
            return await within(seconds, asked, "to listen")
        except (ConnectorFailed, Busy) as error:
            until = "cannot be called until the daemon is started anew"
            self._deaf = f"{until}: {words(error)}"
            self._log.bind(action="connector.deaf").error(
                "{}: {}", self.connector.instance, self._deaf
            )
            return ()

    async def _routes(self) -> Sequence[Route]:
        routes = await self.connector.listen(self.emit)
        http_routes.check(self.connector.instance, routes)
        return [replace(route, handler=self._when_open(route)) for route in routes]

    async def open(self) -> None:
        """Open the connector unless it is open. Raises ConnectorFailed, and Busy."""
        await self._opening.within(OPEN_SECONDS)

    def _when_open(self, route: Route) -> HttpHandler:
        async def handle(request: HttpRequest) -> HttpResponse:
            if not self._opening.done:
                raise Busy(f"{self.connector.instance} is down: {self._health.reason}")
            return await route.handler(request)

        return handle

    async def run(self) -> None:
        """Ask for records for ever. Cancel to stop."""
        while True:
            # First: one that could not be opened when it was to listen is left alone.
            does_poll = await self.polls.next(self._health.look)
            async with self._rounds:
                await self._round(does_poll=does_poll)

    async def close(self) -> None:
        """Close the connector; an error in it is not ours."""
        await self._opening.stop()
        try:
            await guarded(self.connector.close())
        except (ConnectorFailed, Busy) as error:
            self._log.bind(action="connector.close_failed").warning("{}", error)

    async def emit(self, record: Record | Bad) -> Receipt:
        """Keep one record; the receipt is given after the commit. May raise Busy."""
        outcome = await self._emitted.add(_new(record))
        words = _WORDS[outcome.state].format(outcome.reason)
        state = "duplicate" if outcome.state == "conflict" else outcome.state
        return Receipt(state, words)

    async def _look_up(self, names: Sequence[str]) -> dict[str, NameInShop] | None:
        """Read the mirror for the connector; None while it cannot answer."""
        if self._matcher.is_held(self._store):
            return None
        try:
            async with asyncio.timeout(LOOK_UP_SECONDS):
                return await self._records.look_up(self._store, names)
        except (Busy, TimeoutError):
            return None

    async def once(self) -> dict[str, int]:
        """Ask for records now; return how many came to what. Raises BackhaulError."""
        async with self._rounds:
            await self._round(does_poll=True)
        if self._health.reason is not None:
            raise BackhaulError(f"{self.connector.instance}: {self._health.reason}")
        return dict(self._counts)

    async def _round(self, *, does_poll: bool) -> None:
        self._counts, began = Counter(), to_text(self._clock.now())
        reason = ""
        try:
            await self.open()
            if does_poll:
                await self._poll()
        except (ConnectorFailed, Busy) as error:
            reason = words(error)
            self.polls.failed(self._health.fell(reason))
        else:
            self.polls.succeeded(polled=does_poll)
            if not self.polls.is_owed:
                self._health.rose()
        if does_poll and self.polled is not None:
            await self.polled(began, reason or self._result(), failed=bool(reason))

    async def _poll(self) -> None:
        await guarded(self._apply())
        if Capability.PULL in self.connector.spec.capabilities:
            await guarded(self._pull())
        self._notices.refresh()
        await guarded(self.report())

    def _result(self) -> str:
        """Return for an operator what the records of a round came to."""
        counts = sorted(self._counts.items())
        return (
            ", ".join(f"{number} {state}" for state, number in counts) or "nothing new"
        )

    async def _pull(self) -> None:
        cursor = await self._records.cursor(self.connector.instance)
        async for batch in self.connector.pull(cursor):
            await self._take(batch)

    async def _apply(self) -> None:
        """Let the connector apply what it keeps, where an operator decided so."""
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
        outcomes = await self._records.accept(
            self.connector.instance, self._store, records, cursor, self._matcher
        )
        every = [each for outcome in outcomes for each in (outcome, *outcome.also)]
        if any(outcome.state in {"accepted", "waiting"} for outcome in every):
            self._planned()
        for outcome in every:
            self._counts[outcome.state] += 1
            tell(outcome)
        return outcomes

    async def report(self) -> None:
        """Show the connector its rows in quarantine that it has not seen."""
        own = self.connector.instance
        while rows := await self._records.unreported(own, REPORTED_AT_ONCE):
            await self.connector.report(
                [Rejection(row.key, row.raw, row.reason, row.locator) for row in rows]
            )
            await self._records.mark_reported([row.id for row in rows])


def tell(outcome: RecordOutcome) -> None:
    """Log what became of a record; only quarantine is worth a person's eye."""
    level = "WARNING" if outcome.state in {"quarantined", "conflict"} else "DEBUG"
    record = outcome.record
    logger.bind(action=f"record.{outcome.state}", instance=record.instance).log(
        level,
        "{} {}: {}",
        record.instance,
        record.locator or record.key,
        outcome.reason,
    )


def _new(record: Record | Bad) -> NewRecord:
    """Make a row of a record; one with characters that are no text is a bad one."""
    raw, locator = storable(record.raw), storable(record.locator)
    if isinstance(record, Bad):
        reason = storable(record.reason)
        key = storable(record.key)
        return NewRecord(key, None, raw, reason, locator, record.can_apply)
    try:
        return NewRecord(record.key, encode(record), raw, "", locator)
    except UnicodeEncodeError:
        reason = "it holds characters that are no text"
        return NewRecord(storable(record.key), None, raw, reason, locator)
