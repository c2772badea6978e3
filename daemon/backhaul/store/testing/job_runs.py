"""Tests of the runs of jobs: their state, send windows, pauses and interruptions."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from backhaul.store.operations import AuditEntry, JobRun, Trigger
from backhaul.store.testing.command_scenes import (
    at,
    audit_entries,
    claimed,
    in_brief,
    plan,
)
from backhaul.store.testing.scenes import StoreConformance

if TYPE_CHECKING:
    from backhaul.core.clock import Clock
    from backhaul.store import Store
    from backhaul.store.operations import JobKey, JobState
    from backhaul.store.read_records import JobStatus, ListedRun
    from backhaul.store.testing.scenes import OpenStore, TestClock

POLL: JobKey = ("poll", "main")
OTHER: JobKey = ("poll", "other")
PUSH: JobKey = ("push_fulfillments", "main")
ENTRY = AuditEntry("ann", "jobs pause", "poll of main")


async def register(store: Store, plan_: str = "every 60s") -> JobState:
    """Register a job of two stores; return the state of the first."""
    states = await store.job_runs.register({POLL: plan_, OTHER: plan_})
    assert list(states) == [POLL, OTHER]
    return states[POLL]


async def job(store: Store, key: JobKey = POLL) -> JobStatus:
    """Return the state of a job as operators see it."""
    return (await store.read(lambda reader: reader.jobs()))[key]


async def runs(store: Store) -> list[ListedRun]:
    """Return the recorded runs, the newest first."""
    return await store.read(lambda reader: reader.job_runs(99))


def run(clock: Clock, key: JobKey = POLL, kind: str | None = None) -> JobRun:
    """Return a scheduled run that begins now."""
    return JobRun(key, Trigger.SCHEDULE, at(clock, -1), at(clock), kind)


class JobRunsConformance(StoreConformance):
    """Tests of `Store.job_runs`."""

    async def test_a_new_job_has_missed_no_run(
        self, store: Store, clock: TestClock
    ) -> None:
        state = await register(store)
        assert (state.since, state.due_at, state.started_at) == (at(clock), None, None)
        assert (state.paused_at, state.interrupted) == (None, False)

    async def test_only_a_changed_plan_begins_again(
        self, store: Store, clock: TestClock
    ) -> None:
        first = await register(store)
        clock.advance(60)
        assert (await register(store)).since == first.since
        assert (await register(store, "every 5s")).since == at(clock)
        assert (await job(store)).plan == "every 5s"
        clock.advance(60)
        await store.job_runs.replan({POLL: "every 9s"})
        assert (await job(store)).since == at(clock)
        assert (await job(store, OTHER)).since == at(clock, -60)

    async def test_a_run_is_recorded_from_its_begin_to_its_end(
        self, store: Store, clock: TestClock
    ) -> None:
        await register(store)
        began = at(clock)
        assert await store.job_runs.begin(run(clock)) == 0
        (found,) = await runs(store)
        assert (found.job, found.store, found.trigger) == ("poll", "main", "schedule")
        assert (found.due_at, found.started_at) == (at(clock, -1), began)
        assert (found.ended_at, found.outcome) == (None, "running")
        clock.advance(3)
        await store.job_runs.end(POLL, began, "2 changes", failed=False)
        (found,) = await runs(store)
        assert (found.ended_at, found.outcome) == (at(clock), "done")
        assert found.detail == "2 changes"
        shown = await job(store)
        assert (shown.started_at, shown.ended_at) == (began, at(clock))
        assert (shown.outcome, shown.detail) == ("done", "2 changes")
        assert (await job(store, OTHER)).started_at is None

    async def test_only_a_run_that_began_by_then_ends(
        self, store: Store, clock: TestClock
    ) -> None:
        await register(store)
        await store.job_runs.begin(run(clock, OTHER))
        clock.advance(1)
        await store.job_runs.begin(run(clock))
        await store.job_runs.end(POLL, at(clock, -1), "early", failed=False)
        assert [found.outcome for found in await runs(store)] == ["running"] * 2
        await store.job_runs.end(POLL, at(clock), "no answer", failed=True)
        found = {each.store: each.outcome for each in await runs(store)}
        assert found == {"main": "failed", "other": "running"}
        await store.job_runs.end(POLL, at(clock), "again", failed=False)
        assert (await job(store)).outcome == "failed"

    async def test_a_run_that_the_start_of_the_daemon_interrupted_is_known(
        self, store: Store, clock: TestClock
    ) -> None:
        await register(store)
        await store.job_runs.begin(run(clock))
        clock.advance(9)
        state = await register(store)
        assert (state.interrupted, state.due_at) == (True, at(clock, -10))
        (found,) = await runs(store)
        assert (found.outcome, found.ended_at) == ("interrupted", at(clock))
        await store.job_runs.begin(run(clock))
        await store.job_runs.end(POLL, at(clock), "", failed=False)
        assert not (await register(store)).interrupted

    async def test_a_finished_run_is_recorded_at_once(
        self, store: Store, clock: TestClock
    ) -> None:
        await register(store)
        await store.job_runs.record(run(clock), at(clock, 2), "nothing to do")
        (found,) = await runs(store)
        assert (found.outcome, found.ended_at) == ("done", at(clock, 2))
        assert found.detail == (await job(store)).detail == "nothing to do"

    async def test_an_operators_run_has_an_audit_entry(
        self, store: Store, clock: TestClock
    ) -> None:
        await register(store)
        started = replace(run(clock), trigger=Trigger.OPERATOR)
        await store.job_runs.begin(started, ENTRY)
        (entry,) = await audit_entries(store)
        assert in_brief(entry) == in_brief(ENTRY)
        assert (await runs(store))[0].trigger == "person"

    async def test_a_send_window_counts_the_commands_that_it_releases(
        self, store: Store, clock: TestClock
    ) -> None:
        await store.job_runs.register({PUSH: "at 9"})
        for target in ("ord_1", "ord_2"):
            await plan(store, target=target)
        await plan(store, "cancel", "ord_3")
        await plan(store, target="ord_4", name="other")
        await plan(store, target="ord_5")
        assert len(await claimed(store, {"fulfill": "9999"}, 1)) == 1
        opens = run(clock, PUSH, "fulfill")
        assert await store.job_runs.begin(opens) == 2
        (found,) = await runs(store)
        assert (found.outcome, found.ended_at) == ("done", at(clock))
        clock.advance(61)
        await plan(store, target="ord_6")
        opens = run(clock, PUSH, "fulfill")
        clock.advance(1)
        await plan(store, target="ord_7")
        assert await store.job_runs.begin(opens) == 1
        assert len(await runs(store)) == 2

    async def test_an_idle_send_window_gets_no_row(
        self, store: Store, clock: TestClock
    ) -> None:
        await store.job_runs.register({PUSH: "every 1s"})
        began = at(clock)
        assert await store.job_runs.begin(run(clock, PUSH, "fulfill")) == 0
        clock.advance(59)
        await store.job_runs.begin(run(clock, PUSH, "fulfill"))
        assert (await job(store, PUSH)).started_at == began
        clock.advance(1)
        await store.job_runs.begin(run(clock, PUSH, "fulfill"))
        assert (await job(store, PUSH)).started_at == at(clock)
        assert await runs(store) == []
        by_hand = replace(run(clock, PUSH, "fulfill"), trigger=Trigger.OPERATOR)
        await store.job_runs.begin(by_hand)
        assert len(await runs(store)) == 1

    async def test_a_pause_lasts_over_a_start(
        self, store: Store, clock: TestClock, open_store: OpenStore
    ) -> None:
        await register(store)
        clock.advance(5)
        paused_at = await store.job_runs.pause([POLL, PUSH], ENTRY)
        assert paused_at == at(clock)
        assert (await register(await open_store())).paused_at == paused_at
        assert (await job(store, OTHER)).paused_at is None
        assert (await job(store, PUSH)).paused_at == paused_at
        (entry,) = await audit_entries(store)
        assert in_brief(entry) == in_brief(ENTRY)
        clock.advance(5)
        assert await store.job_runs.pause([POLL], ENTRY) == at(clock)
        assert (await job(store)).paused_at == at(clock)

    async def test_a_resumed_job_makes_up_for_nothing(
        self, store: Store, clock: TestClock
    ) -> None:
        since = (await register(store)).since
        await store.job_runs.pause([POLL], ENTRY)
        clock.advance(60)
        await store.job_runs.resume([POLL, OTHER], ENTRY)
        shown, other = await job(store), await job(store, OTHER)
        assert (shown.paused_at, shown.since) == (None, at(clock))
        assert other.since == since
        assert len(await audit_entries(store)) == 2
