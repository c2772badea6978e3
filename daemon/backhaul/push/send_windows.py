"""Send windows: when scheduled jobs allow commands to leave."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.clock import to_text
from backhaul.core.lifecycle import KINDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from datetime import datetime

    from backhaul.core.clock import Clock
    from backhaul.core.quiet_hours import QuietHours


JOBS: Mapping[str, str] = {
    "push_fulfillments": "fulfill",
    "push_cancellations": "cancel",
    "push_adjustments": "adjust",
}
"""Which job opens which gate."""

_ALWAYS = "9999"


class Gates:
    """One gate per kind of command; a gate is a moment.

    Commands planned up to that moment may leave, so that retries never wait for the
    next opening and nothing has to be closed. A kind that is sent at once leaves in
    runs too, each of which begins when a command is planned (`on_demand`); its gate
    stands open during a run, but in quiet hours and where its job is disabled. Without
    a scheduler it stands open always. A paused gate lets out only what a person opens
    it for.
    """

    def __init__(self, eager: bool, clock: Clock) -> None:
        self._clock = clock
        self._at_once = set(KINDS) if eager else set()
        self.on_demand: set[str] = set()
        """Kinds that leave in runs which begin when a command is planned."""
        self._expected: set[str] = set()
        self._runs: dict[str, str] = {}
        self._opened: dict[str, str] = {}
        self._paused: dict[str, str] = {}
        self._opened_in_pause: set[str] = set()
        self._shut: set[str] = set()
        self.quiet: dict[str, QuietHours] = {}

    def stand_open(self, kind: str, enabled: bool) -> None:
        """Let an eager gate stand open, or not: its job is disabled."""
        (self._shut.discard if enabled else self._shut.add)(kind)

    def send_at_once(self, kind: str, at_once: bool) -> None:
        """Set whether commands of a kind leave when planned, or only by `open`."""
        (self._at_once.add if at_once else self._at_once.discard)(kind)
        if not at_once:
            self._drop_run(kind)

    def may_run(self, kind: str) -> bool:
        """Return whether a run on demand would let out commands now."""
        on_demand = kind in self._at_once and kind in self.on_demand
        return on_demand and kind not in self._paused and not self._is_shut(kind)

    def quiet_until(self, kind: str) -> datetime | None:
        """Return when quiet hours are over that are all that prevents a run."""
        quiet = self.quiet.get(kind)
        if quiet is None or kind in self._shut or kind in self._paused:
            return None
        on_demand = kind in self._at_once and kind in self.on_demand
        return quiet.over(self._clock.now()) if on_demand else None

    def expect_run(self, kind: str) -> None:
        """Let nothing be claimed in vain in the moment until the run begins."""
        self._expected.add(kind)

    @property
    def expects_run(self) -> bool:
        """Whether a run begins in a moment."""
        return bool(self._expected)

    def begin_run(self, kind: str) -> bool:
        """Open the gate until `end_run`; return False where the job may not send."""
        self._expected.discard(kind)
        if not self.may_run(kind):
            return False
        self._runs[kind] = to_text(self._clock.now())
        return True

    def is_running(self, kind: str) -> bool:
        """Return whether a run goes on, and note until when it could let out."""
        if kind in self._runs and self.may_run(kind):
            self._runs[kind] = to_text(self._clock.now())
            return True
        return False

    def end_run(self, kind: str) -> None:
        """Close the gate; what was planned during the run may still leave."""
        self._expected.discard(kind)
        self.is_running(kind)
        if kind in self._runs:
            self._opened[kind] = self._runs.pop(kind)

    def _drop_run(self, kind: str) -> None:
        self._expected.discard(kind)
        self._runs.pop(kind, None)

    def open(self, kind: str, at: str) -> None:
        """Let out what is planned by then."""
        self._opened[kind] = at
        if kind in self._paused:
            # Whatever the clock showed then: a clock may be set back.
            self._opened_in_pause.add(kind)

    def pause(self, kind: str, since: str | None) -> None:
        """Let out nothing but by an opening after `since`; None resumes."""
        self._opened_in_pause.discard(kind)
        self._drop_run(kind)
        if since is None:
            self._paused.pop(kind, None)
        else:
            self._paused[kind] = since
            if self._opened.get(kind, "") > to_text(self._clock.now()):
                # The clock was set back since: it was opened before the pause.
                self._opened[kind] = since

    def passable(self) -> dict[str, str]:
        """Return kind and moment of each open gate, the most urgent first."""
        return {kind: until for kind in KINDS if (until := self._until(kind))}

    def lets_again(self, kind: str, planned_at: str) -> bool:
        """Tell whether what is in doubt may be sent again under its key.

        That waits for no opening and no quiet hours: only where the kind's job is
        paused or disabled it is let out no more than a retry is.
        """
        is_held = kind in self._paused or kind in self._shut
        return not is_held or planned_at <= self._until(kind)

    def _until(self, kind: str) -> str:
        """Return up to when what is planned may leave; "" where nothing may."""
        paused = self._paused.get(kind)
        if kind in self._at_once and paused is None and not self._is_shut(kind):
            if kind in self._expected:
                return ""
            if kind in self._runs or kind not in self.on_demand:
                return _ALWAYS
        opened = self._opened.get(kind, "")
        passes = paused is None or kind in self._opened_in_pause or opened > paused
        return opened if passes else ""

    def _is_shut(self, kind: str) -> bool:
        quiet = self.quiet.get(kind)
        is_quiet = quiet is not None and quiet.holds(self._clock.now())
        return is_quiet or kind in self._shut


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
