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
"""The kind of command whose window each job opens."""

_ALWAYS = "9999"


class SendWindows:
    """One window per kind of command; a window is a time.

    Commands planned up to that time may leave. So a retry never waits for the next
    opening, and no window has to be closed. A kind that is sent at once leaves in runs
    too; a run begins when a command is planned (`on_demand`). Its window is open during
    the run, except in quiet hours or while its job is disabled. Without a scheduler it
    is always open. While a kind is paused, only an operator's run lets commands leave.
    """

    def __init__(self, eager: bool, clock: Clock) -> None:
        self._clock = clock
        self._at_once = set(KINDS) if eager else set()
        self._on_demand: set[str] = set()
        self._expected: set[str] = set()
        self._runs: dict[str, str] = {}
        self._opened: dict[str, str] = {}
        self._paused: dict[str, str] = {}
        self._opened_in_pause: set[str] = set()
        self._disabled: set[str] = set()
        self._quiet: dict[str, QuietHours] = {}

    def set_enabled(self, kind: str, enabled: bool) -> None:
        """Set whether the job of a kind is enabled; a disabled job sends nothing."""
        (self._disabled.discard if enabled else self._disabled.add)(kind)

    def set_send_at_once(self, kind: str, at_once: bool) -> None:
        """Set whether commands of a kind leave when planned, or only after `open`."""
        (self._at_once.add if at_once else self._at_once.discard)(kind)
        if not at_once:
            self._drop_run(kind)

    def set_on_demand(self, kind: str) -> None:
        """Let a kind leave in runs, which begin when a command is planned."""
        self._on_demand.add(kind)

    def set_quiet(self, kind: str, quiet: QuietHours | None) -> None:
        """Set the quiet hours of a kind, in which no run begins; None for no hours."""
        self._quiet.pop(kind, None)
        if quiet is not None:
            self._quiet[kind] = quiet

    def may_run(self, kind: str) -> bool:
        """Return True if a run on demand could send commands now."""
        on_demand = kind in self._at_once and kind in self._on_demand
        return on_demand and kind not in self._paused and not self._is_closed(kind)

    def quiet_until(self, kind: str) -> datetime | None:
        """Return when quiet hours end, if nothing else prevents a run."""
        quiet = self._quiet.get(kind)
        if quiet is None or kind in self._disabled or kind in self._paused:
            return None
        on_demand = kind in self._at_once and kind in self._on_demand
        return quiet.over(self._clock.now()) if on_demand else None

    def expect_run(self, kind: str) -> None:
        """Close the window until the run begins, to avoid an empty claim."""
        self._expected.add(kind)

    @property
    def expects_run(self) -> bool:
        """Whether a run was started and has not begun yet."""
        return bool(self._expected)

    def begin_run(self, kind: str) -> bool:
        """Open the window until `end_run`; return False if the job may not send."""
        self._expected.discard(kind)
        if not self.may_run(kind):
            return False
        self._runs[kind] = to_text(self._clock.now())
        return True

    def is_running(self, kind: str) -> bool:
        """Return True if a run goes on, and record the time up to which it sends."""
        if kind in self._runs and self.may_run(kind):
            self._runs[kind] = to_text(self._clock.now())
            return True
        return False

    def end_run(self, kind: str) -> None:
        """Close the window; commands planned during the run may still leave."""
        self._expected.discard(kind)
        self.is_running(kind)
        if kind in self._runs:
            self._opened[kind] = self._runs.pop(kind)

    def _drop_run(self, kind: str) -> None:
        self._expected.discard(kind)
        self._runs.pop(kind, None)

    def open(self, kind: str, at: str) -> None:
        """Let commands leave that are planned by `at`."""
        self._opened[kind] = at
        if kind in self._paused:
            # A flag and not a time, because the clock may be set back.
            self._opened_in_pause.add(kind)

    def pause(self, kind: str, since: str | None) -> None:
        """Send only by an opening after `since`; None ends the pause."""
        self._opened_in_pause.discard(kind)
        self._drop_run(kind)
        if since is None:
            self._paused.pop(kind, None)
        else:
            self._paused[kind] = since
            if self._opened.get(kind, "") > to_text(self._clock.now()):
                # The clock was set back since: it was opened before the pause.
                self._opened[kind] = since

    def open_until(self) -> dict[str, str]:
        """Return the time of each open window by kind, the most urgent kind first."""
        return {kind: until for kind in KINDS if (until := self._until(kind))}

    def allows_resend(self, kind: str, planned_at: str) -> bool:
        """Return True if an uncertain command may be sent again with its key.

        A resend waits neither for an opening nor for quiet hours. If the kind's job is
        paused or disabled, it follows the same rule as a retry.
        """
        is_held = kind in self._paused or kind in self._disabled
        return not is_held or planned_at <= self._until(kind)

    def _until(self, kind: str) -> str:
        """Return the time up to which planned commands may leave; "" if none may."""
        paused = self._paused.get(kind)
        if kind in self._at_once and paused is None and not self._is_closed(kind):
            if kind in self._expected:
                return ""
            if kind in self._runs or kind not in self._on_demand:
                return _ALWAYS
        opened = self._opened.get(kind, "")
        passes = paused is None or kind in self._opened_in_pause or opened > paused
        return opened if passes else ""

    def _is_closed(self, kind: str) -> bool:
        quiet = self._quiet.get(kind)
        is_quiet = quiet is not None and quiet.holds(self._clock.now())
        return is_quiet or kind in self._disabled


COALESCE_SECONDS = 1.0
"""A burst ends when nothing was planned or sent for this time."""
LONGEST_SECONDS = 60.0
"""Longest run: under constant load, one row of `job_runs` per this time."""


class Burst:
    """One run of a push job, from the first planned command to the last.

    The window is open during the run, so the first command of a burst leaves at once
    and the others do not wait for another run. `start` lets APScheduler call `run` now
    or at the given time. `record` stores a run that sent commands: when it began, when
    it ended, and how many it sent.
    """

    def __init__(
        self,
        kind: str,
        windows: SendWindows,
        clock: Clock,
        start: Callable[[datetime | None], None],
        record: Callable[[str, str, int], Awaitable[bool]],
    ) -> None:
        self._kind = kind
        self._windows = windows
        self._clock = clock
        self._start = start
        self._record = record
        self._requested_at = 0.0
        self._is_started = False
        self._waits_for: datetime | None = None
        self._began: str | None = None
        self.sent = 0
        """Commands sent and not yet counted by a recorded run."""

    def request(self) -> None:
        """Prolong the run, or start one as soon as the job may send."""
        self._requested_at = self._clock.monotonic()
        if self._is_started:
            return
        if self._windows.may_run(self._kind):
            self._is_started, self._waits_for = True, None
            self._windows.expect_run(self._kind)
            self._start(None)
        elif (over := self._windows.quiet_until(self._kind)) != self._waits_for:
            self._waits_for = over
            if over is not None:
                self._start(over)

    async def run(self, wake: Callable[[], None]) -> None:
        """Keep the window open until the burst ends, then record the run."""
        if self._began is not None or not self._windows.begin_run(self._kind):
            self._is_started, self._waits_for = self._began is not None, None
            return
        self._is_started, self._began = True, to_text(self._clock.now())
        try:
            wake()
            end = self._clock.monotonic() + LONGEST_SECONDS
            while await self._goes_on(end):
                pass
            await self.record_sent()
        finally:
            self._windows.end_run(self._kind)
            self._is_started, self._began = False, None

    async def _goes_on(self, end: float) -> bool:
        """Wait until the burst may be over; return True if it goes on."""
        now = self._clock.monotonic()
        rest = min(self._requested_at + COALESCE_SECONDS, end) - now
        if rest <= 0 or not self._windows.is_running(self._kind):
            return False
        await self._clock.sleep(rest)
        return True

    async def record_sent(self) -> None:
        """Record the commands sent, if any; also called when the program ends."""
        sent, now = self.sent, to_text(self._clock.now())
        if sent and await self._record(self._began or now, now, sent):
            self.sent -= sent
