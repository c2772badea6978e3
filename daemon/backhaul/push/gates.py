"""When commands may leave: the gates that scheduled jobs open."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    next opening and nothing has to be closed. Eager gates stand open for all, but in
    quiet hours. A paused gate lets out only what a person opens it for.
    """

    def __init__(self, eager: bool, clock: Clock) -> None:
        self._clock = clock
        self._eager = eager
        self._opened: dict[str, str] = {}
        self._paused: dict[str, str] = {}
        self.quiet: dict[str, QuietHours] = {}

    def open(self, kind: str, at: str) -> None:
        """Let out what is planned by then."""
        self._opened[kind] = at

    def pause(self, kind: str, since: str | None) -> None:
        """Let out nothing but by an opening after `since`; None resumes."""
        if since is None:
            self._paused.pop(kind, None)
        else:
            self._paused[kind] = since

    def passable(self) -> dict[str, str]:
        """Return kind and moment of each open gate, the most urgent first."""
        return {kind: until for kind in KINDS if (until := self._until(kind))}

    def _until(self, kind: str) -> str:
        """Return up to when what is planned may leave; "" where nothing may."""
        paused = self._paused.get(kind)
        if self._eager and paused is None and not self._is_quiet(kind):
            return _ALWAYS
        opened = self._opened.get(kind, "")
        return opened if paused is None or opened > paused else ""

    def _is_quiet(self, kind: str) -> bool:
        quiet = self.quiet.get(kind)
        return quiet is not None and quiet.holds(self._clock.now())
