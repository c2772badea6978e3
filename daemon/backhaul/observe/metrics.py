"""All metrics of the daemon, in Prometheus text format."""

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

from backhaul.core.histogram import bucket_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prometheus_client.core import Metric

PREFIX = "backhaul_"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
"""Bucket bounds in seconds: from one commit to the longest platform timeout."""


class MetricInfo(Struct, frozen=True):
    """Kind, help text and label names of a metric."""

    kind: Literal["counter", "gauge", "histogram"]
    sentence: str
    labels: tuple[str, ...] = ()


METRICS: dict[str, MetricInfo] = {
    "webhooks_total": MetricInfo(
        "counter",
        "Deliveries by answer: kept, refused (signature), doubled (several "
        "signatures), unsigned, encoded (415), large (413), slow (408), busy (503).",
        ("store", "answer"),
    ),
    "receiver_restarts_total": MetricInfo(
        "counter",
        "Receiver processes ([public] receivers) that ended and were started again.",
        (),
    ),
    "bad_requests_total": MetricInfo(
        "counter",
        "Requests to any listener that are not HTTP, too long, malformed or cut off.",
        ("kind",),
    ),
    "webhook_verify_total": MetricInfo(
        "counter",
        "Deliveries by the webhook secret that signed them, as its fingerprint: if "
        "the count of an old secret stays the same, you can revoke it.",
        ("store", "secret"),
    ),
    "events_folded_total": MetricInfo(
        "counter",
        "Events that were folded.",
    ),
    "fold_problems_total": MetricInfo(
        "counter",
        "Events that are quarantined or unhandled.",
        ("state",),
    ),
    "events_incomplete_total": MetricInfo(
        "counter",
        "Events that were folded without a member that could not be read.",
        ("topic",),
    ),
    "commands_total": MetricInfo(
        "counter",
        "Transitions of commands by new state: applied, planned (again), uncertain, "
        "rejected, parked.",
        ("store", "kind", "state"),
    ),
    "records_total": MetricInfo(
        "counter",
        "Records that a connection submitted, by state: accepted, waiting, duplicate, "
        "conflict, quarantined.",
        ("instance", "state"),
    ),
    "deliveries_total": MetricInfo(
        "counter",
        "Attempts to deliver a change to a connection, by new state of the delivery: "
        "applied, planned (again), uncertain, rejected, parked.",
        ("instance", "state"),
    ),
    "platform_requests_total": MetricInfo(
        "counter",
        "Requests to the platform by status; `not sent` or `no answer` without a "
        "response.",
        ("store", "method", "status"),
    ),
    "event_applied_seconds": MetricInfo(
        "histogram",
        "Time from the arrival of a webhook until its event was folded.",
    ),
    "command_sent_seconds": MetricInfo(
        "histogram",
        "Time from the creation of a command until it was first sent; it includes the"
        " wait on hold.",
        ("store", "kind"),
    ),
    "platform_seconds": MetricInfo(
        "histogram",
        "How long the platform took to answer.",
        ("store", "method"),
    ),
    "log_lines_total": MetricInfo(
        "counter",
        "Log lines of level WARNING and above, by action.",
        ("action",),
    ),
    "telemetry_dropped_total": MetricInfo(
        "counter",
        "Spans and exports of metrics that the OTLP collector did not get, by reason: "
        "queue full, not taken (the collector), stopped (the daemon).",
        ("signal", "reason"),
    ),
    "loop_lag_seconds": MetricInfo(
        "histogram",
        "Delay of a one-second timer in the event loop.",
    ),
    "heartbeat_seconds": MetricInfo(
        "histogram",
        "Time until a heartbeat is durable and all earlier events are folded.",
    ),
    "heartbeat_timestamp_seconds": MetricInfo(
        "gauge",
        "When the last heartbeat completed, in seconds since 1970.",
    ),
    "up_since_timestamp_seconds": MetricInfo(
        "gauge",
        "When the daemon started, in seconds since 1970.",
    ),
    "webhooks_spooled": MetricInfo(
        "gauge",
        "Webhooks on the disk of this machine, which wait for the database server.",
    ),
    "cluster_members": MetricInfo(
        "gauge",
        "Daemons on one PostgreSQL database: owner, standby (owns no store), or"
        " silent.",
        ("state",),
    ),
    "owned_stores": MetricInfo(
        "gauge",
        "Stores that each daemon on one PostgreSQL database owns.",
        ("host",),
    ),
    "unowned_stores": MetricInfo(
        "gauge",
        "Stores of a PostgreSQL database that no daemon owns now.",
    ),
    "store_takeovers": MetricInfo(
        "gauge",
        "How often a daemon has taken a store of a PostgreSQL database.",
    ),
    "events_waiting": MetricInfo(
        "gauge",
        "Events that are stored and not folded yet.",
    ),
    "oldest_event_waiting_seconds": MetricInfo(
        "gauge",
        "Age of the oldest event that is not folded; 0 if there is none.",
    ),
    "last_webhook_timestamp_seconds": MetricInfo(
        "gauge",
        "When the newest event was stored, in seconds since 1970.",
    ),
    "commands_open": MetricInfo(
        "gauge",
        "Commands that are planned, sending, uncertain or parked, and stock counts that"
        " are held.",
        ("store", "kind", "state"),
    ),
    "oldest_command_planned_seconds": MetricInfo(
        "gauge",
        "Age of the oldest planned command that is not on hold (for its order or a "
        "dry run).",
        ("store",),
    ),
    "objects_in_doubt": MetricInfo(
        "gauge",
        "Objects that wait for a refetch.",
        ("store",),
    ),
    "records_waiting": MetricInfo(
        "gauge",
        "Records whose order or product is not known yet.",
        ("instance",),
    ),
    "deliveries_open": MetricInfo(
        "gauge",
        "Deliveries to a connection that are planned, sending, uncertain or parked.",
        ("instance",),
    ),
    "quarantine_rows": MetricInfo(
        "gauge",
        "Quarantined rows that wait for an operator.",
        ("name",),
    ),
    "last_record_timestamp_seconds": MetricInfo(
        "gauge",
        "When a connection last submitted a record, in seconds since 1970.",
        ("instance",),
    ),
    "first_read_timestamp_seconds": MetricInfo(
        "gauge",
        "When the first backfill of a store began, in seconds since 1970.",
        ("store",),
    ),
    "consistent_as_of_timestamp_seconds": MetricInfo(
        "gauge",
        "Start of the last full sync that left no difference; absent before the "
        "first one.",
        ("store",),
    ),
    "drift_rows": MetricInfo(
        "gauge",
        "Rows that polls and full syncs found missed, stale, deleted or foreign, "
        "and repaired, since the database was created.",
        ("store", "drift"),
    ),
    "unrepaired_rows": MetricInfo(
        "gauge",
        "Rows that the last full sync could not repair.",
        ("store",),
    ),
    "sending_stopped": MetricInfo(
        "gauge",
        "1 while commands of a kind (or all) must not be sent.",
        ("store", "kind"),
    ),
    "connector_up": MetricInfo(
        "gauge",
        "1 while a connection works.",
        ("instance",),
    ),
    "database_bytes": MetricInfo(
        "gauge",
        "Size of the database and of its write-ahead log.",
        ("file",),
    ),
}
"""All metrics, without `PREFIX`; tests compare docs and alert rules with it."""


class GaugeValue(Struct, frozen=True):
    """One value of a gauge, with its label values in the order of `MetricInfo`."""

    name: str
    value: float
    labels: tuple[str, ...] = ()


class Metrics(Collector):
    """The counters and histograms of one daemon, and their text for Prometheus.

    A counter is a plain `collections.Counter` over label values: counting a webhook
    takes a tenth of a microsecond.
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
        self._buckets = {name: CountOf[int]() for name in self._histograms}
        self._gauges: dict[str, dict[tuple[str, ...], float]] = {}
        self._registry.register(self)

    def _histogram(self, name: str) -> Histogram:
        meaning = METRICS[name]
        return Histogram(
            PREFIX + name,
            meaning.sentence,
            meaning.labels,
            registry=self._registry,
            buckets=BUCKETS,
        )

    def counter(self, name: str) -> CountOf[tuple[str, ...]]:
        """Return the counter of this name; its keys are tuples of label values."""
        return self._counters[name]

    def counters(self) -> Mapping[str, CountOf[tuple[str, ...]]]:
        """Return every counter by its name."""
        return self._counters

    def time(self, name: str, seconds: float, *labels: str) -> None:
        """Add one duration to a histogram."""
        histogram = self._histograms[name]
        (histogram.labels(*labels) if labels else histogram).observe(seconds)
        self._buckets[name][bucket_of(seconds)] += 1

    def buckets(self, name: str) -> CountOf[int]:
        """Return the durations so far, of all labels, in `core.histogram` buckets."""
        return self._buckets[name].copy()

    def count_request(
        self, store: str, method: str, status: str, seconds: float
    ) -> None:
        """Count one request to a platform and add its duration."""
        self._counters["platform_requests_total"][store, method, status] += 1
        self.time("platform_seconds", seconds, store, method)

    def families(self, gauges: Iterable[GaugeValue]) -> list[Metric]:
        """Return all metrics with their samples, with these values of gauges."""
        self._show(gauges)
        return list(self._registry.collect())

    def _show(self, gauges: Iterable[GaugeValue]) -> None:
        self._gauges = {name: {} for name in _called("gauge")}
        for gauge in gauges:
            self._gauges[gauge.name][gauge.labels] = gauge.value

    def render(self, gauges: Iterable[GaugeValue]) -> bytes:
        """Return all metrics in Prometheus text format, with these values of gauges."""
        self._show(gauges)
        lines = generate_latest(self._registry).splitlines(keepends=True)
        # The `_created` series would double the output, and nobody needs them.
        return b"".join(line for line in lines if b"_created" not in line)

    def collect(self) -> Iterator[Metric]:
        """Yield counters and gauges; the registry calls this."""
        for name, counted in self._counters.items():
            yield _family(name, CounterMetricFamily, counted)
        for name, values in self._gauges.items():
            yield _family(name, GaugeMetricFamily, values)


def _called(kind: str) -> list[str]:
    return [name for name, meaning in METRICS.items() if meaning.kind == kind]


def _family(
    name: str,
    make: type[CounterMetricFamily] | type[GaugeMetricFamily],
    values: Mapping[tuple[str, ...], float],
) -> Metric:
    meaning = METRICS[name]
    family = make(PREFIX + name, meaning.sentence, labels=meaning.labels)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family
