"""Contains connector errors; tracks reachability and notices."""

from __future__ import annotations

import asyncio
import math
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from loguru import logger

from backhaul.core.backoff import delay_seconds
from backhaul.core.clock import is_told_to_end, to_text
from backhaul.core.text import storable
from backhaul.errors import Busy
from backhaul_sdk import CheckFailed, StockLevel
from backhaul_sdk.fields import TAKEN_AS_ZERO

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from backhaul.core.clock import Clock
    from backhaul_sdk import Bad, Connector, Record


T = TypeVar("T")


class ConnectorFailed(Exception):
    """A connector raised something; the text is what a person is told."""


async def guarded(work: Awaitable[T]) -> T:
    """Await a connector's work. Raises ConnectorFailed, and Busy for our database.

    A cancellation that nobody asked for, and an attempt to end the program, are
    failures like others.
    """
    try:
        return await work
    except Busy:
        raise
    except asyncio.CancelledError:
        if is_told_to_end():
            raise
        raise ConnectorFailed("it cancelled itself") from None
    except (Exception, SystemExit, GeneratorExit, BaseExceptionGroup) as error:
        if is_told_to_end():
            raise asyncio.CancelledError from error
        raise ConnectorFailed(words(error)) from error


async def within(seconds: float, task: asyncio.Task[T], what: str) -> T:
    """Return what a guarded task returns; cancel it when nobody waits any more.

    Raises ConnectorFailed where it takes longer; that it ends is not waited for.
    """
    try:
        await asyncio.wait([task], timeout=seconds)
        if not task.done():
            raise ConnectorFailed(f"it takes longer than {seconds:g} s {what}")
        return task.result()
    finally:
        task.add_done_callback(_hear)
        task.cancel()


def _hear(task: asyncio.Task[T]) -> None:
    """Take note of what came too late, else asyncio complains that nobody did."""
    if not task.cancelled():
        task.exception()


def words(error: BaseException) -> str:
    """Return what to tell and keep: a sentence of its own needs no name of a class."""
    try:
        said = str(error)
    except Exception as unsaid:  # noqa: BLE001 - what a connector raises is its own
        said = f"(it cannot be shown: {type(unsaid).__name__})"
    if isinstance(error, CheckFailed | ConnectorFailed):
        return storable(said)
    return storable(f"{type(error).__name__}: {said}")


CALM_SECONDS = 10.0
"""It works again once it has worked for so long: a loose plug is told of once."""
BASE_SECONDS = 1.0
CAP_SECONDS = 60.0
LONGEST_REST_SECONDS = 300.0
"""After so long one request tries again, whatever the other side asked for."""


class Health:
    """One side of an instance: how it is, and how long it is left alone."""

    def __init__(
        self, instance: str, side: str, clock: Clock, chance: Callable[[], float]
    ) -> None:
        self.reason: str | None = None
        self.worked_at: str | None = None
        self._label = f"{instance}{side}"
        self._log = logger.bind(instance=instance)
        self._clock = clock
        self._chance = chance
        self._told = False
        self._worked_since: float | None = None
        self._failures = 0

    @property
    def up(self) -> bool:
        """Whether the last try worked."""
        return self.reason is None

    def fell(self, reason: str, wanted_seconds: float | None = None) -> float:
        """Note a failure; return how long to wait before the next try."""
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
        return bounded(wanted_seconds, wait)

    def rose(self) -> None:
        """Note that it works; it is said once that has lasted."""
        self.reason, self._failures = None, 0
        self.worked_at = to_text(self._clock.now())
        if not self._told:
            return
        now = self._clock.monotonic()
        if self._worked_since is None:
            self._worked_since = now
        self.look()

    def look(self) -> float | None:
        """Say that it works if that has lasted; return how long until the next look."""
        if self._worked_since is None:
            return None
        left = self._worked_since + CALM_SECONDS - self._clock.monotonic()
        if left > 0:
            return left
        self._log.bind(action="connector.up").info("{}: works again", self._label)
        self._told, self._worked_since = False, None
        return None


def bounded(wanted_seconds: Any, otherwise: float) -> float:
    """Return a wait that was asked for, if it is one; never an absurd one.

    It is somebody else's word, of whatever type: a header's text, or nothing at all.
    """
    try:
        seconds = float(wanted_seconds)
    except (TypeError, ValueError, OverflowError):
        return otherwise
    if math.isnan(seconds) or seconds < 0:
        return otherwise
    return min(seconds, LONGEST_REST_SECONDS)


MOST = 20
"""Notices of one connector that are shown, and notes of one batch that are logged."""
MOST_COUNTED = 100_000
"""Articles below 0 that are counted."""
LONGEST = 600
"""Characters of one sentence; the rest is cut."""


class Notices:
    """The notices of one connector; each new one is logged once."""

    def __init__(self, connector: Connector[Any]) -> None:
        self.current: tuple[str, ...] = ()
        self._connector = connector
        self._log = logger.bind(instance=connector.instance)

    def refresh(self) -> None:
        """Ask the connector again. Raises ConnectorFailed."""
        before, self.current = self.current, tuple(read_notices(self._connector))
        for notice in self.current:
            if notice not in before:
                self._log.bind(action="connector.notice").warning(
                    "{}: {}", self._connector.instance, notice
                )

    def log_notes(self, notes: Iterable[str]) -> None:
        """Log what the connector says of a batch that is stored."""
        for note in _sentences(notes):
            self._log.bind(action="connector.note").info(
                "{}: {}", self._connector.instance, note
            )


class BelowZero:
    """The articles whose last level was below 0 and was taken as 0.

    They are counted since the daemon was started.
    """

    def __init__(self) -> None:
        self._skus: dict[str, None] = {}

    def add(self, records: Iterable[Record | Bad]) -> None:
        """Note the levels of a batch that is stored."""
        for record in records:
            if not isinstance(record, StockLevel):
                continue
            if TAKEN_AS_ZERO not in record.note:
                self._skus.pop(record.sku, None)
            elif len(self._skus) < MOST_COUNTED:
                self._skus[record.sku] = None

    def notices(self) -> list[str]:
        """Return how many there are, and one of them; nothing for none."""
        if not self._skus:
            return []
        first = storable(next(iter(self._skus)))[:LONGEST]
        return [
            f"stock below 0 is taken as 0 for {len(self._skus):,} articles, such as"
            f" {first!r}; correct them in the back office"
        ]


def read_notices(connector: Connector[Any]) -> list[str]:
    """Return the connector's notices. Raises ConnectorFailed."""
    try:
        return _sentences(connector.notices())
    except Exception as error:
        raise ConnectorFailed(words(error)) from error


def _sentences(said: Iterable[str]) -> list[str]:
    """Return the first sentences, each once and fit to be stored and shown."""
    once = dict.fromkeys(storable(str(each))[:LONGEST] for each in islice(said, MOST))
    return list(once)
