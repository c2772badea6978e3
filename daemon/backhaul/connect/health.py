"""Isolates connector errors; tracks whether a connector works, and its notices."""

from __future__ import annotations

import asyncio
import math
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from loguru import logger

from backhaul.core.backoff_and_circuit import delay_seconds
from backhaul.core.clock import is_cancelled, to_text
from backhaul.core.strict_json import storable
from backhaul.errors import Busy
from backhaul_sdk import CheckFailed, StockLevel
from backhaul_sdk.fields import TAKEN_AS_ZERO

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from backhaul.core.clock import Clock
    from backhaul_sdk import Bad, Connector, Record


T = TypeVar("T")


class ConnectorFailed(Exception):
    """A connector raised an error; the text is shown to operators."""


async def guarded(work: Awaitable[T]) -> T:
    """Await a connector's call. Raises ConnectorFailed; passes Busy of our database on.

    An unrequested cancellation and an attempt to exit the program are failures like
    others.
    """
    try:
        return await work
    except Busy:
        raise
    except asyncio.CancelledError:
        if is_cancelled():
            raise
        raise ConnectorFailed(
            "the connector cancelled its own task; this is a bug of the connector"
        ) from None
    except (Exception, SystemExit, GeneratorExit, BaseExceptionGroup) as error:
        if is_cancelled():
            raise asyncio.CancelledError from error
        raise ConnectorFailed(error_text(error)) from error


async def with_timeout(seconds: float, task: asyncio.Task[T], what: str) -> T:
    """Return the result of a guarded task; cancel the task after a timeout.

    Raises ConnectorFailed after the timeout, without waiting until the task has ended.
    """
    try:
        await asyncio.wait([task], timeout=seconds)
        if not task.done():
            raise ConnectorFailed(
                f"the connector took longer than {seconds:g} s {what}"
            )
        return task.result()
    finally:
        task.add_done_callback(_consume_late_result)
        task.cancel()


def _consume_late_result(task: asyncio.Task[T]) -> None:
    """Read a late result, or asyncio logs an exception that was never retrieved."""
    if not task.cancelled():
        task.exception()


def error_text(error: BaseException) -> str:
    """Return the error's text for logs; its class is named unless it is ours."""
    try:
        said = str(error)
    except Exception as unsaid:  # noqa: BLE001 - a connector may raise anything
        said = f"(the error has no text: {type(unsaid).__name__})"
    if isinstance(error, CheckFailed | ConnectorFailed):
        return storable(said)
    return storable(f"{type(error).__name__}: {said}")


STABLE_SECONDS = 10.0
"""A connector counts as working after it worked for so long: an unstable connection is
logged once."""
BASE_SECONDS = 1.0
CAP_SECONDS = 60.0
MAX_WAIT_SECONDS = 300.0
"""A request is tried again after this time, whatever wait the other side asked for."""


class Health:
    """The state of one direction of a connection, and its wait after failures."""

    def __init__(
        self, instance: str, side: str, clock: Clock, chance: Callable[[], float]
    ) -> None:
        self.reason: str | None = None
        self.worked_at: str | None = None
        self._label = f"{instance}{side}"
        self._log = logger.bind(instance=instance)
        self.clock = clock
        self._chance = chance
        self._told = False
        self._worked_since: float | None = None
        self._failures = 0

    @property
    def up(self) -> bool:
        """Whether the last attempt worked."""
        return self.reason is None

    def failed(self, reason: str, wanted_seconds: float | None = None) -> float:
        """Record a failure; return how many seconds to wait before the next attempt."""
        if not self._told:
            self._log.bind(action="connector.down").error("{}: {}", self._label, reason)
        self._told, self.reason, self._worked_since = True, reason, None
        self._failures += 1
        wait = delay_seconds(
            self._failures,
            base_seconds=BASE_SECONDS,
            cap_seconds=CAP_SECONDS,
            chance=self._chance(),
        )
        return bounded_wait(wanted_seconds, wait)

    def worked(self) -> None:
        """Record a success; recovery is logged once it has lasted."""
        self.reason, self._failures = None, 0
        self.worked_at = to_text(self.clock.now())
        if not self._told:
            return
        now = self.clock.monotonic()
        if self._worked_since is None:
            self._worked_since = now
        self.log_recovery()

    def log_recovery(self) -> float | None:
        """Log a lasting recovery; return the seconds until the next check, if any."""
        if self._worked_since is None:
            return None
        left = self._worked_since + STABLE_SECONDS - self.clock.monotonic()
        if left > 0:
            return left
        self._log.bind(action="connector.up").info("{}: works again", self._label)
        self._told, self._worked_since = False, None
        return None


def bounded_wait(wanted_seconds: Any, otherwise: float) -> float:
    """Return a requested wait if it is plausible, else `otherwise`.

    The other side chose the value: it may be a header's text, or nothing at all.
    """
    try:
        seconds = float(wanted_seconds)
    except (TypeError, ValueError, OverflowError):
        return otherwise
    if math.isnan(seconds) or seconds < 0:
        return otherwise
    return min(seconds, MAX_WAIT_SECONDS)


MAX_NOTICES = 20
"""Most notices of one connector that are shown, and notes of one batch that are
logged."""
MAX_COUNTED = 100_000
"""Most articles below 0 that are counted."""
MAX_CHARACTERS = 600
"""Most characters of one notice; the rest is cut."""


class Notices:
    """The notices of one connector; each new notice is logged once."""

    def __init__(self, connector: Connector[Any]) -> None:
        self.current: tuple[str, ...] = ()
        self._connector = connector
        self._log = logger.bind(instance=connector.instance)

    def refresh(self) -> None:
        """Read the connector's notices again. Raises ConnectorFailed."""
        before, self.current = self.current, tuple(read_notices(self._connector))
        for notice in self.current:
            if notice not in before:
                self._log.bind(action="connector.notice").warning(
                    "{}: {}", self._connector.instance, notice
                )

    def log_notes(self, notes: Iterable[str]) -> None:
        """Log the connector's notes about a stored batch."""
        for note in _sentences(notes):
            self._log.bind(action="connector.note").info(
                "{}: {}", self._connector.instance, note
            )


class NegativeStockCounter:
    """Counts articles whose last stock level was below 0 and was taken as 0.

    The count begins at the start of the daemon.
    """

    def __init__(self) -> None:
        self._skus: dict[str, None] = {}

    def add(self, records: Iterable[Record | Bad]) -> None:
        """Count the levels of a stored batch."""
        for record in records:
            if not isinstance(record, StockLevel):
                continue
            if TAKEN_AS_ZERO not in record.note:
                self._skus.pop(record.sku, None)
            elif len(self._skus) < MAX_COUNTED:
                self._skus[record.sku] = None

    def notices(self) -> list[str]:
        """Return a notice with the number of articles and an example, if any."""
        if not self._skus:
            return []
        first = storable(next(iter(self._skus)))[:MAX_CHARACTERS]
        return [
            f"stock below 0 is taken as 0 for {len(self._skus):,} SKUs, such as"
            f" {first!r}; correct them in the back office"
        ]


def read_findings(connector: Connector[Any]) -> list[str]:
    """Return what `check` found, then the notices. Raises ConnectorFailed."""
    try:
        return [*_sentences(connector.findings()), *_sentences(connector.notices())]
    except Exception as error:
        raise ConnectorFailed(error_text(error)) from error


def read_notices(connector: Connector[Any]) -> list[str]:
    """Return the connector's notices. Raises ConnectorFailed."""
    try:
        return _sentences(connector.notices())
    except Exception as error:
        raise ConnectorFailed(error_text(error)) from error


def _sentences(said: Iterable[str]) -> list[str]:
    """Return the first sentences, each once and safe to store and show."""
    once = dict.fromkeys(
        storable(str(each))[:MAX_CHARACTERS] for each in islice(said, MAX_NOTICES)
    )
    return list(once)
