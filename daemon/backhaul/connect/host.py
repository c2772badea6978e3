"""Runs one connector instance: asks it, listens for it, and keeps what it brings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from loguru import logger

from backhaul.connect.matching import encode
from backhaul.errors import Busy
from backhaul.store.contract import NewRecord
from backhaul_sdk import Bad, CheckFailed, Receipt, Rejection

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from backhaul.connect.matching import Matcher
    from backhaul.core.clock import Clock
    from backhaul.store.contract import RecordOutcome, Records
    from backhaul_sdk import Batch, Connector, HttpRequest, HttpResponse, Record, Route
    from backhaul_sdk.contract import HttpHandler

REOPEN_SECONDS = 5.0
_WORDS = {
    "accepted": "on its way to the store",
    "waiting": "kept: {}; it is tried again",
    "duplicate": "known already",
    "quarantined": "{}",
}


class Host:
    """One instance in its own task; its failures are its own."""

    def __init__(
        self,
        connector: Connector[Any],
        store: str,
        every_seconds: float,
        records: Records,
        matcher: Matcher,
        clock: Clock,
        planned: Callable[[], None],
    ) -> None:
        self.connector = connector
        self._store = store
        self._every = every_seconds
        self._records = records
        self._matcher = matcher
        self._clock = clock
        self._planned = planned
        self._opened = False
        self._down: str | None = None
        self._log = logger.bind(instance=connector.instance)

    def state(self) -> dict[str, object]:
        """Return whether the instance works, and if not, why."""
        return {"up": self._down is None, "reason": self._down}

    async def listen(self) -> Sequence[Route]:
        """Open the connector and return the HTTP routes it wants served.

        One that cannot be opened (a share that is not mounted yet) is down and tried
        again: webhooks and the other connectors do not wait for it.
        """
        try:
            await self._open()
        except Exception as error:  # noqa: BLE001 - one instance must not stop the rest
            self._fell(_words(error))
        routes = await self.connector.listen(self.emit)
        return [replace(route, handler=self._when_open(route)) for route in routes]

    async def _open(self) -> None:
        if not self._opened:
            await self.connector.open()
            self._opened = True

    def _when_open(self, route: Route) -> HttpHandler:
        async def handle(request: HttpRequest) -> HttpResponse:
            if not self._opened:
                raise Busy(f"{self.connector.instance} is down: {self._down}")
            return await route.handler(request)

        return handle

    async def run(self) -> None:
        """Ask for records for ever. Cancel to stop."""
        while True:
            await self._round()
            await self._clock.sleep(
                self._every if self._down is None else REOPEN_SECONDS
            )

    async def close(self) -> None:
        """Close the connector; an error in it is not ours."""
        try:
            await self.connector.close()
        except Exception as error:  # noqa: BLE001 - somebody else's code
            self._log.bind(action="connector.close_failed").warning("{}", error)

    async def emit(self, record: Record | Bad) -> Receipt:
        """Keep one record; the receipt is given after the commit. May raise Busy."""
        outcomes = await self._records.accept(
            self.connector.instance,
            self._store,
            [_new(record)],
            None,
            self._matcher,
        )
        await self._after(outcomes)
        words = _WORDS[outcomes[0].state].format(outcomes[0].reason)
        return Receipt(outcomes[0].state, words)

    async def _round(self) -> None:
        try:
            await self._open()
            cursor = await self._records.cursor(self.connector.instance)
            async for batch in self.connector.pull(cursor):
                await self._take(batch)
            await self.report()
        except Exception as error:  # noqa: BLE001 - one instance must not stop the rest
            self._fell(_words(error))
        else:
            self._rose()

    async def _take(self, batch: Batch) -> None:
        outcomes = await self._records.accept(
            self.connector.instance,
            self._store,
            [_new(record) for record in batch.records],
            batch.cursor,
            self._matcher,
        )
        await self._after(outcomes)
        await batch.ack()

    async def _after(self, outcomes: Sequence[RecordOutcome]) -> None:
        if any(outcome.state == "accepted" for outcome in outcomes):
            self._planned()
        for outcome in outcomes:
            tell(outcome)

    async def report(self) -> None:
        """Show the connector its rows in quarantine that it has not seen."""
        rows = await self._records.unreported(self.connector.instance)
        if rows:
            await self.connector.report(
                [Rejection(row.key, row.raw, row.reason, row.locator) for row in rows]
            )
            await self._records.mark_reported([row.id for row in rows])

    def _fell(self, reason: str) -> None:
        if self._down is None:
            self._log.bind(action="connector.down").error(
                "{}: {}", self.connector.instance, reason
            )
        self._down = reason

    def _rose(self) -> None:
        if self._down is not None:
            self._log.bind(action="connector.up").info(
                "{}: works again", self.connector.instance
            )
        self._down = None


def tell(outcome: RecordOutcome) -> None:
    """Log what became of a record; only quarantine is worth a person's eye."""
    level = "WARNING" if outcome.state == "quarantined" else "DEBUG"
    record = outcome.record
    logger.bind(action=f"record.{outcome.state}", instance=record.instance).log(
        level,
        "{} {}: {}",
        record.instance,
        record.locator or record.key,
        outcome.reason,
    )


def _words(error: Exception) -> str:
    """Return what to tell: a connector's own sentence needs no name of a class."""
    return (
        str(error)
        if isinstance(error, CheckFailed)
        else f"{type(error).__name__}: {error}"
    )


def _new(record: Record | Bad) -> NewRecord:
    """Make a row of a record; one with characters that are no text is a bad one."""
    raw, locator = _storable(record.raw), _storable(record.locator)
    if isinstance(record, Bad):
        reason = _storable(record.reason)
        return NewRecord(_storable(record.key), None, raw, reason, locator)
    try:
        return NewRecord(record.key, encode(record), raw, "", locator)
    except UnicodeEncodeError:
        reason = "it holds characters that are no text"
        return NewRecord(_storable(record.key), None, raw, reason, locator)


def _storable(text: str) -> str:
    """Return text with a mark for lone surrogates, as odd file names have them."""
    return text if text.isascii() else text.encode(errors="replace").decode()
