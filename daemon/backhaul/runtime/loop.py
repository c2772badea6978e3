"""The wake loop of every worker: it works, then rests until it is woken or due."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from loguru import logger
from msgspec import Struct

from backhaul.core.clock import from_text, is_cancelled
from backhaul.errors import Busy, Fatal, ReadFailed, first_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator

    from backhaul.core.clock import Clock

T = TypeVar("T")

IDLE_SECONDS = 30.0
"""Longest rest of a worker: a lost wake-up delays its work by at most this."""
BUSY_SECONDS = 0.5
"""Rest after the database refused to write; a wake does not shorten it."""


async def always() -> bool:
    """Return True, for a worker that is not told what is open."""
    return True


def log_busy(error: Exception) -> None:
    """Log that the database refused writes, for a part that has no word of its own."""
    logger.bind(action="daemon.busy").warning("{}", error)


class Loop:
    """Does a worker's work now, and again whenever the worker is woken or due.

    The loop forgets earlier wakes just before the work, so a wake during the work is
    never lost: the work is then done again instead of resting. Cancel `run` to end it
    at once; `stop` lets the work that goes on finish. `on_busy` logs that the database
    refused to write, after which the work is done again. With `at_start=False` the
    first work waits for a wake. A worker that has rested as long as it may, and was not
    woken, works only if `has_work` says so.
    """

    def __init__(
        self,
        clock: Clock,
        on_busy: Callable[[Exception], None] = log_busy,
        *,
        at_start: bool = True,
        has_work: Callable[[], Awaitable[bool]] = always,
    ) -> None:
        self._clock = clock
        self._on_busy = on_busy
        self._has_work = has_work
        self._at_start = at_start
        self._woken = asyncio.Event()
        self._is_stopped = False

    def wake(self) -> None:
        """Do the work now, or once more after the work that goes on."""
        self._woken.set()

    def stop(self) -> None:
        """Let `run` return after the work that goes on."""
        self._is_stopped = True
        self._woken.set()

    @property
    def is_woken(self) -> bool:
        """Whether it was woken since the work began, so that it will not rest."""
        return self._woken.is_set()

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._is_stopped

    async def run(self, work: Callable[[], Awaitable[float | None]]) -> None:
        """Work until stopped or cancelled.

        `work` does everything that is due. It returns in how many seconds more is due:
        0.0 means now, None means only after a wake.
        """
        turn = partial(self._turn, work)
        seconds = 0.0 if self._at_start else None
        while not self._is_stopped:
            is_woken = await self.rest(seconds)
            if is_woken or seconds != IDLE_SECONDS or await self._has_work():
                seconds = await retry_while_busy(turn, self._clock, self._on_busy)

    async def _turn(self, work: Callable[[], Awaitable[float | None]]) -> float | None:
        return None if self._is_stopped else await work()

    async def rest(self, seconds: float | None) -> bool:
        """Wait until woken, for at most `seconds`; None waits for a wake only.

        Returns whether it was woken.
        """
        if seconds is None:
            await self._woken.wait()
        elif seconds <= 0:
            await asyncio.sleep(0)  # work that never waits must not stop all others
        elif not self._woken.is_set():
            await wait_for_event(self._woken, seconds, self._clock)
        is_woken = self._woken.is_set()
        self._woken.clear()
        return is_woken


class OpenStores(Struct, frozen=True):
    """The stores with open commands, counts or fetches, and the mirror's newest change.

    The change is the highest id in the change feed.
    """

    names: frozenset[str]
    newest_change: int


class OpenWork:
    """Which stores have work that waits, read at once for all of them.

    A worker checks for work whose wake-up was lost. Among thousands of stores without
    work, a query of each worker of each store would take most of a core.
    """

    def __init__(self, read: Callable[[], Awaitable[OpenStores]], clock: Clock) -> None:
        self._read = read
        self._clock = clock
        self._reading = asyncio.Lock()
        self._read_at = -inf
        self._found = OpenStores(frozenset(), 0)

    async def now(self) -> OpenStores | None:
        """Return what was read at most IDLE_SECONDS ago; None if it cannot be read."""
        async with self._reading:
            if self._clock.monotonic() >= self._read_at + IDLE_SECONDS:
                try:
                    self._found = await self._read()
                except ReadFailed:
                    return None
                self._read_at = self._clock.monotonic()
            return self._found


def seconds_until(due: str | None, clock: Clock) -> float:
    """Return the seconds until a time, at most IDLE_SECONDS, which None stands for."""
    if due is None:
        return IDLE_SECONDS
    wait = (from_text(due) - clock.now()) / timedelta(seconds=1)
    return min(max(wait, 0.0), IDLE_SECONDS)


async def retry_while_busy(
    work: Callable[[], Awaitable[T]],
    clock: Clock,
    on_busy: Callable[[Exception], None] = log_busy,
) -> T:
    """Do the work until the database does not refuse it; return its result."""
    while True:
        try:
            return await work()
        except* Busy as refused:
            error = first_of(refused)
            if isinstance(error, Fatal):
                raise error from None
            on_busy(error)
        if is_cancelled():
            raise asyncio.CancelledError
        await clock.sleep(BUSY_SECONDS)


async def wait_for_event(event: asyncio.Event, seconds: float, clock: Clock) -> None:
    """Wait for an event, for at most `seconds` on that clock."""
    async with asyncio.TaskGroup() as group:
        waits = [
            group.create_task(event.wait()),
            group.create_task(clock.sleep(seconds)),
        ]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()


async def unless(stopping: asyncio.Event, work: Coroutine[Any, Any, object]) -> None:
    """Do the work; cancel it when `stopping` is set."""
    async with asyncio.TaskGroup() as group:
        working = group.create_task(work)
        stopped = group.create_task(stopping.wait())
        await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
        working.cancel()
        stopped.cancel()


class UnderWay:
    """Counts what is under way for each name, so that its end can be waited for."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()
        self._ended = asyncio.Event()

    @contextmanager
    def one(self, name: str) -> Iterator[None]:
        """Count one for the name until the block ends."""
        self._open[name] += 1
        try:
            yield
        finally:
            self._open[name] -= 1
            self._ended.set()

    async def idle(self, names: Iterable[str]) -> None:
        """Wait until nothing is under way for these names."""
        waited = [*names]
        while any(self._open[name] for name in waited):
            self._ended.clear()
            await self._ended.wait()
