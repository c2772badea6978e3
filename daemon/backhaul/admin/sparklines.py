"""Small charts of the last 24 hours, drawn on the server: a bar for each hour."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from backhaul.core.clock import to_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from backhaul.store.operations import TrafficHour

HOURS = 24
WIDTH, HEIGHT = 96, 24
"""The size of a chart in its own units; a bar and its gap are 4 wide."""
_LOWEST = 1.5
"""The height of a bar that is not zero, so that it is seen."""


class Bar(NamedTuple):
    """One bar from the bottom of the chart, and the part of it that failed."""

    x: float
    height: float
    failed: float


class Sparkline(Struct, frozen=True):
    """The counts of each hour, the oldest first; None where no daemon ran."""

    name: str
    counts: Sequence[int | None]
    failures: Sequence[int]

    @property
    def total(self) -> int:
        """How many there were in all hours."""
        return sum(each or 0 for each in self.counts)

    @property
    def failed(self) -> int:
        """How many failed in all hours."""
        return sum(self.failures)

    @property
    def title(self) -> str:
        """The chart in words, for those who do not see it."""
        highest = max((each or 0 for each in self.counts), default=0)
        said = f"{self.name} in the last {HOURS} hours: {self.total:,}"
        said += f", at most {highest:,} in an hour" if highest else ""
        return said + (f"; {self.failed:,} failed" if self.failed else "")

    @property
    def bars(self) -> list[Bar]:
        """The bars; the highest count fills the height of the chart."""
        highest = max((each or 0 for each in self.counts), default=0)
        step = WIDTH / HOURS
        return [
            Bar(place * step, _height(count, highest), _height(failed, highest))
            for place, (count, failed) in enumerate(
                zip(self.counts, self.failures, strict=True)
            )
            if count or failed
        ]


def _height(count: int | None, highest: int) -> float:
    """Return the height of a bar; failures may be more than what they are a part of."""
    if not count:
        return 0.0
    part = min(count / highest, 1.0) if highest else 1.0
    return round(max(part * HEIGHT, _LOWEST), 1)


_LINES: Mapping[str, tuple[str, str | None]] = {
    "webhooks": ("Webhooks received", "failed_events"),
    "commands": ("Commands sent", "failed_commands"),
    "deliveries": ("Deliveries sent", "failed_deliveries"),
    "records": ("Records received", None),
}
"""The lines of the overview, with what counts as their failures."""


def first_hour(now: datetime) -> str:
    """Return the time at which the first bar begins."""
    begin = now - timedelta(hours=HOURS - 1)
    return to_text(begin.replace(minute=0, second=0, microsecond=0))


def sparklines(traffic: Sequence[TrafficHour], now: datetime) -> dict[str, Sparkline]:
    """Return the lines of the overview by what they count."""
    hours = [now - timedelta(hours=back) for back in range(HOURS - 1, -1, -1)]
    known = {each.hour: each for each in traffic}
    found = [known.get(to_text(hour)[:13]) for hour in hours]
    return {
        key: Sparkline(
            name,
            [None if each is None else getattr(each, key) for each in found],
            [getattr(each, failed) if each and failed else 0 for each in found],
        )
        for key, (name, failed) in _LINES.items()
    }
