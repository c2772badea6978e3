"""Scheduled jobs: triggers as written, and late runs made up for once."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from backhaul.schedule import Schedule
from backhaul.settings.jobs import Job
from support.clock import settle_down

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def schedule() -> Iterator[Schedule]:
    made = Schedule()
    yield made
    made.stop()


def job(**settings: object) -> Job:
    return Job.model_validate(settings)


def cron(line: str) -> Job:
    return job(trigger="cron", cron=line)


async def test_interval_calls_again_and_again(schedule: Schedule) -> None:
    calls = asyncio.Semaphore(0)
    schedule.add("quick", job(every="10ms"), calls.release)
    schedule.start()
    for _ in range(3):
        await calls.acquire()


async def test_late_runs_are_made_up_for_once(schedule: Schedule) -> None:
    """A machine that slept for sixty runs owes one call, not sixty or none."""
    calls = 0
    called = asyncio.Event()

    def call() -> None:
        nonlocal calls
        calls += 1
        called.set()

    schedule.add("late", job(every="1m"), call)
    schedule.start()
    overdue = datetime.now(UTC) - timedelta(hours=1, seconds=30)
    schedule._scheduler.modify_job("late", next_run_time=overdue)
    await called.wait()
    await settle_down()
    assert calls == 1
    next_run = schedule.next_runs()["late"]
    assert next_run is not None
    assert next_run > datetime.now(UTC)


async def test_disabled_job_never_runs(schedule: Schedule) -> None:
    schedule.add("off", Job(enabled=False), pytest.fail)
    schedule.add("on", Job(), pytest.fail)
    schedule.start()
    assert list(schedule.next_runs()) == ["on"]


async def test_next_runs_before_and_after_the_start(schedule: Schedule) -> None:
    schedule.add("hourly", cron("0 * * * *"), pytest.fail)
    assert schedule.next_runs() == {"hourly": None}
    schedule.start()
    run = schedule.next_runs()["hourly"]
    assert run is not None
    assert (run.minute, run.second) == (0, 0)
    assert timedelta() < run - datetime.now(UTC) <= timedelta(hours=1)


async def test_interval_starts_one_interval_from_now(schedule: Schedule) -> None:
    schedule.add("slow", job(every="10m"), pytest.fail)
    schedule.start()
    run = schedule.next_runs()["slow"]
    assert run is not None
    left = run - datetime.now(UTC)
    assert timedelta(seconds=590) < left <= timedelta(seconds=600)


async def test_stop_may_come_early_or_twice() -> None:
    schedule = Schedule()
    schedule.stop()
    schedule.add("job", Job(), pytest.fail)
    schedule.start()
    schedule.stop()
    schedule.stop()


async def test_job_that_fails_runs_again(schedule: Schedule) -> None:
    calls = asyncio.Semaphore(0)

    def fail() -> None:
        calls.release()
        raise ZeroDivisionError

    schedule.add("failing", job(every="10ms"), fail)
    schedule.start()
    for _ in range(2):
        await calls.acquire()
