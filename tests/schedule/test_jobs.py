"""Jobs over restarts: a missed run is made up for once, and a pause continues."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from backhaul.app.jobs import Jobs
from backhaul.app.schedule import Schedule
from backhaul.core.clock import to_text
from backhaul.errors import BackhaulError, Busy
from backhaul.store.operations import JobRun, Trigger
from scenes.clock import VirtualClock, run_ready_tasks
from scenes.databases import locked, started_store
from scenes.jobs import program, settings_of
from scenes.pushing import scene, working
from scenes.scripted_platform import message
from scenes.stored import job_runs, job_state
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from scenes.jobs import Program
    from scenes.pushing import Scene

HOUR = timedelta(hours=1)
POLL = ("reconcile_incremental", "main")
EACH_HOUR = settings_of({"reconcile_incremental": {"every": "1h"}})
AT_SIX = {"trigger": "cron", "cron": "0 6 * * *"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "backhaul.db"


async def settled(life: Program) -> None:
    """Let what is due be run and written down."""
    for _ in range(3):
        await life.store.kv.get("whatever")
        await run_ready_tasks()


@pytest.mark.parametrize("job", [{"every": "1h"}, AT_SIX], ids=str)
async def test_missed_runs_are_made_up_for_once(
    path: Path, job: dict[str, str]
) -> None:
    settings = settings_of({"reconcile_incremental": job})
    async with program(path, settings, -100 * HOUR):
        pass
    async with program(path, settings) as life:
        await until(life.runs, "the run is written down")
        await settled(life)
        assert len(life.polled) == 1
        assert life.runs() == [(POLL[0], "catch_up", "running", "")]
        next_run = life.schedule.next_runs()["reconcile_incremental:main"]
        assert next_run is not None
        assert next_run > life.clock.now()
        await life.jobs._ended(POLL, to_text(life.clock.now()), "all read")
    async with program(path, settings) as life:
        await settled(life)
        assert life.polled == []


async def test_an_interval_goes_on_where_the_last_program_ended(path: Path) -> None:
    """Or else a program restarted every half hour would never do hourly work."""
    async with program(path, EACH_HOUR, -HOUR / 2):
        pass
    async with program(path, EACH_HOUR) as life:
        next_run = life.schedule.next_runs()["reconcile_incremental:main"]
        assert next_run is not None
        assert abs(next_run - life.clock.now() - HOUR / 2) < timedelta(seconds=9)
        await settled(life)
        assert life.polled == []


async def test_a_failed_run_waits_for_its_next_time(path: Path) -> None:
    """Not for the next start: what fails at once would then fail at every one."""
    async with program(path, EACH_HOUR) as life:
        life.jobs.does("backup", "", lambda: None)
        told = life.jobs.reporter("backup")
        await life.jobs.run("backup", None, "otto")
        await told(to_text(life.clock.now()), "no space left", failed=True)
        assert life.runs() == [("backup", "person", "failed", "no space left")]
    async with started_store(path) as store:
        states = await store.job_runs.register({("backup", ""): "every 1h"})
        assert not states["backup", ""].interrupted
    state = job_state(path, "backup")
    assert (state.outcome, state.detail) == ("failed", "no space left")


async def test_an_interrupted_run_is_repeated(path: Path) -> None:
    async with program(path, EACH_HOUR) as life:
        await life.jobs.run("reconcile_incremental", None, "otto")
        assert len(life.polled) == 1
    async with program(path, EACH_HOUR) as life:
        await until(lambda: life.polled, "it is begun again")
        await settled(life)
        assert [run[1:3] for run in life.runs()] == [
            ("person", "interrupted"),
            ("schedule", "running"),
        ]


async def test_a_run_that_ended_is_not_begun_again(path: Path) -> None:
    async with program(path, EACH_HOUR) as life:
        await life.jobs.run("reconcile_incremental", None, "otto")
        await life.jobs._ended(POLL, to_text(life.clock.now()), "read 4 of 4 lists")
        expected = [(POLL[0], "person", "done", "read 4 of 4 lists")]
        await until(lambda: life.runs() == expected, "its end is written down")
    async with program(path, EACH_HOUR) as life:
        await settled(life)
        assert life.polled == []


async def test_the_end_of_earlier_work_is_not_the_end_of_a_run(path: Path) -> None:
    async with program(path, EACH_HOUR) as life:
        earlier = to_text(life.clock.now() - timedelta(seconds=1))
        await life.jobs.run("reconcile_incremental", None, "otto")
        await life.jobs._ended(POLL, earlier, "begun before")
        await settled(life)
        assert life.runs() == [(POLL[0], "person", "running", "")]


async def test_a_changed_time_owes_nothing(path: Path) -> None:
    async with program(path, EACH_HOUR, -100 * HOUR):
        pass
    changed = settings_of({"reconcile_incremental": {"every": "2h"}})
    async with program(path, changed) as life:
        await settled(life)
        assert life.polled == []


async def test_a_rescheduled_job_is_overdue_by_its_new_schedule(path: Path) -> None:
    """A reload is no restart, yet the next start must not take it for a change."""
    before = settings_of({"reconcile_incremental": AT_SIX})
    async with program(path, before, -100 * HOUR) as life:
        await life.jobs.replan(EACH_HOUR)
    async with program(path, EACH_HOUR) as life:
        await until(life.runs, "the run is written down")
        assert life.runs() == [(POLL[0], "catch_up", "running", "")]


async def test_a_reload_that_cannot_be_written_down_changes_nothing(
    path: Path,
) -> None:
    async with program(path, EACH_HOUR) as life:
        before = life.jobs.status()
        with locked(path), pytest.raises(Busy):
            await life.jobs.replan(settings_of({"reconcile_incremental": AT_SIX}))
        assert life.jobs.status() == before


async def test_pause_outlives_the_program(path: Path) -> None:
    async with program(path, EACH_HOUR, -100 * HOUR) as life:
        await life.jobs.pause("reconcile_incremental", None, "otto")
        assert life.schedule.next_runs() == {}
    async with program(path, EACH_HOUR) as life:
        await settled(life)
        assert life.polled == []
        assert life.schedule.next_runs() == {}
        await life.jobs.resume("reconcile_incremental", None, "otto")
        assert list(life.schedule.next_runs()) == ["reconcile_incremental:main"]
        await settled(life)
        assert life.polled == []
    async with program(path, EACH_HOUR) as life:
        await settled(life)
        assert life.polled == [], "what was missed in a pause is not owed"


async def test_a_resume_without_a_pause_puts_nothing_off(path: Path) -> None:
    async with program(path, EACH_HOUR, -HOUR / 2):
        pass
    async with program(path, EACH_HOUR) as life:
        before = life.schedule.next_runs()
        await life.jobs.resume("reconcile_incremental", None, "otto")
        assert life.schedule.next_runs() == before


async def test_an_unknown_job_is_refused_with_the_known_ones(path: Path) -> None:
    settings = settings_of(stores=("main", "other"))
    async with program(path, settings) as life:
        with pytest.raises(BackhaulError, match="the jobs are: prune, backup, push_"):
            await life.jobs.run("push_orders", None, "otto")
        with pytest.raises(BackhaulError, match="the stores with this job are: main"):
            await life.jobs.pause("push_fulfillments", "x", "otto")
        with pytest.raises(BackhaulError, match="not a job of one store; leave out"):
            await life.jobs.resume("prune", "main", "otto")
        done = await life.jobs.pause("reconcile_incremental", "other", "otto")
        assert done == [
            {"job": "reconcile_incremental", "store": "other", "done": "paused"}
        ]
        assert list(life.schedule.next_runs()) == ["reconcile_incremental:main"]


async def gated(stage: Scene, *, eager: bool = False) -> Jobs:
    """Let the jobs open the gates of a dispatcher, as the daemon does at its start."""
    jobs = Jobs(settings_of(eager=eager), stage.store.job_runs, stage.clock)
    jobs.sends("main", stage.dispatcher)
    await jobs.load()
    return jobs


STRICT = settings_of().push


async def test_a_retry_after_a_restart_waits_for_no_trigger(path: Path) -> None:
    async with scene(path, STRICT) as stage:
        jobs = await gated(stage)
        stage.platform.respond("/orders/ord_1/fulfill", message(429, Retry_After="60"))
        retried = await stage.plan("fulfill", "ord_1")
        async with working(stage):
            await jobs.run("push_fulfillments", None, "otto")
            await stage.await_commands(1)
            await until(lambda: stage.state(retried) == "planned", "it waits")
            await stage.pass_time(1)
        later = await stage.plan("fulfill", "ord_2")
    async with scene(path, STRICT) as stage:
        await gated(stage)
        async with working(stage):
            await stage.pass_time(61)
            await stage.await_state(retried, "applied")
            await stage.await_commands(1)
            assert stage.state(later) == "planned", "its gate was not opened yet"


@pytest.mark.parametrize("eager", [True, False])
async def test_a_paused_kind_does_not_leave_until_it_is_let_out(
    path: Path, eager: bool
) -> None:
    push = settings_of(eager=eager).push
    async with scene(path, push) as stage:
        jobs = await gated(stage, eager=eager)
        await jobs.pause("push_cancellations", None, "otto")
    async with scene(path, push) as stage:
        jobs = await gated(stage, eager=eager)
        await stage.pass_time(1)
        paused = await stage.plan("cancel", "ord_1")
        async with working(stage):
            await stage.await_commands(0)
            await stage.pass_time(1)
            assert await jobs.run("push_cancellations", "main", "otto") == [
                {"job": "push_cancellations", "store": "main", "done": "sent 1"}
            ]
            await stage.await_state(paused, "applied")
            await stage.pass_time(1)
            after = await stage.plan("cancel", "ord_2")
            await stage.pass_time(60)
            await stage.await_commands(1)
            await jobs.resume("push_cancellations", None, "otto")
            if not eager:
                await stage.await_commands(1)
                stage.open_window("cancel")
            await stage.await_state(after, "applied")


async def test_a_run_counts_the_commands_it_sent(path: Path) -> None:
    async with scene(path, STRICT) as stage:
        jobs = await gated(stage)
        for number in range(3):
            await stage.plan("cancel", f"ord_{number}")
        async with working(stage):
            assert await ran(jobs) == "sent 3"
            assert await ran(jobs) == "sent 0"


RESTORED = "the database was restored: what was sent before is being read"


async def test_a_run_names_the_guard_after_a_restore(path: Path) -> None:
    async with scene(path, STRICT) as stage:
        jobs = await gated(stage)
        stage.dispatcher.switch.hold_for_audit(RESTORED)
        await stage.plan("cancel", "ord_1")
        async with working(stage):
            assert await ran(jobs) == f"sent 0, 1 waiting: {RESTORED}"
            await stage.await_commands(0)


async def test_a_run_names_the_reason_for_stopped_sending(path: Path) -> None:
    async with scene(path, STRICT) as stage:
        jobs = await gated(stage)
        stage.dispatcher.switch.block("cancel", "403 INSUFFICIENT_SCOPE")
        await stage.plan("cancel", "ord_1")
        async with working(stage):
            assert await ran(jobs) == "sent 0, 1 waiting: 403 INSUFFICIENT_SCOPE"


async def test_a_run_names_the_pause_of_a_rate_limit(path: Path) -> None:
    async with scene(path, STRICT) as stage:
        jobs = await gated(stage)
        throttled = message(429, Retry_After="3600")
        stage.platform.respond("/orders/ord_1/cancel", throttled)
        await stage.plan("cancel", "ord_1")
        async with working(stage):
            assert (await ran(jobs)).startswith("sent 1, 0 waiting: paused until 2026-")
            await stage.plan("cancel", "ord_2")
            assert (await ran(jobs)).startswith("sent 0, 1 waiting: paused until 2026-")


async def test_a_run_names_the_dry_run(path: Path) -> None:
    async with scene(path, STRICT, dry_run=["*"]) as stage:
        jobs = await gated(stage)
        jobs._dry_run = ("*",)
        await stage.plan("cancel", "ord_1")
        async with working(stage):
            assert await ran(jobs) == "sent 0, 1 waiting: a dry run is on"


async def ran(jobs: Jobs) -> str:
    (done,) = await jobs.run("push_cancellations", "main", "otto")
    return str(done["done"])


async def test_a_restart_releases_nothing_of_a_job_paused_again(path: Path) -> None:
    async with scene(path, STRICT) as stage:
        jobs = await gated(stage)
        await jobs.pause("push_cancellations", None, "otto")
        backlog = await stage.plan("cancel", "ord_1")
        await stage.pass_time(1)
        await jobs.run("push_cancellations", None, "otto")
        await stage.pass_time(1)
        await jobs.pause("push_cancellations", None, "otto")
        assert stage.dispatcher.windows.open_until() == {}
    async with scene(path, STRICT) as stage:
        await stage.pass_time(10)
        await gated(stage)
        assert stage.dispatcher.windows.open_until() == {}
        assert stage.state(backlog) == "planned"


@asynccontextmanager
async def running(schedule: Schedule) -> AsyncIterator[None]:
    schedule.start()
    try:
        yield
    finally:
        schedule.stop()


async def test_eager_send_windows_close_in_quiet_hours(path: Path) -> None:
    async with scene(path) as stage:
        schedule = Schedule(stage.clock, lambda: 0.0)
        noon = stage.clock.now().astimezone(schedule.zone)
        hours = [f"{noon + timedelta(minutes=later):%H:%M}" for later in (5, 60)]
        settings = settings_of(
            {"push_fulfillments": {"quiet": "-".join(hours), "eager": True}},
            eager=True,
        )
        jobs = Jobs(settings, stage.store.job_runs, stage.clock, schedule)
        jobs.sends("main", stage.dispatcher)
        await jobs.load()
        async with working(stage), running(schedule):
            early = await stage.plan("fulfill", "ord_1")
            stage.dispatcher.wake()
            await stage.await_state(early, "applied")
            await stage.pass_time(6 * 60)
            late = await stage.plan("fulfill", "ord_2")
            urgent = await stage.plan("cancel", "ord_3")
            stage.dispatcher.wake()
            await stage.await_state(urgent, "applied")
            await stage.await_commands(2)
            await stage.pass_time(54 * 60)
            await stage.await_state(late, "applied")


YEARLY = {"trigger": "cron", "cron": "0 3 1 1 *"}


async def test_a_written_schedule_is_the_only_time_at_which_its_kind_leaves(
    path: Path,
) -> None:
    async with scene(path) as stage:
        settings = settings_of({"push_cancellations": YEARLY}, eager=True)
        jobs = Jobs(settings, stage.store.job_runs, stage.clock)
        jobs.sends("main", stage.dispatcher)
        await jobs.load()
        kept = await stage.plan("cancel", "ord_1")
        async with working(stage):
            sent = await stage.plan("fulfill", "ord_2")
            stage.dispatcher.wake()
            await stage.await_state(sent, "applied")
            await stage.pass_time(86_400)
            await stage.await_commands(1)
            assert stage.state(kept) == "planned"
            await jobs._due(("push_cancellations", "main"), stage.clock.now())
            await stage.await_state(kept, "applied")


async def test_a_reload_that_removes_the_schedule_releases_waiting_commands(
    path: Path,
) -> None:
    async with scene(path) as stage:
        scheduled = settings_of({"push_cancellations": YEARLY}, eager=True)
        jobs = Jobs(scheduled, stage.store.job_runs, stage.clock)
        jobs.sends("main", stage.dispatcher)
        await jobs.load()
        kept = await stage.plan("cancel", "ord_1")
        async with working(stage):
            await stage.await_commands(0)
            await jobs.replan(settings_of(eager=True))
            await stage.await_state(kept, "applied")


@pytest.mark.parametrize("written", [YEARLY, {"every": "5s"}], ids=str)
async def test_a_reload_with_a_schedule_lets_only_retries_out_before_it(
    path: Path, written: dict[str, str]
) -> None:
    """`every = "5s"` is what the job has anyhow, but it was not written before."""
    async with scene(path) as stage:
        jobs = Jobs(settings_of(eager=True), stage.store.job_runs, stage.clock)
        jobs.sends("main", stage.dispatcher)
        await jobs.load()
        stage.platform.respond("/orders/ord_1/cancel", message(429, Retry_After="60"))
        retried = await stage.plan("cancel", "ord_1")
        async with working(stage):
            await stage.await_commands(1)
            await until(lambda: stage.state(retried) == "planned", "it waits")
            stage.platform.responses.clear()
            await jobs.replan(settings_of({"push_cancellations": written}, eager=True))
            await stage.pass_time(1)
            kept = await stage.plan("cancel", "ord_2")
            await stage.pass_time(61)
            await stage.await_state(retried, "applied")
            await stage.await_commands(2)
            assert stage.state(kept) == "planned"


async def test_a_disabled_kind_is_not_sent_though_send_windows_are_eager(
    path: Path,
) -> None:
    async with scene(path) as stage:
        settings = settings_of({"push_cancellations": {"enabled": False}}, eager=True)
        jobs = Jobs(settings, stage.store.job_runs, stage.clock)
        jobs.sends("main", stage.dispatcher)
        await jobs.load()
        kept = await stage.plan("cancel", "ord_1")
        async with working(stage):
            sent = await stage.plan("fulfill", "ord_2")
            stage.dispatcher.wake()
            await stage.await_state(sent, "applied")
            await stage.pass_time(3_600)
            await stage.await_commands(1)
            await jobs.run("push_cancellations", "main", "otto")
            await stage.await_state(kept, "applied")


async def test_send_windows_that_release_nothing_write_no_row(path: Path) -> None:
    """Or else a job of every 5 s would write 17,280 rows a day."""
    clock = VirtualClock()
    async with started_store(path, clock) as store:
        key = ("push_fulfillments", "main")
        await store.job_runs.register({key: "every 5s"})
        written = set()
        for _ in range(60):
            await clock.advance(5)
            at = to_text(clock.now())
            run = JobRun(key, Trigger.SCHEDULE, at, at, "fulfill")
            assert await store.job_runs.begin(run) == 0
            written.add(job_state(path, *key).started_at)
    assert job_runs(path) == []
    assert len(written) == 5


async def test_each_send_window_releases_new_commands(path: Path) -> None:
    async with scene(path, STRICT) as stage:
        jobs = await gated(stage)
        let_out = []
        for number in (0, 2, 1):
            for order in range(number):
                await stage.plan("fulfill", f"ord_{number}{order}")
            await stage.pass_time(1)
            await jobs._due(("push_fulfillments", "main"), stage.clock.now())
            let_out.append(len(job_runs(path)))
        assert let_out == [0, 1, 2]
        details = [(run.trigger, run.detail) for run in job_runs(path)]
        assert details == [("schedule", "let out 2"), ("schedule", "let out 1")]


async def test_runs_go_with_age(path: Path) -> None:
    clock = VirtualClock()
    async with started_store(path, clock) as store:
        key = ("prune", "")
        await store.job_runs.register({key: "every 1h"})
        for _ in range(200):
            await clock.advance(3_600)
            at = to_text(clock.now())
            await store.job_runs.begin(JobRun(key, Trigger.SCHEDULE, at, at))
        before = to_text(clock.now() - 50 * HOUR)
        while (await store.retention.prune(before, 0.001)).more:
            pass
    kept = [run.started_at >= before for run in job_runs(path)]
    assert kept == [True] * 51
