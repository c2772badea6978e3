"""How long events may wait for their commit before they are refused."""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from backhaul.store.sql.round_writer import Batch

TICK_SECONDS = 0.5
PAUSE_SECONDS = 1.0
"""A tick that is later than that: the whole process stood still, or its machine."""


class Patience:
    """The batches that wait for their commit, the oldest first.

    `refuse` gets all of them once the oldest has waited for so many seconds; with 0
    they wait for ever. Time in which the process stood still does not count: the server
    may have answered meanwhile. Call it from the event loop.
    """

    def __init__(
        self, seconds: float, refuse: Callable[[Iterable[Batch]], None]
    ) -> None:
        self._seconds = seconds or math.inf
        self._refuse = refuse
        self._waits: list[tuple[float, Batch]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._seen_at = self._paused = 0.0

    def begin(self, batch: Batch) -> None:
        """Note that a batch waits from now on."""
        self._waits.append((self._now(), batch))
        self._tick_later()

    @property
    def is_over(self) -> bool:
        """Return True if the oldest batch has waited for too long."""
        return self._seconds_left() <= 0

    def end_answered(self) -> None:
        """Forget the batches whose futures are done."""
        self._waits = [one for one in self._waits if not is_answered(one[1].futures)]
        self._tick_later()

    def stop(self) -> None:
        """Refuse nothing any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _seconds_left(self) -> float:
        if not self._waits or self._seconds == math.inf:
            return math.inf
        return self._waits[0][0] + self._seconds - self._now()

    def _tick_later(self) -> None:
        left = self._seconds_left()
        if self._timer is None and left != math.inf:
            seconds = min(max(left, 0.0), TICK_SECONDS)
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(seconds, self._tick)

    def _tick(self) -> None:
        is_over, self._timer = self.is_over, None
        if is_over:
            self._refuse([batch for _, batch in self._waits])
        else:
            self._tick_later()

    def _now(self) -> float:
        """Return the time without the pauses during which batches waited."""
        now = time.monotonic()
        pause = now - self._seen_at - TICK_SECONDS
        if self._timer is not None and pause > PAUSE_SECONDS:
            self._paused += pause
        self._seen_at = now
        return now - self._paused


def is_answered(futures: Sequence[asyncio.Future[Any]]) -> bool:
    """Return True if all of these have a result."""
    return all(future.done() for future in futures)
