"""When commands may leave: the gates that scheduled jobs open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.clock import to_text
from backhaul.core.lifecycle import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul.core.clock import Clock

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
    next opening and nothing has to be closed. Eager gates stand open for all.
    """

    def __init__(self, eager: bool, clock: Clock) -> None:
        self._clock = clock
        self._open_until = dict.fromkeys(KINDS, _ALWAYS) if eager else {}
        self._eager = eager

    def open(self, kind: str) -> None:
        """Let out what is planned by now."""
        if not self._eager:
            self._open_until[kind] = to_text(self._clock.now())

    def passable(self) -> dict[str, str]:
        """Return kind and moment of each open gate, the most urgent first."""
        return {k: self._open_until[k] for k in KINDS if k in self._open_until}
