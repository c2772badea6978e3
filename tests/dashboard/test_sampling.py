"""A row a minute for the charts, kept for a day, and lines that make nothing up."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from backhaul.admin.rendering import chart
from backhaul.core.clock import to_text
from backhaul.maintenance.self_monitoring import RATES, Sampler
from backhaul.observe.metrics import Metrics
from backhaul.store.operations import MetricSample
from scenes.clock import START, VirtualClock
from scenes.databases import started_store
from scenes.stored import lists
from scenes.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

HOUR = timedelta(hours=1)
MINUTE = 60.0


async def test_a_minute_is_one_row_and_a_day_is_kept(tmp_path: Path) -> None:
    clock, metrics = VirtualClock(), Metrics()
    path = tmp_path / "backhaul.db"
    async with started_store(path, clock) as store:
        sampler = Sampler(
            store.metric_samples, lambda: store.gauges.current([]), metrics, clock
        )
        running = asyncio.create_task(sampler.run())
        await minute(clock)
        metrics.counter("webhooks_total")["main", "kept"] += 7
        metrics.counter("webhooks_total")["main", "refused"] += 1
        metrics.counter("commands_total")["main", "fulfill", "applied"] += 2
        metrics.count_request("main", "POST", "200", 0.5)
        metrics.count_request("main", "POST", "200", 1.5)
        assert sampler.rates()["webhooks"] == 7
        await minute(clock)
        await until(lambda: len(samples(path)) == 2, "both minutes")
        shown = [(s.webhooks, s.applied, s.platform_seconds) for s in samples(path)]
        assert shown == [(0, 0, None), (7, 2, 1.0)]
        clock._start += timedelta(days=1)
        await minute(clock)
        await until(lambda: len(samples(path)) == 1, "the day before is gone")
        running.cancel()


async def test_the_rates_are_means_of_five_minutes(tmp_path: Path) -> None:
    clock, metrics = VirtualClock(), Metrics()
    async with started_store(tmp_path / "backhaul.db", clock) as store:
        sampler = Sampler(
            store.metric_samples, lambda: store.gauges.current([]), metrics, clock
        )
        running = asyncio.create_task(sampler.run())
        await clock.asleep(5.0)
        metrics.counter("commands_total")["main", "fulfill", "uncertain"] += 4
        metrics.counter("commands_total")["main", "fulfill", "applied"] += 1
        metrics.counter("commands_total")["main", "fulfill", "planned"] += 1
        metrics.counter("records_total")["courier", "accepted"] += 10
        metrics.counter("records_total")["courier", "duplicate"] += 1
        metrics.counter("deliveries_total")["erp", "applied"] += 15
        for _ in range(5):
            await minute(clock)
        await clock.asleep(5.0)
        shown = sampler.rates()
        assert [shown[name] for name in RATES] == [0, 0, 1, 0.2, 2, 3]
        await minute(clock)
        await clock.asleep(5.0)
        assert set(sampler.rates().values()) == {0}
        running.cancel()


def samples(path: Path) -> list[MetricSample]:
    with lists(path) as reader:
        return reader.samples("")


async def minute(clock: VirtualClock) -> None:
    """Let a minute pass, as soon as the sampler waits for each of its ticks."""
    for _ in range(12):
        await clock.asleep(5.0)
        await clock.advance(5.0)


def test_a_silence_interrupts_the_line() -> None:
    moments = [*range(10), *range(30, 40), 50]
    points = [
        MetricSample(at, 0, 0, 0, float(m), None, 0, 0, 0)
        for m in moments
        for at in [to_text(START - HOUR + timedelta(minutes=m))]
    ]
    drawn = chart("Rates", points, {"n": "platform_seconds"}, START, HOUR)
    assert (drawn.count("<polyline"), drawn.count("<circle")) == (2, 1)
    assert 'aria-label="Rates. n: now 50, at most 50"' in drawn


def test_nothing_is_drawn_of_nothing() -> None:
    drawn = chart("Rates", [], {"n": "n"}, START, HOUR)
    assert "polyline" not in drawn
    assert "no values" in drawn
