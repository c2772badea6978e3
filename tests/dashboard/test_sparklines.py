"""The small charts of the overview: their bars, and the text beside them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from backhaul.admin.sparklines import HEIGHT, HOURS, first_hour, sparklines
from dashboard.test_charts import sample
from scenes.clock import START

if TYPE_CHECKING:
    from backhaul.admin.sparklines import Sparkline
    from backhaul.store.operations import MetricSample
    from scenes.dashboard import Office


async def lines(office: Office, *samples: MetricSample) -> dict[str, Sparkline]:
    """Store samples; return the charts that the overview has of them."""
    for each in samples:
        await office.store.metric_samples.add(each, "")
    since = first_hour(START)
    traffic = await office.store.read(lambda reader: reader.traffic(since))
    return sparklines(traffic, START)


async def test_each_hour_has_a_bar_of_all_daemons(office: Office) -> None:
    found = await lines(
        office,
        sample(1, "a", webhooks=3),
        sample(1, "b", webhooks=4),
        sample(60 * 2, "a", webhooks=28, failed_events=2),
        sample(60 * HOURS, "a", webhooks=99),
    )
    line = found["webhooks"]
    assert len(line.counts) == HOURS
    assert [each for each in line.counts if each is not None] == [28, 7]
    assert (line.total, line.failed) == (35, 2)
    older, newer = line.bars
    assert older.height == HEIGHT
    assert newer.height == HEIGHT / 4
    assert 0 < older.failed < newer.height
    assert older.x < newer.x <= 96 - 3
    assert line.title == (
        "Webhooks received in the last 24 hours: 35, at most 28 in an hour; 2 failed"
    )


async def test_nothing_at_all_has_no_bars(office: Office) -> None:
    for line in (await lines(office)).values():
        assert line.bars == []
        assert line.title.endswith("in the last 24 hours: 0")


async def test_failures_alone_are_seen(office: Office) -> None:
    found = await lines(office, sample(1, failed_commands=3))
    (bar,) = found["commands"].bars
    assert (bar.height, bar.failed) == (0, HEIGHT)


async def test_the_overview_shows_each_chart_with_its_words(office: Office) -> None:
    at = sample(1, webhooks=1200, commands=5, failed_commands=1)
    await office.store.metric_samples.add(at, "")
    browser = await office.browser("vera")
    page = await browser.read("/")
    titles = re.findall(r"<svg[^>]*><title>([^<]+)</title>", page)
    assert titles == [
        "Webhooks received in the last 24 hours: 1,200, at most 1,200 in an hour",
        "Commands sent in the last 24 hours: 5, at most 5 in an hour; 1 failed",
        "Deliveries sent in the last 24 hours: 0",
        "Records received in the last 24 hours: 0",
    ]
    assert re.search(r"24 h: 1.200", page)
    assert "1 failed</span>" in page
