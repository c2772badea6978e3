"""The daemon's numbers: every name in one table, told in Prometheus' text form.

What happens is counted where it happens; what merely is, like the commands that wait,
is read when somebody asks (`Reading`).
"""

from __future__ import annotations

from collections import Counter as CountOf
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from prometheus_client import (
    CollectorRegistry,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prometheus_client.core import Metric

PREFIX = "backhaul_"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
"""Upper bounds in seconds: from a commit to the patience with a platform."""


class Meaning(Struct, frozen=True):
    """What a number says, for people and for Prometheus; `labels` tell it apart."""

    kind: Literal["counter", "gauge", "histogram"]
    sentence: str
    labels: tuple[str, ...] = ()


NAMES: dict[str, Meaning] = {
    "webhooks_total": Meaning(
        "counter",
        "Deliveries by answer: kept, refused (signature), doubled (several signatures),"
        " unsigned, encoded (415), large (413), slow (408), busy (503).",
        ("store", "answer"),
    ),
    "bad_requests_total": Meaning(
        "counter",
        "Requests to any listener that are not HTTP, too long, malformed or cut off.",
        ("kind",),
    ),
    "webhook_verify_total": Meaning(
        "counter",
        "Deliveries by the webhook secret that signed them, as its fingerprint: an"
        " old secret that stands still may go.",
        ("store", "secret"),
    ),
    "events_folded_total": Meaning("counter", "Events that were folded."),
    "fold_problems_total": Meaning(
        "counter", "Events that are quarantined or unhandled.", ("state",)
    ),
    "events_incomplete_total": Meaning(
        "counter",
        "Events that were folded without a member that could not be read.",
        ("topic",),
    ),
    "commands_total": Meaning(
        "counter",
        "Steps of commands, by what they came to: applied, planned (again),"
        " uncertain, rejected, parked.",
        ("store", "kind", "state"),
    ),
    "platform_requests_total": Meaning(
        "counter",
        "Requests to the platform by status; `not sent` and `no answer` where there"
        " is none.",
        ("store", "method", "status"),
    ),
    "platform_seconds": Meaning(
        "histogram", "How long the platform took to answer.", ("store", "method")
    ),
    "log_lines_total": Meaning(
        "counter", "Lines of the log from WARNING up, by action.", ("action",)
    ),
    "loop_lag_seconds": Meaning(
        "histogram", "How late the event loop was for a wake each second."
    ),
    "heartbeat_seconds": Meaning(
        "histogram",
        "From a write of our own until it is durable and all before it is folded.",
    ),
    "heartbeat_timestamp_seconds": Meaning(
        "gauge", "When the last heartbeat came through, in seconds since 1970."
    ),
    "up_since_timestamp_seconds": Meaning(
        "gauge", "When the daemon was started, in seconds since 1970."
    ),
    "events_waiting": Meaning("gauge", "Events that are kept and not folded yet."),
    "oldest_event_waiting_seconds": Meaning(
        "gauge", "How long the oldest of these has waited; 0 where there is none."
    ),
    "last_webhook_timestamp_seconds": Meaning(
        "gauge", "When the newest event was kept, in seconds since 1970."
    ),
    "commands_open": Meaning(
        "gauge",
        "Commands that are planned, sending, uncertain or parked.",
        ("store", "kind", "state"),
    ),
    "oldest_command_planned_seconds": Meaning(
        "gauge",
        "How long the oldest planned command that nothing holds has waited.",
        ("store",),
    ),
    "objects_in_doubt": Meaning(
        "gauge", "Objects that are to be read from the platform again.", ("store",)
    ),
    "records_waiting": Meaning(
        "gauge", "Records whose order or product is not known yet.", ("instance",)
    ),
    "quarantine_rows": Meaning("gauge", "Rows that wait for a person.", ("name",)),
    "last_record_timestamp_seconds": Meaning(
        "gauge",
        "When an instance last brought a record, in seconds since 1970.",
        ("instance",),
    ),
    "first_read_timestamp_seconds": Meaning(
        "gauge",
        "When the first reading of a store's lists was begun, in seconds since 1970.",
        ("store",),
    ),
    "consistent_as_of_timestamp_seconds": Meaning(
        "gauge",
        "Since when the mirror is known to be as the platform; none before proof.",
        ("store",),
    ),
    "drift_rows": Meaning(
        "gauge",
        "Rows that walks and looks found missed, stale, deleted or foreign, and"
        " repaired, since the database was made.",
        ("store", "drift"),
    ),
    "unrepaired_rows": Meaning(
        "gauge", "Rows that the last full walks could not repair.", ("store",)
    ),
    "sending_stopped": Meaning(
        "gauge", "1 while commands of a kind (or all) may not leave.", ("store", "kind")
    ),
    "connector_up": Meaning("gauge", "1 while an instance works.", ("instance",)),
    "database_bytes": Meaning(
        "gauge", "Size of the database and of its write-ahead log.", ("file",)
    ),
}
"""Without the prefix; `docs/metrics.md` and the alert rules are held to it."""


class Reading(Struct, frozen=True):
    """One value of a gauge, its labels in the order of its meaning."""

    name: str
    value: float
    labels: tuple[str, ...] = ()


class Metrics(Collector):
    """Counts, and tells. Nothing of it is shared between two daemons.

    A counter is a plain `collections.Counter` over label values: a webhook pays a tenth
    of a microsecond for being counted.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._counters: dict[str, CountOf[tuple[str, ...]]] = {
            name: CountOf() for name in _called("counter")
        }
        self._histograms = {
            name: self._histogram(name) for name in _called("histogram")
        }
        self._timed = dict.fromkeys(self._histograms, (0, 0.0))
        self._gauges: dict[str, dict[tuple[str, ...], float]] = {}
        self._registry.register(self)

    def _histogram(self, name: str) -> Histogram:
        meaning = NAMES[name]
        return Histogram(
            PREFIX + name,
            meaning.sentence,
            meaning.labels,
            registry=self._registry,
            buckets=BUCKETS,
        )

    def counts(self, name: str) -> CountOf[tuple[str, ...]]:
        """Return the counter of this name, by the values of its labels."""
        return self._counters[name]

    def time(self, name: str, seconds: float, *labels: str) -> None:
        """Add one duration to a histogram."""
        made = self._histograms[name]
        (made.labels(*labels) if labels else made).observe(seconds)
        count, total = self._timed[name]
        self._timed[name] = count + 1, total + seconds

    def timed(self, name: str) -> tuple[float, float]:
        """Return how many durations a histogram has, and their sum, over all labels."""
        return self._timed[name]

    def requested(self, store: str, method: str, status: str, seconds: float) -> None:
        """Count one request to a platform, and how long it took."""
        self._counters["platform_requests_total"][store, method, status] += 1
        self.time("platform_seconds", seconds, store, method)

    def told(self, readings: Iterable[Reading]) -> bytes:
        """Return all of it as Prometheus reads it; gauges are as the readings say."""
        self._gauges = {name: {} for name in _called("gauge")}
        for reading in readings:
            self._gauges[reading.name][reading.labels] = reading.value
        lines = generate_latest(self._registry).splitlines(keepends=True)
        # When each child was made is of no use, and half of what is told.
        return b"".join(line for line in lines if b"_created" not in line)

    def collect(self) -> Iterator[Metric]:
        """Called by the registry."""
        for name, counted in self._counters.items():
            yield _family(name, CounterMetricFamily, counted)
        for name, values in self._gauges.items():
            yield _family(name, GaugeMetricFamily, values)


def _called(kind: str) -> list[str]:
    return [name for name, meaning in NAMES.items() if meaning.kind == kind]


def _family(
    name: str,
    make: type[CounterMetricFamily] | type[GaugeMetricFamily],
    values: Mapping[tuple[str, ...], float],
) -> Metric:
    meaning = NAMES[name]
    family = make(PREFIX + name, meaning.sentence, labels=meaning.labels)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family
