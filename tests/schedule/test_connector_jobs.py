"""Jobs poll connectors: cron, quiet hours, pauses, and missed runs."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.app.jobs import Jobs, plans
from backhaul.app.schedule import Schedule
from backhaul.connect.polling import PollSchedule
from backhaul.core.quiet_hours import QuietHours
from backhaul.errors import BackhaulError
from backhaul.settings import Settings
from backhaul.settings.jobs import polling_job
from backhaul_sdk import Batch
from scenes.back_office import ScriptedConnector, fulfillment_record, host_of
from scenes.clock import SettableClock, VirtualClock, run_ready_tasks
from scenes.databases import started_store
from scenes.jobs import STORE, runs
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

JOB = "connector_erp"
HOUR = timedelta(hours=1)
AT_SIX = {"trigger": "cron", "cron": "0 6 * * *"}


def settings_of(**schedule: Any) -> Settings:
    connector = {"type": "desk", "store": "main", **schedule}
    return Settings.model_validate(
        {"stores": {"main": STORE}, "connectors": {"erp": connector}}
    )


def quiet_around(moment: datetime, hours: int) -> str:
    """Return quiet hours of this machine's zone from an hour before a moment."""
    local = moment.astimezone()
    begin, end = local - HOUR, local + hours * HOUR
    return f"{begin:%H:%M}-{end:%H:%M}"


@dataclass(slots=True)
class Life:
    """One life of the daemon's jobs, and the desk that one of them polls."""

    path: Path
    jobs: Jobs
    schedule: Schedule
    desk: ScriptedConnector

    def runs(self) -> list[tuple[Any, ...]]:
        return runs(self.path)

    async def polled(self) -> int:
        """Return how often the desk was polled, once all that is due has run."""
        for _ in range(5):
            await run_ready_tasks()
            await asyncio.to_thread(runs, self.path)
        return len(self.desk.cursors)


@asynccontextmanager
async def life(
    path: Path, settings: Settings, later: timedelta = timedelta(), *batches: Any
) -> AsyncIterator[Life]:
    """Run the jobs at this time or `later`, when nothing is started."""
    clock = SettableClock(datetime.now(UTC) + later)
    schedule, desk = Schedule(clock, lambda: 0.0), ScriptedConnector("erp")
    desk.waiting += batches
    async with started_store(path, clock) as store:
        jobs = Jobs(settings, store.job_runs, clock, schedule)
        report = jobs.reporter(polling_job("erp"))
        host = host_of(desk, store, every_seconds=None, clock=clock, report=report)
        jobs.polls("erp", host.polls)
        await jobs.load()
        if not later:
            schedule.start()
        task = asyncio.create_task(host.run())
        try:
            yield Life(path, jobs, schedule, desk)
        finally:
            schedule.stop()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "backhaul.db"


async def test_a_cron_line_that_was_missed_polls_once_and_is_written_down(
    path: Path,
) -> None:
    settings, batch = (
        settings_of(**AT_SIX),
        Batch(records=[fulfillment_record()], cursor="1"),
    )
    async with life(path, settings, -100 * HOUR):
        pass
    async with life(path, settings, timedelta(), batch) as now:
        await until(lambda: "done" in str(now.runs()), "the poll is over")
        assert await now.polled() == 1
        assert now.runs() == [(JOB, "catch_up", "done", "1 waiting")]
    async with life(path, settings) as now:
        assert await now.polled() == 0


async def test_an_interval_polls_at_every_start_and_writes_nothing_down(
    path: Path,
) -> None:
    settings = settings_of(every="1h")
    for _ in range(2):
        async with life(path, settings) as now:
            await until(lambda: bool(now.desk.cursors), "the poll of the start")
            assert await now.polled() == 1
            assert now.runs() == []


async def test_no_connector_is_polled_in_quiet_hours(path: Path) -> None:
    now = datetime.now(UTC)
    settings = settings_of(every="2s", quiet=quiet_around(now, 2))
    async with life(path, settings) as quiet:
        assert await quiet.polled() == 0
        following = quiet.schedule.next_runs()[JOB]
        assert following is not None
        assert HOUR < following - now <= 2 * HOUR


async def test_a_paused_connector_rests_over_a_restart_and_runs_on_request(
    path: Path,
) -> None:
    settings = settings_of(every="2s")
    async with life(path, settings, -HOUR) as before:
        await before.jobs.pause(JOB, None, "me")
    async with life(path, settings) as now:
        assert await now.polled() == 0
        assert now.schedule.next_runs() == {}
        (done,) = await now.jobs.run(JOB, None, "me")
        assert done == {"job": JOB, "store": "", "done": "started"}
        await until(lambda: "done" in str(now.runs()), "the poll is over")
        assert now.runs() == [(JOB, "person", "done", "nothing new")]
        await now.jobs.resume(JOB, None, "me")
        assert JOB in now.schedule.next_runs()


async def test_a_poll_that_fails_is_retried_and_its_run_says_why(path: Path) -> None:
    settings = settings_of(**AT_SIX)
    async with life(path, settings, -100 * HOUR):
        pass
    async with life(path, settings, timedelta(), OSError("no route")) as now:
        await until(lambda: "failed" in str(now.runs()), "the poll has failed")
        assert now.runs() == [(JOB, "catch_up", "failed", "OSError: no route")]


async def test_an_unknown_connector_is_refused_with_those_there_are(
    path: Path,
) -> None:
    async with life(path, settings_of(), -HOUR) as now:
        with pytest.raises(BackhaulError, match=JOB):
            await now.jobs.pause("connector_nobody", None, "me")


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ({}, "every 2s"),
        ({"every": "5m", "jitter": "30s"}, "every 5m, up to 30s later"),
        (AT_SIX, "cron 0 6 * * *"),
        ({**AT_SIX, "quiet": "22:00-06:00"}, "cron 0 6 * * *, not 22:00-06:00"),
    ],
)
def test_the_lists_say_when_a_connector_is_polled(
    schedule: dict[str, str], words: str
) -> None:
    assert plans(settings_of(**schedule))[JOB] == words


def test_a_connector_that_is_not_enabled_is_no_job() -> None:
    assert JOB not in plans(settings_of(enabled=False))


@pytest.mark.parametrize(
    "schedule", [{"cron": "0 6 * * *"}, {"trigger": "cron"}, {**AT_SIX, "every": "5m"}]
)
def test_settings_without_effect_are_refused(schedule: dict[str, str]) -> None:
    with pytest.raises(
        ValueError, match=r"cron|every, which applies only with trigger"
    ):
        settings_of(**schedule)


class TestPolls:
    """What is owed after a failure, in virtual time."""

    async def next(self, polls: PollSchedule) -> asyncio.Task[bool]:
        task = asyncio.create_task(polls.next(lambda: None))
        await run_ready_tasks()
        return task

    async def begun(self, clock: VirtualClock) -> PollSchedule:
        polls = PollSchedule(clock, None)
        assert not await polls.next(lambda: None)
        polls.succeeded(polled=False)
        return polls

    async def test_a_due_poll_does_not_cut_the_wait_after_a_failure(self) -> None:
        clock = VirtualClock()
        polls = await self.begun(clock)
        polls.fall_due()
        assert await polls.next(lambda: None)
        polls.failed(60.0)
        task = await self.next(polls)
        polls.fall_due()
        await clock.advance(59.0)
        assert not task.done()
        await clock.advance(1.0)
        assert await task

    async def test_an_operator_ends_a_pause_between_polls(self) -> None:
        polls = await self.begun(VirtualClock())
        polls.failed(60.0)
        task = await self.next(polls)
        polls.wake()
        assert await task

    async def test_an_overdue_poll_waits_for_the_end_of_quiet_hours(self) -> None:
        clock = VirtualClock()
        polls = await self.begun(clock)
        begin = (clock.now() + timedelta(seconds=30)).time()
        end = (clock.now() + timedelta(seconds=330)).time()
        polls.set_quiet(QuietHours(((begin, end),), UTC))
        polls.fall_due()
        assert await polls.next(lambda: None)
        polls.failed(60.0)
        task = await self.next(polls)
        await clock.advance(60.0)
        assert not await task
        polls.succeeded(polled=False)
        task = await self.next(polls)
        await clock.advance(269.0)
        assert not task.done()
        await clock.advance(1.0)
        assert await task

    async def test_a_pause_cancels_an_overdue_poll(self) -> None:
        clock = VirtualClock()
        polls = await self.begun(clock)
        polls.fall_due()
        assert await polls.next(lambda: None)
        polls.failed(60.0)
        polls.pause("2026-01-01T00:00:00.000Z")
        task = await self.next(polls)
        await clock.advance(60.0)
        assert not await task
