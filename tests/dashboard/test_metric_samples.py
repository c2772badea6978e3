"""Each daemon stores one metric sample a minute for the charts, for a week."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import pytest

from backhaul.core.histogram import from_text, percentile
from backhaul.maintenance.self_monitoring import RATES, Sampler
from backhaul.observe.metrics import Metrics
from scenes.clock import VirtualClock
from scenes.databases import started_store
from scenes.stored import lists
from scenes.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from backhaul.store.operations import MetricSample

MINUTE = 60.0


async def test_a_minute_is_one_row_and_a_week_is_kept(tmp_path: Path) -> None:
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
        metrics.counter("commands_total")["main", "fulfill", "parked"] += 1
        metrics.counter("fold_problems_total")["unhandled",] += 1
        for status in ("200", "404", "503", "no answer"):
            metrics.count_request("main", "POST", status, 0.5)
        assert sampler.rates()["webhooks"] == 7
        await minute(clock)
        await until(lambda: len(samples(path)) == 2, "both minutes")
        first, second = samples(path)
        assert (first.webhooks, first.requests, first.platform_times) == (0, 0, "{}")
        assert (second.webhooks, second.commands, second.failed_commands) == (7, 3, 1)
        assert (second.requests, second.failed_requests) == (4, 2)
        assert (second.failed_events, second.quarantined) == (0, 0)
        median = percentile(from_text(second.platform_times), 0.5)
        assert median == pytest.approx(0.5, rel=0.1)
        clock._start += timedelta(days=8)
        await minute(clock)
        await until(lambda: len(samples(path)) == 1, "the week before is gone")
        running.cancel()


async def test_only_the_owner_of_the_database_says_what_waits(tmp_path: Path) -> None:
    clock, path = VirtualClock(), tmp_path / "backhaul.db"
    async with started_store(path, clock) as store:
        gauges = partial(store.gauges.current, [])
        for is_ours in (True, False):
            owns = partial(bool, is_ours)
            sampler = Sampler(store.metric_samples, gauges, Metrics(), clock, owns)
            running = asyncio.create_task(sampler.run())
            await minute(clock)
            await until(partial(has_samples, path, 2 - is_ours), "its row")
            running.cancel()
        owner, other = samples(path)
        assert (owner.events_waiting, other.events_waiting) == (0, None)
        assert owner.member != other.member


async def test_the_rates_are_means_of_five_minutes(tmp_path: Path) -> None:
    clock, metrics = VirtualClock(), Metrics()
    async with started_store(tmp_path / "backhaul.db", clock) as store:
        sampler = Sampler(
            store.metric_samples, lambda: store.gauges.current([]), metrics, clock
        )
        running = asyncio.create_task(sampler.run())
        await clock.await_sleeper(5.0)
        metrics.counter("commands_total")["main", "fulfill", "uncertain"] += 4
        metrics.counter("commands_total")["main", "fulfill", "applied"] += 1
        metrics.counter("commands_total")["main", "fulfill", "planned"] += 1
        metrics.counter("records_total")["courier", "accepted"] += 10
        metrics.counter("records_total")["courier", "duplicate"] += 1
        metrics.counter("deliveries_total")["erp", "applied"] += 15
        for _ in range(5):
            await minute(clock)
        await clock.await_sleeper(5.0)
        shown = sampler.rates()
        assert [shown[name] for name in RATES] == [0, 0, 1, 0.2, 2, 3]
        await minute(clock)
        await clock.await_sleeper(5.0)
        assert set(sampler.rates().values()) == {0}
        running.cancel()


def has_samples(path: Path, number: int) -> bool:
    return len(samples(path)) == number


def samples(path: Path) -> list[MetricSample]:
    with lists(path) as reader:
        return reader.samples("")


async def minute(clock: VirtualClock) -> None:
    """Let a minute pass, as soon as the sampler waits for each of its ticks."""
    for _ in range(12):
        await clock.await_sleeper(5.0)
        await clock.advance(5.0)
