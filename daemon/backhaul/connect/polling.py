"""Decides when a connector is polled: on schedule and after failures."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from backhaul.runtime.loop import wait_for_event

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul.core.clock import Clock
    from backhaul.core.quiet_hours import QuietHours


class PollSchedule:
    """The next round of one connection.

    With `every_seconds` the connection is polled at that interval; with None its job
    calls `fall_due`. A failed poll is owed: it is retried after the wait that its
    failure asked for, but neither in quiet hours nor while the job is paused. A round
    that does not poll keeps the connector open, so that it can receive requests.
    """

    def __init__(self, clock: Clock, every_seconds: float | None) -> None:
        self._clock = clock
        self._every = every_seconds
        self._due = asyncio.Event()
        self._wait = 0.0
        self._is_paused = False
        self._is_failing = False
        self.is_owed = False
        self._quiet: QuietHours | None = None

    def fall_due(self) -> None:
        """Poll now, or after the wait that a failure asked for."""
        if self._is_failing:
            self.is_owed = True
        else:
            self._due.set()

    def wake(self) -> None:
        """Poll now, regardless of failures, quiet hours and pauses."""
        self._due.set()

    def set_quiet(self, quiet: QuietHours) -> None:
        """Set the hours in which a failed poll is not retried."""
        self._quiet = quiet

    def pause(self, since: str | None) -> None:
        """Stop retries, and drop an owed poll; None ends the pause."""
        self._is_paused = since is not None
        if self._is_paused:
            self.is_owed = False

    async def next(self, before_wait: Callable[[], float | None]) -> bool:
        """Wait for the next round; return whether it polls.

        `before_wait` is called before each wait; it returns the longest wait in
        seconds.
        """
        ends = self._clock.monotonic() + self._wait
        while not self._due.is_set():
            left = ends - self._clock.monotonic()
            if left <= 0:
                break
            soon = before_wait()
            await self._due_within(left if soon is None else min(left, soon))
        if self._due.is_set() or self._every is not None:
            self._due.clear()
            self.is_owed = True
            return True
        return self.is_owed and not self._quiet_seconds()

    def succeeded(self, *, polled: bool) -> None:
        """Record a successful round: the next one comes when it is due."""
        self._is_failing = False
        if polled:
            self.is_owed = False
        quiet = self._quiet_seconds() if self.is_owed else 0.0
        rest = math.inf if self._every is None else self._every
        self._wait = quiet or rest

    def failed(self, wait_seconds: float) -> None:
        """Record a failed round, and how long to wait before the retry."""
        self._is_failing = True
        if self._is_paused:
            self.is_owed = False
        self._wait = wait_seconds

    def _quiet_seconds(self) -> float:
        """Return how long quiet hours last from now; 0 outside of them."""
        if self._quiet is None:
            return 0.0
        now = self._clock.now()
        return max((self._quiet.over(now) - now).total_seconds(), 0.0)

    async def _due_within(self, seconds: float) -> None:
        """Wait until a poll is due, at most so long."""
        if math.isinf(seconds):
            await self._due.wait()
            return
        await wait_for_event(self._due, seconds, self._clock)
