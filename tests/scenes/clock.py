"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
from datetime import UTC, datetime, timedelta
from itertools import count

from backhaul.core.clock import SystemClock

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
YIELDS = 20
"""Turns of the loop that what was woken gets to go to sleep again."""


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
        """Set the wall clock back, as a person or a time server does."""
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
        """Wait until somebody sleeps; with `seconds`, for just as long as that."""
        while not self._waiting(seconds):
            self._changed.clear()
            await self._changed.wait()

    def _waiting(self, seconds: float | None) -> bool:
        self._sleepers = [s for s in self._sleepers if not s[2].done()]
        heapq.heapify(self._sleepers)
        left = [due - self._seconds for due, _, _ in self._sleepers]
        return bool(left) if seconds is None else seconds in left

    def until_next(self) -> float:
        """Return the seconds until the next sleeper wakes, 0 where nobody sleeps."""
        return self._sleepers[0][0] - self._seconds if self._waiting(None) else 0.0

    async def advance(self, seconds: float) -> None:
        """Let time pass, waking each sleeper at its moment and in its order."""
        end = self._seconds + seconds
        while self._waiting(None) and self._sleepers[0][0] <= end:
            due, _, future = heapq.heappop(self._sleepers)
            self._seconds = max(self._seconds, due)
            future.set_result(None)
            await run_ready_tasks()
        self._seconds = end
        await run_ready_tasks()


async def run_ready_tasks() -> None:
    """Give every task that can run the chance to."""
    for _ in range(YIELDS):
        await asyncio.sleep(0)


class SettableClock(VirtualClock):
    """A virtual clock that somebody sets, while time passes as ever."""

    def set_by(self, seconds: float) -> None:
        self._start += timedelta(seconds=seconds)


class RunningClock(VirtualClock):
    """A virtual clock on which every sleep is over at once."""

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._seconds += max(seconds, 0.0)
        await asyncio.sleep(0)


class PacedClock(RunningClock):
    """A clock on which no sleep takes time: it moves by `passes` alone.

    A test that calls it for each request measures time in requests, so that what it
    sees does not depend on how many other sleeps end while one request is answered.
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
        """Wait until it shows so many seconds."""
        while self._seconds < seconds:
            self._moved.clear()
            await self._moved.wait()


class JumpingClock(VirtualClock):
    """A virtual clock that leaps to the moment a sleeper waits for.

    Who sleeps beside somebody else leaps with them: waits do not add up.
    """

    async def sleep(self, seconds: float) -> None:
        due = self._seconds + max(seconds, 0.0)
        await run_ready_tasks()
        self._seconds = max(self._seconds, due)


class FastClock:
    """The machine's clocks, on which time passes so many times as fast."""

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
