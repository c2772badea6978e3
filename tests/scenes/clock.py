"""Clocks that a test controls."""

from __future__ import annotations

import asyncio
import heapq
from datetime import UTC, datetime, timedelta
from itertools import count

from backhaul.core.clock import SystemClock

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
YIELDS = 20
"""The iterations of the event loop in which tasks that woke can sleep again."""


class VirtualClock:
    """Implements `backhaul.core.clock.Clock`; time passes in `advance` only."""

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._seconds = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self._changed = asyncio.Event()
        self.slept: list[float] = []

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._seconds)

    def set_back(self, seconds: float) -> None:
        """Set the wall clock back, as an operator or a time server does."""
        self._start -= timedelta(seconds=seconds)

    def monotonic(self) -> float:
        return self._seconds

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future = asyncio.get_running_loop().create_future()
        due = self._seconds + seconds
        heapq.heappush(self._sleepers, (due, next(self._numbers), future))
        self._changed.set()
        await future

    async def await_sleeper(self, seconds: float | None = None) -> None:
        """Wait until a task sleeps; with `seconds`, until a task sleeps that long."""
        while not self._waiting(seconds):
            self._changed.clear()
            await self._changed.wait()

    def _waiting(self, seconds: float | None) -> bool:
        self._sleepers = [s for s in self._sleepers if not s[2].done()]
        heapq.heapify(self._sleepers)
        left = [due - self._seconds for due, _, _ in self._sleepers]
        return bool(left) if seconds is None else seconds in left

    def until_next(self) -> float:
        """Return the seconds until the next task wakes, 0 if no task sleeps."""
        return self._sleepers[0][0] - self._seconds if self._waiting(None) else 0.0

    async def advance(self, seconds: float) -> None:
        """Let time pass; wake each sleeping task at its time, in order."""
        end = self._seconds + seconds
        while self._waiting(None) and self._sleepers[0][0] <= end:
            due, _, future = heapq.heappop(self._sleepers)
            self._seconds = max(self._seconds, due)
            future.set_result(None)
            await run_ready_tasks()
        self._seconds = end
        await run_ready_tasks()


async def run_ready_tasks() -> None:
    """Let every task run that can run."""
    for _ in range(YIELDS):
        await asyncio.sleep(0)


class SettableClock(VirtualClock):
    """A virtual clock whose wall time can be set; monotonic time is not affected."""

    def set_by(self, seconds: float) -> None:
        self._start += timedelta(seconds=seconds)


class RunningClock(VirtualClock):
    """A virtual clock on which every sleep ends at once."""

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._seconds += max(seconds, 0.0)
        await asyncio.sleep(0)


class PacedClock(RunningClock):
    """A clock on which sleeps take no time: only `pass_seconds` moves it.

    A test that calls it for each request measures time in requests. The result does
    not depend on how many other sleeps end during one request.
    """

    def __init__(self, start: datetime = START) -> None:
        super().__init__(start)
        self._moved = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0.001)

    def pass_seconds(self, seconds: float) -> None:
        self._seconds += seconds
        self._moved.set()

    async def await_seconds(self, seconds: float) -> None:
        """Wait until this many seconds have passed on the clock."""
        while self._seconds < seconds:
            self._moved.clear()
            await self._moved.wait()


class JumpingClock(VirtualClock):
    """A virtual clock that jumps to the time for which a task waits.

    Parallel sleeps do not add up.
    """

    async def sleep(self, seconds: float) -> None:
        due = self._seconds + max(seconds, 0.0)
        await run_ready_tasks()
        self._seconds = max(self._seconds, due)


class FastClock:
    """The machine's clocks, faster by a factor."""

    def __init__(self, times: float) -> None:
        self._times = times
        self._clock = SystemClock()
        self._start = self._clock.now()
        self._began = self._clock.monotonic()

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return (self._clock.monotonic() - self._began) * self._times

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds / self._times)
