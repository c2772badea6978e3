"""Whether the other side can be reached: told once when it cannot, once when it can."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from loguru import logger

from backhaul.core.backoff import delay_seconds
from backhaul.core.clock import to_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul.core.clock import Clock

CALM_SECONDS = 10.0
"""It works again once it has worked for so long: a loose plug is told of once."""
BASE_SECONDS = 1.0
CAP_SECONDS = 60.0
LONGEST_REST_SECONDS = 300.0
"""After so long one request tries again, whatever the other side asked for."""


class Health:
    """One side of an instance: how it is, and how long it is left alone."""

    def __init__(
        self, instance: str, side: str, clock: Clock, chance: Callable[[], float]
    ) -> None:
        self.reason: str | None = None
        self.worked_at: str | None = None
        self._label = f"{instance}{side}"
        self._log = logger.bind(instance=instance)
        self._clock = clock
        self._chance = chance
        self._told = False
        self._worked_since: float | None = None
        self._failures = 0

    @property
    def up(self) -> bool:
        """Whether the last try worked."""
        return self.reason is None

    def fell(self, reason: str, wanted_seconds: float | None = None) -> float:
        """Note a failure; return how long to wait before the next try."""
        if not self._told:
            self._log.bind(action="connector.down").error("{}: {}", self._label, reason)
        self._told, self.reason, self._worked_since = True, reason, None
        self._failures += 1
        wait = delay_seconds(
            self._failures,
            base_seconds=BASE_SECONDS,
            cap_seconds=CAP_SECONDS,
            chance=self._chance(),
        )
        return bounded(wanted_seconds, wait)

    def rose(self) -> None:
        """Note that it works; it is said once that has lasted."""
        self.reason, self._failures = None, 0
        self.worked_at = to_text(self._clock.now())
        if not self._told:
            return
        now = self._clock.monotonic()
        if self._worked_since is None:
            self._worked_since = now
        self.look()

    def look(self) -> float | None:
        """Say that it works if that has lasted; return how long until the next look."""
        if self._worked_since is None:
            return None
        left = self._worked_since + CALM_SECONDS - self._clock.monotonic()
        if left > 0:
            return left
        self._log.bind(action="connector.up").info("{}: works again", self._label)
        self._told, self._worked_since = False, None
        return None


def bounded(wanted_seconds: Any, otherwise: float) -> float:
    """Return a wait that was asked for, if it is one; never an absurd one.

    It is somebody else's word, of whatever type: a header's text, or nothing at all.
    """
    try:
        seconds = float(wanted_seconds)
    except (TypeError, ValueError, OverflowError):
        return otherwise
    if math.isnan(seconds) or seconds < 0:
        return otherwise
    return min(seconds, LONGEST_REST_SECONDS)
