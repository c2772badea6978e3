"""Metrics exported by OTLP have the same values as those of Prometheus."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk.metrics.export import AggregationTemporality, Gauge, Sum
from opentelemetry.sdk.resources import Resource
from prometheus_client.parser import text_string_to_metric_families

from backhaul.observe.metrics import BUCKETS, GaugeValue, Metrics
from backhaul.observe.otel.metric_points import metrics_data

BEGAN, NOW = 1_000, 2_000


def counted() -> Metrics:
    metrics = Metrics()
    metrics.counter("webhooks_total")["main", "kept"] += 2
    metrics.counter("webhooks_total")["main", "busy"] += 1
    for seconds in (0.0005, 0.2, 0.2, 60.0):
        metrics.count_request("main", "GET", "200", seconds)
    return metrics


def exported(metrics: Metrics, *gauges: GaugeValue) -> dict[str, Any]:
    families = metrics.families(gauges)
    data = metrics_data(Resource.get_empty(), families, BEGAN, NOW)
    (scope,) = data.resource_metrics[0].scope_metrics
    return {metric.name: metric for metric in scope.metrics}


def test_every_figure_of_prometheus_is_exported() -> None:
    metrics, gauge = counted(), GaugeValue("events_waiting", 3.0)
    found = exported(metrics, gauge)
    text = metrics.render([gauge]).decode()
    families = [f for f in text_string_to_metric_families(text) if f.samples]
    assert {f.name for f in families} == found.keys()
    for family in families:
        data = found[family.name].data
        if isinstance(data, Gauge | Sum) and not family.name.startswith("process_"):
            assert {
                (tuple(sorted((p.attributes or {}).items())), p.value)
                for p in data.data_points
            } == {(tuple(sorted(s.labels.items())), s.value) for s in family.samples}


def test_a_counter_is_a_sum_since_the_start() -> None:
    data = exported(counted())["backhaul_webhooks"].data
    assert isinstance(data, Sum)
    assert data.is_monotonic
    assert data.aggregation_temporality is AggregationTemporality.CUMULATIVE
    times = {(p.start_time_unix_nano, p.time_unix_nano) for p in data.data_points}
    assert times == {(BEGAN, NOW)}


def test_a_histogram_has_each_bucket_alone() -> None:
    metric = exported(counted())["backhaul_platform_seconds"]
    (point,) = metric.data.data_points
    assert (metric.unit, point.count, point.sum) == ("s", 4, 60.4005)
    assert list(point.explicit_bounds) == list(BUCKETS)
    assert len(point.bucket_counts) == len(BUCKETS) + 1
    assert sum(point.bucket_counts) == 4
    assert point.bucket_counts[0] == 1
    assert point.bucket_counts[BUCKETS.index(0.25)] == 2
    assert point.bucket_counts[-1] == 1
