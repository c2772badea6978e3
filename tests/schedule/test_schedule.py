"""Scheduled jobs: their triggers, and late runs, which are made up for once."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from backhaul.app.schedule import WATCH_SECONDS, Schedule
from backhaul.core.clock import SystemClock
from backhaul.settings.jobs import Job
from scenes.clock import SettableClock, VirtualClock, run_ready_tasks
from scenes.waiting import HANG_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def schedule() -> Iterator[Schedule]:
    made = Schedule(SystemClock(), lambda: 0.0)
    yield made
    made.stop()


async def never(_: datetime) -> None:
    pytest.fail("this job is not due")


def job(**settings: object) -> Job:
    return Job.model_validate(settings)


def cron(line: str) -> Job:
    return job(trigger="cron", cron=line)


async def test_interval_calls_again_and_again(schedule: Schedule) -> None:
    calls = asyncio.Semaphore(0)

    async def call(_: datetime) -> None:
        calls.release()

    schedule.add("quick", job(every="10ms"), call)
    schedule.start()
    for _ in range(3):
        await calls.acquire()


async def test_late_runs_are_made_up_for_once(schedule: Schedule) -> None:
    """A machine that slept for sixty runs owes one call, not sixty or none."""
    calls = 0
    called = asyncio.Event()

    async def call(_: datetime) -> None:
        nonlocal calls
        calls += 1
        called.set()

    last = datetime.now(UTC) - timedelta(hours=1, seconds=30)
    schedule.add("late", job(every="1m"), call, last)
    schedule.start()
    await called.wait()
    await run_ready_tasks()
    assert calls == 1
    next_run = schedule.next_runs()["late"]
    assert next_run is not None
    assert next_run > datetime.now(UTC)


async def test_disabled_job_never_runs(schedule: Schedule) -> None:
    schedule.add("off", Job(enabled=False), never)
    schedule.add("on", Job(), never)
    schedule.start()
    assert list(schedule.next_runs()) == ["on"]


async def test_next_runs_before_and_after_the_start(schedule: Schedule) -> None:
    schedule.add("hourly", cron("0 * * * *"), never)
    planned = schedule.next_runs()
    schedule.start()
    assert schedule.next_runs() == planned
    run = schedule.next_runs()["hourly"]
    assert run is not None
    assert (run.minute, run.second) == (0, 0)
    assert timedelta() < run - datetime.now(UTC) <= timedelta(hours=1)


async def test_interval_starts_one_interval_from_now(schedule: Schedule) -> None:
    schedule.add("slow", job(every="10m"), never)
    schedule.start()
    run = schedule.next_runs()["slow"]
    assert run is not None
    left = run - datetime.now(UTC)
    assert timedelta(seconds=590) < left <= timedelta(seconds=600)


async def test_stop_may_come_early_or_twice() -> None:
    schedule = Schedule(SystemClock(), lambda: 0.0)
    schedule.stop()
    schedule.add("job", Job(), never)
    schedule.start()
    schedule.stop()
    schedule.stop()


async def test_a_request_for_a_job_that_was_removed_is_ignored(
    schedule: Schedule,
) -> None:
    """A store that is given up still finishes its work, which may request runs."""

    async def call() -> None:
        pytest.fail("this job was removed")

    start = schedule.on_demand("push", call)
    schedule.start()
    schedule.remove_all("push")
    start(None)
    await run_ready_tasks()


async def test_job_that_fails_runs_again(schedule: Schedule) -> None:
    calls = asyncio.Semaphore(0)

    async def fail(_: datetime) -> None:
        calls.release()
        raise ZeroDivisionError

    schedule.add("failing", job(every="10ms"), fail)
    schedule.start()
    for _ in range(2):
        await calls.acquire()


async def test_a_call_receives_its_due_time(schedule: Schedule) -> None:
    told = asyncio.get_running_loop().create_future()

    async def call(due: datetime) -> None:
        told.set_result((due, asyncio.current_task() is not None))

    last = datetime.now(UTC) - timedelta(hours=1)
    schedule.add("owed", job(every="20m"), call, last)
    schedule.start()
    assert await told == (last + timedelta(minutes=20), True)


async def test_an_overdue_job_runs_at_once(schedule: Schedule) -> None:
    told = asyncio.get_running_loop().create_future()

    async def call(due: datetime) -> None:
        told.set_result(due)

    owed = datetime.now(UTC) - timedelta(hours=1)
    schedule.add("owed", job(every="6h"), call, owed, owed)
    schedule.start()
    assert await told == owed


async def test_a_job_made_overdue_by_a_clock_set_back_runs_at_once(
    schedule: Schedule,
) -> None:
    """Or a run cut off by a kill would come a day late, and no other before it."""
    now = datetime.now(UTC)
    told = asyncio.get_running_loop().create_future()

    async def call(due: datetime) -> None:
        told.set_result(due)

    ahead = now + timedelta(days=1)
    schedule.add("owed", job(every="90s"), call, ahead, ahead)
    schedule.start()
    async with asyncio.timeout(HANG_SECONDS):
        assert now <= await told < ahead


async def test_an_overdue_job_waits_for_the_end_of_quiet_hours(
    schedule: Schedule,
) -> None:
    now = datetime.now(schedule.zone)
    hours = [f"{now + timedelta(hours=h):%H:%M}" for h in (-1, 1)]
    last = now - timedelta(days=2)
    schedule.add("owed", job(every="6h", quiet="-".join(hours)), never, last)
    schedule.start()
    run = schedule.next_runs()["owed"]
    assert run is not None
    assert f"{run.astimezone(schedule.zone):%H:%M}" == hours[1]


JUMPS = [
    (-3_600, "interval", -3_600),
    (-86_400, "interval", -86_400),
    (-3_600, "cron", 0),
    (-86_400, "cron", 0),
    (3_600, "interval", 0),
    (-1, "interval", 0),
]


@pytest.mark.parametrize(("jump", "kind", "moved"), JUMPS)
async def test_a_clock_set_back_moves_intervals_only(
    jump: int, kind: str, moved: int
) -> None:
    """A time of the calendar that has run does not come again for its job."""
    clock = SettableClock(datetime.now(UTC))
    schedule = Schedule(clock, lambda: 0.0)
    task = job(every="30d") if kind == "interval" else cron("0 0 1 1 *")
    schedule.add("job", task, never)
    schedule.start()
    watch = asyncio.ensure_future(schedule.watch())
    try:
        await clock.await_sleeper(WATCH_SECONDS)
        before = schedule.next_runs()["job"]
        assert before is not None
        clock.set_by(jump)
        await clock.advance(WATCH_SECONDS)
        assert schedule.next_runs()["job"] == before + timedelta(seconds=moved)
    finally:
        watch.cancel()
        schedule.stop()


async def test_a_job_due_during_its_own_run_runs_once_after_it(
    schedule: Schedule,
) -> None:
    calls: list[datetime] = []
    first, release = asyncio.Event(), asyncio.Event()

    async def call(due: datetime) -> None:
        calls.append(due)
        first.set()
        await release.wait()
        if len(calls) == 2:
            schedule.remove("slow")

    began = datetime.now(UTC)
    schedule.add("slow", job(every="20ms"), call)
    schedule.start()
    await first.wait()
    later = calls[0] + timedelta(milliseconds=200)
    await until(lambda: datetime.now(UTC) > later, "it fell due several times")
    assert len(calls) == 1
    release.set()
    await until(lambda: len(calls) >= 2, "what was owed is called")
    assert began < calls[1] < later, "the first that was owed"


@pytest.mark.parametrize("when", [{"every": "1h"}, {"cron": "0 * * * *"}], ids=str)
async def test_a_job_is_missed_twice_once_two_runs_have_passed(
    when: dict[str, str],
) -> None:
    clock = VirtualClock()
    schedule, last = Schedule(clock, lambda: 0.0), clock.now()
    trigger = "cron" if "cron" in when else "interval"
    schedule.add("backup", job(trigger=trigger, **when), never)
    await clock.advance(7_200)
    assert not schedule.missed_twice("backup", last)
    await clock.advance(1)
    assert schedule.missed_twice("backup", last)
    assert not schedule.missed_twice("another", last)
