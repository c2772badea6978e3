"""The lines of the charts: samples of all daemons, added up over equal steps."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from backhaul.core.clock import from_text
from backhaul.core.histogram import from_text as durations
from backhaul.core.histogram import percentile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from backhaul.store.operations import MetricSample

MINUTE = timedelta(minutes=1)


class Range(Struct, frozen=True):
    """A time range that a reader chooses, and the step between its points."""

    name: str
    title: str
    length: timedelta
    step: timedelta


RANGES = {
    each.name: each
    for each in (
        Range("quarter", "15 minutes", timedelta(minutes=15), MINUTE),
        Range("hour", "Hour", timedelta(hours=1), MINUTE),
        Range("day", "Day", timedelta(days=1), timedelta(minutes=10)),
        Range("week", "Week", timedelta(days=7), timedelta(hours=1)),
    )
}
DEFAULT = RANGES["hour"]


class Line(Struct, frozen=True):
    """One line of a chart: a value for each step, None where there is no sample."""

    name: str
    values: list[float | None]

    @property
    def last(self) -> float | None:
        """The newest value, None if there is none."""
        return next((v for v in reversed(self.values) if v is not None), None)

    @property
    def highest(self) -> float | None:
        """The highest value, None if there is none."""
        return max((v for v in self.values if v is not None), default=None)


class Chart(Struct, frozen=True):
    """Lines with one unit: `per minute`, `%`, `s` or `rows`."""

    key: str
    title: str
    unit: str
    lines: list[Line]


class Step:
    """The sum of the samples of one step."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.times: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self._backlog: dict[str, int] = {}
        self._minutes: set[str] = set()

    def add(self, sample: MetricSample) -> None:
        """Add a sample; of what waits the last one of a step counts."""
        self._minutes.add(sample.at[:16])
        for name in _COUNTS:
            self.counts[name] += getattr(sample, name)
        for name in _TIMES:
            self.times[name].update(durations(getattr(sample, f"{name}_times")))
        for name in _WAITS:
            if (value := getattr(sample, name)) is not None:
                self._backlog[name] = value

    def rate(self, name: str) -> float:
        """Return a count per minute, of the minutes that have a sample."""
        return self.counts[name] / len(self._minutes)

    def failures(self, name: str) -> float | None:
        """Return the percentage that failed, None if there was nothing."""
        if not (total := self.counts[name]):
            return None
        return min(self.counts[f"failed_{name}"] / total, 1.0) * 100

    def waiting(self, name: str) -> float | None:
        """Return what waited at the end, None if no sample says it."""
        return self._backlog.get(name)

    def slowest(self, name: str, part: float) -> float | None:
        """Return a percentile in seconds."""
        return percentile(self.times[name], part)


_RATES = {
    "webhooks received": "webhooks",
    "events applied": "events",
    "commands sent": "commands",
    "records received": "records",
    "deliveries sent": "deliveries",
}
_ERRORS = {
    "platform requests": "requests",
    "events": "events",
    "commands": "commands",
    "deliveries": "deliveries",
}
_PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_DURATIONS = {
    "applied": "Webhook to applied",
    "sent": "Command to sent",
    "platform": "Platform response",
}
_BACKLOG = {
    "events to apply": "events_waiting",
    "open commands": "commands_open",
    "parked commands": "commands_parked",
    "open deliveries": "deliveries_open",
    "quarantine": "quarantined",
}
_COUNTS = (*_RATES.values(), "requests", *(f"failed_{n}" for n in _ERRORS.values()))
_TIMES = tuple(_DURATIONS)
_WAITS = tuple(_BACKLOG.values())


def steps_of(
    samples: Iterable[MetricSample], chosen: Range, now: datetime
) -> dict[float, Step | None]:
    """Return the steps of a range by their begin, None for a step without samples."""
    width = chosen.step.total_seconds()
    last = now.timestamp() // width
    number = int(chosen.length / chosen.step)
    found: dict[float, Step | None] = {
        (last - back) * width: None for back in range(number, -1, -1)
    }
    for sample in samples:
        begin = from_text(sample.at).timestamp() // width * width
        if begin in found:
            step = found[begin] = found[begin] or Step()
            step.add(sample)
    return found


def begin_of(chosen: Range, now: datetime) -> datetime:
    """Return where the first step of a range begins."""
    width = chosen.step.total_seconds()
    begin = now.timestamp() // width * width - chosen.length.total_seconds()
    return datetime.fromtimestamp(begin, UTC)


def charts_of(steps: Sequence[Step | None]) -> list[Chart]:
    """Return all charts over these steps."""

    def line(name: str, value: Callable[[Step], float | None]) -> Line:
        return Line(name, [_rounded(value(step)) if step else None for step in steps])

    rates = [line(k, partial(Step.rate, name=n)) for k, n in _RATES.items()]
    errors = [line(k, partial(Step.failures, name=n)) for k, n in _ERRORS.items()]
    waits = [line(k, partial(Step.waiting, name=n)) for k, n in _BACKLOG.items()]
    times = [
        Chart(
            key,
            title,
            "s",
            [
                line(name, partial(Step.slowest, name=key, part=part))
                for name, part in _PERCENTILES.items()
            ],
        )
        for key, title in _DURATIONS.items()
    ]
    return [
        Chart("throughput", "Throughput", "per minute", rates),
        Chart("errors", "Error rate", "%", errors),
        *times,
        Chart("backlog", "Backlog", "rows", waits),
    ]


def _rounded(value: float | None) -> float | None:
    """Return a value with four digits, which is more than a chart shows."""
    return None if value is None else float(f"{value:.4g}")
