"""The daemon's pulse: a heartbeat through its pipeline, and how late its loop is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loguru import logger

from backhaul.core.clock import from_text, to_text
from backhaul.errors import Busy
from backhaul.observe.metrics import Reading

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from backhaul.core.clock import Clock
    from backhaul.observe.metrics import Metrics
    from backhaul.store.contract import Marks

BEAT_SECONDS = 15.0
WAKE_SECONDS = 1.0
MARK = "heartbeat"
SLOW_SECONDS = 30.0
"""A beat that takes longer is told of: something does not move."""


class Pulse:
    """Sends something of our own the way of every event, again and again.

    A beat is a durable write that must come back, then all that had arrived by then
    must be folded. While it does not come through, its age grows and alarms ring,
    although every part believes that it works.
    """

    def __init__(
        self,
        marks: Marks,
        caught_up: Callable[[], Awaitable[None]],
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._marks = marks
        self._caught_up = caught_up
        self._metrics = metrics
        self._clock = clock
        self.last_beat: float | None = None

    async def beat(self) -> None:
        """Beat for ever. Cancel to stop."""
        while True:
            began = self._clock.monotonic()
            try:
                await self._marks.put(MARK, to_text(self._clock.now()))
                await self._caught_up()
            except Busy as error:
                logger.bind(action="heartbeat.busy").warning("{}", error)
            else:
                self._came_through(self._clock.monotonic() - began)
            await self._clock.sleep(BEAT_SECONDS)

    def _came_through(self, seconds: float) -> None:
        self._metrics.time("heartbeat_seconds", seconds)
        self.last_beat = self._clock.now().timestamp()
        if seconds >= SLOW_SECONDS:
            logger.bind(action="heartbeat.slow", seconds=round(seconds, 1)).warning(
                "a write of our own took {:.0f} s to be durable and folded", seconds
            )

    async def watch_loop(self) -> None:
        """Measure how late the loop is, once a second. Cancel to stop."""
        while True:
            due = self._clock.monotonic() + WAKE_SECONDS
            await self._clock.sleep(WAKE_SECONDS)
            late = max(self._clock.monotonic() - due, 0.0)
            self._metrics.time("loop_lag_seconds", late)


def readings(status: Mapping[str, Any], last_beat: float | None) -> list[Reading]:
    """Return what the running parts say of themselves, from the daemon's status."""
    started = from_text(status["started_at"]).timestamp()
    found = [Reading("up_since_timestamp_seconds", started)]
    if last_beat is not None:
        found.append(Reading("heartbeat_timestamp_seconds", last_beat))
    for name, store in status["stores"].items():
        found += [
            Reading("sending_stopped", 1, (name, kind)) for kind in store["stopped"]
        ]
    for name, instance in status["connectors"].items():
        found.append(Reading("connector_up", float(instance["up"]), (name,)))
    return found
