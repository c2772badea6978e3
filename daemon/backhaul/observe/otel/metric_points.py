"""Turns the metrics that Prometheus reads into those of OTLP."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, TypeAlias

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from backhaul.observe.otel.tracer import SCOPE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from opentelemetry.sdk.resources import Resource
    from prometheus_client.core import Metric as Family
    from prometheus_client.samples import Sample

    Labels: TypeAlias = tuple[tuple[str, str], ...]

_UNITS = {"_seconds": "s", "_bytes": "By"}


def metrics_data(
    resource: Resource, families: Iterable[Family], began_at: int, now: int
) -> MetricsData:
    """Return families of metrics as one export.

    The times are in nanoseconds since 1970. Counters and histograms are cumulative
    since `began_at`.
    """
    found = [_metric(family, began_at, now) for family in families if family.samples]
    scope = ScopeMetrics(InstrumentationScope(SCOPE), found, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _metric(family: Family, began_at: int, now: int) -> Metric:
    data: Gauge | Histogram | Sum
    if family.type == "histogram":
        points = list(_histograms(family.samples, began_at, now))
        data = Histogram(points, AggregationTemporality.CUMULATIVE)
    elif family.type == "counter":
        numbers = _numbers(family.samples, began_at, now)
        data = Sum(numbers, AggregationTemporality.CUMULATIVE, is_monotonic=True)
    else:
        data = Gauge(_numbers(family.samples, now, now))
    unit = next((u for end, u in _UNITS.items() if family.name.endswith(end)), "1")
    return Metric(family.name, family.documentation, unit, data)


def _numbers(
    samples: Iterable[Sample], began_at: int, now: int
) -> list[NumberDataPoint]:
    return [
        NumberDataPoint(sample.labels, began_at, now, sample.value)
        for sample in samples
        if not sample.name.endswith("_created")
    ]


def _histograms(
    samples: Sequence[Sample], began_at: int, now: int
) -> Iterator[HistogramDataPoint]:
    """Yield one point for each set of labels, with the count of each bucket alone."""
    buckets: dict[Labels, list[tuple[float, int]]] = defaultdict(list)
    totals: dict[Labels, float] = {}
    for sample in samples:
        labels = {name: text for name, text in sample.labels.items() if name != "le"}
        key = tuple(labels.items())
        if sample.name.endswith("_bucket"):
            bound = float(sample.labels["le"])
            buckets[key].append((bound, int(sample.value)))
        elif sample.name.endswith("_sum"):
            totals[key] = sample.value
    for key, cumulative in buckets.items():
        counts = [count for _, count in cumulative]
        alone = [after - before for before, after in zip([0, *counts], counts)]  # noqa: B905 - one longer
        yield HistogramDataPoint(
            attributes=dict(key),
            start_time_unix_nano=began_at,
            time_unix_nano=now,
            count=counts[-1],
            sum=totals[key],
            bucket_counts=alone,
            explicit_bounds=[b for b, _ in cumulative if not math.isinf(b)],
            # Prometheus does not keep them.
            min=None,  # type: ignore[arg-type]  # OTLP may leave it out
            max=None,  # type: ignore[arg-type]  # the same
        )
