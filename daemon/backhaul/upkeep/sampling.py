"""Looks at the daemon's numbers every few seconds, and keeps one row a minute."""

from __future__ import annotations

from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING

from loguru import logger
from msgspec import Struct

from backhaul.core.clock import to_text
from backhaul.errors import Busy
from backhaul.store.samples import Sample

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from backhaul.core.clock import Clock
    from backhaul.observe.metrics import Metrics
    from backhaul.store.samples import Samples

TICK_SECONDS = 5.0
TICKS_A_MINUTE = 12
RECOUNT_MINUTES = 10
QUICKLY_COUNTED = 50_000
KEPT = timedelta(days=1)

Number = tuple[str, float, tuple[str, ...]]


class _Counted(Struct, frozen=True):
    """The counters at one moment."""

    at: float
    webhooks: int
    folded: int
    applied: int
    platform: tuple[float, float]
    heartbeat: tuple[float, float]


class Sampler:
    """What happened lately, for people who look."""

    def __init__(
        self,
        samples: Samples,
        numbers: Callable[[], Awaitable[Sequence[Number]]],
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._samples = samples
        self._numbers = numbers
        self._metrics = metrics
        self._clock = clock
        self._seen: deque[_Counted] = deque(maxlen=TICKS_A_MINUTE + 1)
        self.mirrored: Mapping[str, int] = {}

    async def run(self) -> None:
        """Look for ever. Cancel to stop."""
        minutes = 0
        self._seen.append(self._count())
        while True:
            for tick in range(TICKS_A_MINUTE):
                if self._is_quick() or (tick == 0 and minutes % RECOUNT_MINUTES == 0):
                    self.mirrored = await self._samples.mirrored() or self.mirrored
                await self._clock.sleep(TICK_SECONDS)
                self._seen.append(self._count())
            minutes += 1
            await self._keep()

    def _is_quick(self) -> bool:
        """Tell whether counting the mirror costs next to nothing."""
        return sum(self.mirrored.values()) < QUICKLY_COUNTED

    def rates(self) -> dict[str, float]:
        """Return what happened each minute, by the last minute's numbers."""
        now = self._count()
        then = self._seen[0] if self._seen else now
        minutes = max((now.at - then.at) / 60, 1 / 60)
        return {
            name: (getattr(now, name) - getattr(then, name)) / minutes
            for name in ("webhooks", "folded", "applied")
        }

    def _count(self) -> _Counted:
        metrics = self._metrics
        kept = metrics.counts("webhooks_total")
        came_to = metrics.counts("commands_total")
        return _Counted(
            self._clock.monotonic(),
            sum(n for (_, answer), n in kept.items() if answer == "kept"),
            sum(metrics.counts("events_folded_total").values()),
            sum(n for (*_, state), n in came_to.items() if state == "applied"),
            metrics.timed("platform_seconds"),
            metrics.timed("heartbeat_seconds"),
        )

    async def _keep(self) -> None:
        then, now = self._seen[0], self._seen[-1]
        numbers = list(await self._numbers())
        moment = self._clock.now()
        sample = Sample(
            to_text(moment),
            now.webhooks - then.webhooks,
            now.folded - then.folded,
            now.applied - then.applied,
            _mean(then.platform, now.platform),
            _mean(then.heartbeat, now.heartbeat),
            _sum(numbers, "events_waiting"),
            _sum(numbers, "commands_open", "planned", "sending", "uncertain"),
            _sum(numbers, "commands_open", "parked"),
        )
        try:
            await self._samples.keep(sample, to_text(moment - KEPT))
        except Busy as error:
            logger.bind(action="samples.busy").debug("{}", error)


def _mean(then: tuple[float, float], now: tuple[float, float]) -> float | None:
    number = now[0] - then[0]
    return (now[1] - then[1]) / number if number else None


def _sum(numbers: Sequence[Number], name: str, *states: str) -> int:
    return int(
        sum(
            value
            for found, value, labels in numbers
            if found == name and (not states or labels[-1] in states)
        )
    )
