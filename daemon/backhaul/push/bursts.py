"""Runs of push jobs without a schedule: one per burst of planned commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.clock import to_text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from backhaul.core.clock import Clock
    from backhaul.push.gates import Gates

COALESCE_SECONDS = 1.0
"""A burst is over when nothing was planned or sent for so long."""
LONGEST_SECONDS = 60.0
"""Longest run: under constant load there is one row of `job_runs` in this time."""


class Burst:
    """The run of one job, from the first planned command until no more come.

    The gate stands open during the run, so the first command of a burst leaves at once
    and the others do not wait for a further run. `start` has APScheduler call `run`:
    immediately, or at the moment that is given. `record` writes down a run that sent
    something: when it began, when it ended, and how many commands it sent.
    """

    def __init__(
        self,
        kind: str,
        gates: Gates,
        clock: Clock,
        start: Callable[[datetime | None], None],
        record: Callable[[str, str, int], Awaitable[bool]],
    ) -> None:
        self._kind = kind
        self._gates = gates
        self._clock = clock
        self._start = start
        self._record = record
        self._asked = 0.0
        self._is_started = False
        self._waits_for: datetime | None = None
        self._began: str | None = None
        self.sent = 0
        """Commands sent that no recorded run counts yet."""

    def ask(self) -> None:
        """Prolong the run, or have one started as soon as the job may send."""
        self._asked = self._clock.monotonic()
        if self._is_started:
            return
        if self._gates.may_run(self._kind):
            self._is_started, self._waits_for = True, None
            self._gates.expect_run(self._kind)
            self._start(None)
        elif (over := self._gates.quiet_until(self._kind)) != self._waits_for:
            self._waits_for = over
            if over is not None:
                self._start(over)

    async def run(self, wake: Callable[[], None]) -> None:
        """Keep the gate open until the burst is over, and write the run down."""
        if self._began is not None or not self._gates.begin_run(self._kind):
            self._is_started, self._waits_for = self._began is not None, None
            return
        self._is_started, self._began = True, to_text(self._clock.now())
        try:
            wake()
            end = self._clock.monotonic() + LONGEST_SECONDS
            while await self._goes_on(end):
                pass
            await self.close()
        finally:
            self._gates.end_run(self._kind)
            self._is_started, self._began = False, None

    async def _goes_on(self, end: float) -> bool:
        """Wait until the burst may be over; return whether it is not."""
        now = self._clock.monotonic()
        rest = min(self._asked + COALESCE_SECONDS, end) - now
        if rest <= 0 or not self._gates.is_running(self._kind):
            return False
        await self._clock.sleep(rest)
        return True

    async def close(self) -> None:
        """Write down what was sent, if anything was; the program may be ending."""
        sent, now = self.sent, to_text(self._clock.now())
        if sent and await self._record(self._began or now, now, sent):
            self.sent -= sent
