"""When commands may leave: the gates that scheduled jobs open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.clock import to_text
from backhaul.core.lifecycle import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul.core.clock import Clock
    from backhaul.core.quiet import QuietHours

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
    next opening and nothing has to be closed. The gate of a kind that is sent at once
    stands open, but in quiet hours and where its job is disabled. A paused gate lets
    out only what a person opens it for.
    """

    def __init__(self, eager: bool, clock: Clock) -> None:
        self._clock = clock
        self._at_once = set(KINDS) if eager else set()
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

    def open(self, kind: str, at: str) -> None:
        """Let out what is planned by then."""
        self._opened[kind] = at
        if kind in self._paused:
            # Whatever the clock showed then: a clock may be set back.
            self._opened_in_pause.add(kind)

    def pause(self, kind: str, since: str | None) -> None:
        """Let out nothing but by an opening after `since`; None resumes."""
        self._opened_in_pause.discard(kind)
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
            return _ALWAYS
        opened = self._opened.get(kind, "")
        passes = paused is None or kind in self._opened_in_pause or opened > paused
        return opened if passes else ""

    def _is_shut(self, kind: str) -> bool:
        quiet = self.quiet.get(kind)
        is_quiet = quiet is not None and quiet.holds(self._clock.now())
        return is_quiet or kind in self._shut
