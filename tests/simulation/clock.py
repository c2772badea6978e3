"""The clocks of a simulation: one passing time, and a wall clock that people set."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING

import apscheduler.schedulers.base

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulation.loop import VirtualLoop

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class SimulatedClock:
    """The daemon's clock and, as it has the same verbs, the platform's."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.ahead_seconds = 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self._loop.seconds + self.ahead_seconds)

    def now_ms(self) -> int:
        return round(self.now().timestamp() * 1000)

    def monotonic(self) -> float:
        return self._loop.seconds

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@contextmanager
def scheduling_by(clock: SimulatedClock) -> Iterator[None]:
    """Let APScheduler, which asks the machine for the time, ask this clock."""
    theirs = apscheduler.schedulers.base

    class Simulated(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return clock.now().astimezone(tz)

    kept = theirs.datetime
    theirs.datetime = Simulated
    try:
        yield
    finally:
        theirs.datetime = kept
