"""Push jobs without a schedule run when commands are planned."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.app.jobs import Jobs
from backhaul.app.schedule import Schedule
from backhaul.push.send_windows import COALESCE_SECONDS
from scenes.databases import locked
from scenes.jobs import runs, settings_of
from scenes.pushing import scene, working
from scenes.scripted_platform import message
from scenes.stored import lists
from scenes.waiting import HANG_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from backhaul.store import Place
    from scenes.pushing import Scene

FULFILL = "push_fulfillments"


@asynccontextmanager
async def running(
    stage: Scene, jobs: Mapping[str, Any] | None = None
) -> AsyncIterator[tuple[Jobs, Schedule]]:
    """Run the jobs of a store as the daemon does; their scheduler is not started."""
    schedule = Schedule(stage.clock, lambda: 0.0)
    known = Jobs(
        settings_of(jobs, eager=True), stage.store.job_runs, stage.clock, schedule
    )
    known.sends("main", stage.dispatcher)
    await known.load()
    try:
        async with working(stage):
            yield known, schedule
    finally:
        schedule.stop()
        await known.close()


def started(place: Place) -> list[tuple[str, str | None]]:
    """Return the jobs that have run, each with what started it last."""
    with lists(place) as reader:
        jobs = reader.jobs().values()
    return [(each.job, each.trigger) for each in jobs if each.started_at]


async def plan(stage: Scene, order: str, kind: str = "fulfill") -> str:
    """Plan a command and say so, as whoever plans one does."""
    command = await stage.plan(kind, order)
    stage.dispatcher.wake()
    return command


async def burst_over(stage: Scene, expected: list[tuple[str, ...]]) -> None:
    """Let the run end, and wait until exactly these runs are written down."""
    for _ in range(3):
        await stage.clock.advance(1)
    await passes_until(stage, lambda: runs(stage.place) == expected, str(expected))


async def passes_until(
    stage: Scene, look: Callable[[], Any], what: str, step: float = 1
) -> None:
    """Move the clock on, `step` seconds at a time, until this is true.

    A thread may answer only after the clock has moved, and what answers may then wait
    for the clock again.
    """
    deadline = monotonic() + HANG_SECONDS
    while not look():
        assert monotonic() < deadline, f"{what}; runs: {runs(stage.place)}"
        await asyncio.sleep(0.01)
        await stage.clock.advance(step)


def run_of(sent: int, job: str = FULFILL) -> tuple[str, str, str, str]:
    return job, "planned", "done", f"sent {sent}"


async def test_the_scheduler_releases_planned_commands(database: Place) -> None:
    async with scene(database) as stage, running(stage) as (_, schedule):
        command = await plan(stage, "ord_1")
        await stage.clock.advance(3_600)
        await stage.await_commands(0)
        schedule.start()
        await stage.await_state(command, "applied")


async def test_a_burst_is_one_run_and_no_command_of_it_waits(database: Place) -> None:
    """All three leave while the clock stands still: no second is waited for."""
    async with scene(database) as stage, running(stage) as (_, schedule):
        schedule.start()
        for number in range(3):
            await stage.await_state(await plan(stage, f"ord_{number}"), "applied")
        assert runs(database) == [], "the burst may go on"
        await burst_over(stage, [run_of(3)])
        assert started(database) == [(FULFILL, "planned")]


async def test_each_burst_is_a_run(database: Place) -> None:
    async with scene(database) as stage, running(stage) as (_, schedule):
        schedule.start()
        await stage.await_state(await plan(stage, "ord_1"), "applied")
        await burst_over(stage, [run_of(1)])
        gates = stage.dispatcher.windows
        closed = "a moment of the past"
        await passes_until(stage, lambda: gates.open_until()["fulfill"] < "9", closed)
        await stage.await_state(await plan(stage, "ord_2", "cancel"), "applied")
        await burst_over(stage, [run_of(1), run_of(1, "push_cancellations")])


async def test_a_run_that_sends_nothing_is_not_recorded(database: Place) -> None:
    async with scene(database) as stage, running(stage) as (_, schedule):
        schedule.start()
        for _ in range(5):
            stage.dispatcher.wake()
            await burst_over(stage, [])
        assert started(database) == []


async def test_an_endless_burst_is_recorded_too(
    database: Place,
) -> None:
    async with scene(database) as stage, running(stage) as (_, schedule):
        schedule.start()
        await stage.await_state(await plan(stage, "ord_1"), "applied")

        def is_recorded() -> bool:
            stage.dispatcher.wake()  # so that the burst never ends by itself
            return runs(database) == [run_of(1)]

        await passes_until(stage, is_recorded, "it is recorded", COALESCE_SECONDS / 2)


async def test_a_command_planned_before_a_restart_is_sent_at_the_start(
    database: Place,
) -> None:
    async with scene(database) as stage:
        command = await stage.plan("fulfill", "ord_1")
    async with scene(database) as stage:
        await stage.clock.advance(60)
        async with running(stage) as (_, schedule):
            schedule.start()
            await stage.await_state(command, "applied")


async def test_the_end_of_the_program_writes_a_run_down(database: Place) -> None:
    async with scene(database) as stage:
        async with running(stage) as (_, schedule):
            schedule.start()
            await stage.await_state(await plan(stage, "ord_1"), "applied")
        assert runs(database) == [run_of(1)]


async def test_a_run_that_cannot_be_written_down_counts_with_the_next(
    database: Place,
) -> None:
    async with scene(database) as stage, running(stage) as (_, schedule):
        schedule.start()
        await stage.await_state(await plan(stage, "ord_1"), "applied")
        with locked(database):
            busy = "it cannot be written down"
            await passes_until(stage, lambda: stage.logged("job.busy"), busy)
        await stage.await_state(await plan(stage, "ord_2"), "applied")
        await burst_over(stage, [run_of(2)])


async def test_a_pause_in_a_run_lets_nothing_more_out(database: Place) -> None:
    async with scene(database) as stage, running(stage) as (jobs, schedule):
        schedule.start()
        await stage.await_state(await plan(stage, "ord_1"), "applied")
        await jobs.pause(FULFILL, None, "otto")
        kept = await plan(stage, "ord_2")
        await burst_over(stage, [run_of(1)])
        await stage.clock.advance(60)
        await stage.await_commands(1)
        await jobs.resume(FULFILL, None, "otto")
        await stage.await_state(kept, "applied")


async def test_quiet_hours_that_begin_in_a_run_hold_back_later_commands(
    database: Place,
) -> None:
    async with scene(database) as stage:
        zone = Schedule(stage.clock, lambda: 0.0).zone
        noon = stage.clock.now().astimezone(zone)
        hours = [f"{noon + timedelta(minutes=later):%H:%M}" for later in (1, 10)]
        own = {"quiet": "-".join(hours), "eager": True}
        async with running(stage, {FULFILL: own}) as (_, schedule):
            schedule.start()
            await stage.clock.advance(59.5)
            await stage.await_state(await plan(stage, "ord_1"), "applied")
            await stage.clock.advance(0.75)
            kept = await plan(stage, "ord_2")
            await burst_over(stage, [run_of(1)])
            await stage.await_commands(1)
            assert stage.state(kept) == "planned"
            await stage.pass_time(600)
            await stage.await_state(kept, "applied")


async def test_a_retry_waits_for_no_run(database: Place) -> None:
    async with scene(database) as stage, running(stage) as (_, schedule):
        schedule.start()
        stage.platform.respond("/orders/ord_1/fulfill", message(429, Retry_After="60"))
        command = await plan(stage, "ord_1")
        await stage.await_commands(1)
        await until(lambda: stage.state(command) == "planned", "it waits")
        stage.platform.responses.clear()
        await burst_over(stage, [run_of(1)])
        await stage.pass_time(62)
        await stage.await_state(command, "applied")


NOW = datetime.now(UTC)
IN_HALF_A_YEAR = f"0 3 1 {(NOW.month + 5) % 12 + 1} *"


@pytest.mark.parametrize(
    "written",
    [{"every": "30d"}, {"trigger": "cron", "cron": IN_HALF_A_YEAR}],
    ids=("interval", "cron"),
)
async def test_a_reload_changes_between_runs_on_demand_and_a_schedule(
    database: Place, written: dict[str, str]
) -> None:
    # Of this machine's time: that is what APScheduler goes by.
    async with scene(database, start=NOW) as stage, running(stage) as (jobs, schedule):
        schedule.start()
        assert schedule.next_runs() == {}
        await jobs.replan(settings_of({FULFILL: written}, eager=True))
        assert list(schedule.next_runs()) == [f"{FULFILL}:main"]
        await stage.await_commands(0)  # a claim that began before the reload is over
        await stage.clock.advance(1)
        kept = await plan(stage, "ord_1")
        await stage.clock.advance(60)
        await stage.await_commands(0)
        await jobs.replan(settings_of(eager=True))
        assert schedule.next_runs() == {}
        await stage.await_state(kept, "applied")
