"""The values of the charts: sums of all daemons over equal steps, and gaps."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.admin.charts import RANGES, charts_of, steps_of
from backhaul.core.clock import to_text
from backhaul.core.histogram import bucket_of
from backhaul.store.operations import MetricSample
from scenes.clock import START

if TYPE_CHECKING:
    from scenes.dashboard import Office

MINUTE = timedelta(minutes=1)


def sample(minutes_ago: int, member: str = "a", **more: Any) -> MetricSample:
    """Return a sample of the minute that ended so long ago; what is not given is 0."""
    counts = dict.fromkeys(MetricSample.__struct_fields__[2:12], 0)
    times = dict.fromkeys(("applied_times", "sent_times", "platform_times"), "{}")
    at = to_text(START - minutes_ago * MINUTE)
    return MetricSample(at, member, **{**counts, **times, **more})


def line(
    samples: list[MetricSample], key: str, name: str, span: str = "hour"
) -> list[float | None]:
    """Return the values of a line of a chart."""
    steps = steps_of(samples, RANGES[span], START)
    chart = next(each for each in charts_of(list(steps.values())) if each.key == key)
    return next(each.values for each in chart.lines if each.name == name)


def test_the_daemons_are_added_up() -> None:
    both = [sample(2, "a", webhooks=3), sample(2, "b", webhooks=4)]
    values = line(both, "throughput", "webhooks received")
    assert len(values) == 61
    assert values[-3:] == [7, None, None]


def test_a_rate_is_a_mean_over_the_minutes_with_a_sample() -> None:
    some = [sample(n, webhooks=6) for n in (1, 2, 3)]
    assert line(some, "throughput", "webhooks received", "day")[-2:] == [6, None]


def test_a_percentile_is_one_of_all_daemons_and_minutes() -> None:
    fast, slow = f'{{"{bucket_of(0.1)}":95}}', f'{{"{bucket_of(8.0)}":5}}'
    both = [
        sample(3, "a", platform_times=fast),
        sample(2, "b", platform_times=slow),
    ]
    p50, p99 = (line(both, "platform", name, "day")[-2] for name in ("p50", "p99"))
    assert p50 == pytest.approx(0.1, rel=0.1)
    assert p99 == pytest.approx(8, rel=0.1)


def test_the_error_rate_is_a_share_of_the_attempts() -> None:
    some = [sample(2, requests=8, failed_requests=2), sample(1, requests=0)]
    assert line(some, "errors", "platform requests")[-3:] == [25, None, None]


def test_of_the_backlog_the_last_sample_of_a_step_counts() -> None:
    some = [sample(2, quarantined=9), sample(1, quarantined=4), sample(1, "b")]
    assert line(some, "backlog", "quarantine", "day")[-2] == 4


@pytest.mark.parametrize("span", RANGES)
def test_each_range_has_so_many_equal_steps(span: str) -> None:
    begins = list(steps_of([], RANGES[span], START))
    widths = {after - before for before, after in pairwise(begins)}
    assert widths == {RANGES[span].step.total_seconds()}
    assert begins[-1] - begins[0] == RANGES[span].length.total_seconds()


async def test_the_page_has_the_last_values_without_a_script(office: Office) -> None:
    await office.store.metric_samples.add(sample(1, webhooks=42), "")
    viewer = await office.browser("vera")
    shown = await viewer.read("/charts?span=quarter")
    assert '<th scope="row">webhooks received</th><td class="num">42</td>' in shown
    assert 'data-source="/charts.json?span=quarter"' in shown
    assert "No data yet" not in shown


async def test_a_page_without_samples_says_so(office: Office) -> None:
    viewer = await office.browser("vera")
    assert "No data yet" in await viewer.read("/charts?span=nothing")


async def test_the_browser_gets_the_points(office: Office) -> None:
    await office.store.metric_samples.add(sample(1, webhooks=42, quarantined=3), "")
    viewer = await office.browser("vera")
    found = await (await viewer.get("/charts.json?span=quarter")).json()
    assert len(found["times"]) == 16
    charts = {each["key"]: each for each in found["charts"]}
    assert charts["throughput"]["lines"][0]["values"][-2:] == [42, None]
    assert charts["backlog"]["lines"][-1]["values"][-2:] == [3, None]
