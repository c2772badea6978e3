"""Tests of retention: what is erased or deleted for its age, and what stays."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from backhaul.core.effect_proof import Move
from backhaul.core.lifecycle import Cause
from backhaul.store.commands import Decision, TaggedAdjustment
from backhaul.store.inbox import Folded
from backhaul.store.operations import JobRun, Trigger
from backhaul.store.records import NewRecord, Unmatched
from backhaul.store.testing.command_scenes import at, claimed, plan, resolve
from backhaul.store.testing.event_scenes import HEADERS, arrive, event_detail
from backhaul.store.testing.mirror_scenes import show_level
from backhaul.store.testing.scenes import StoreConformance
from backhaul.store.testing.target_scenes import count, decide, due, listed

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.testing.scenes import TestClock


DAY = 86_400.0
KEEP = 30 * DAY


class Pruned(NamedTuple):
    """How many bodies of events were erased, and stock counts deleted."""

    erased: int
    counts: int


async def receive(store: Store, clock: TestClock, age: float, state: str = "") -> int:
    """Append an event so old, and fold it to a state if there is one."""
    folded = Folded(state, "orders/updated", None, "order", "ord_1", "why")
    return await arrive(store, folded=folded if state else None, at=at(clock, -age))


async def prune(
    store: Store, clock: TestClock, age: float = KEEP, slice_seconds: float = 1.0
) -> Pruned:
    """Prune what is so old, until nothing is left to do; return what was deleted."""
    erased, counts, more = 0, 0, True
    while more:
        step = await store.retention.prune(at(clock, -age), slice_seconds)
        erased, counts, more = erased + step.erased, counts + step.counts, step.more
    return Pruned(erased, counts)


class RetentionConformance(StoreConformance):
    """Tests of `Store.retention`."""

    async def test_old_events_lose_body_and_headers_and_keep_their_outcome(
        self, store: Store, clock: TestClock
    ) -> None:
        old = await receive(store, clock, KEEP + DAY, "folded")
        new = await receive(store, clock, KEEP - DAY, "folded")
        assert (await prune(store, clock)).erased == 1
        shown = await event_detail(store, old)
        assert (shown.body, shown.headers) == (b"", b"")
        assert (shown.erased_at, shown.erased_by) == (at(clock), "retention")
        assert (shown.state, shown.object_id) == ("folded", "ord_1")
        kept = await event_detail(store, new)
        assert (kept.body, kept.headers) == (b"body", HEADERS)
        assert kept.erased_at is None
        assert (await prune(store, clock)).erased == 0

    async def test_an_event_that_is_not_folded_keeps_its_body(
        self, store: Store, clock: TestClock
    ) -> None:
        waiting = await receive(store, clock, KEEP + DAY)
        assert (await prune(store, clock)).erased == 0
        assert (await event_detail(store, waiting)).body == b"body"

    async def test_an_event_in_quarantine_keeps_its_body_until_it_is_dropped(
        self, store: Store, clock: TestClock
    ) -> None:
        bad = await receive(store, clock, KEEP + DAY, "quarantined")
        assert (await prune(store, clock)).erased == 0
        assert (await event_detail(store, bad)).body == b"body"
        (row,) = await store.read(lambda reader: reader.quarantine(9))
        await store.quarantine.discard(row.id, "ann", "seen")
        assert (await prune(store, clock)).erased == 1
        assert (await event_detail(store, bad)).body == b""
        shown = await store.read(lambda reader: reader.quarantined(row.id))
        assert shown is not None
        assert shown.raw == b""

    async def test_slices_end_and_go_on(self, store: Store, clock: TestClock) -> None:
        for _ in range(3):
            await receive(store, clock, KEEP + DAY, "folded")
        first = await store.retention.prune(at(clock, -KEEP), 0.0)
        assert (first.erased, first.more) == (1, True)
        assert (await prune(store, clock, slice_seconds=0.0)).erased == 2

    async def test_an_event_of_a_clock_that_was_ahead_is_as_old_as_the_next(
        self, store: Store, clock: TestClock
    ) -> None:
        ahead = await receive(store, clock, -DAY, "folded")
        old = await receive(store, clock, KEEP + DAY, "folded")
        assert (await prune(store, clock)).erased == 2
        assert (
            (await event_detail(store, ahead)).body
            == (await event_detail(store, old)).body
            == b""
        )

    async def test_old_runs_of_jobs_are_deleted(
        self, store: Store, clock: TestClock
    ) -> None:
        await store.job_runs.register({("poll", "main"): ""})
        for age in (KEEP + DAY, KEEP - DAY):
            began = at(clock, -age)
            run = JobRun(("poll", "main"), Trigger.SCHEDULE, began, began)
            await store.job_runs.record(run, began, "")
        await prune(store, clock)
        (left,) = await store.read(lambda reader: reader.job_runs(9))
        assert left.started_at == at(clock, DAY - KEEP)


MINUTE = 60.0


async def applied(store: Store, second: int, quantity: int = 10, was: int = 10) -> str:
    """Submit a count, and apply it where the platform shows 10; return its id."""
    await count(store, quantity, second)
    (target,) = await due(store)
    if await decide(store, target, was) == "adjusting":
        (adjustment,) = await claimed(store)
        effect, delta = f"adj_{second}", quantity - was
        await resolve(store, adjustment, Cause.CONFIRMED, effect_id=effect)
        await show_level(store, quantity, second + 5, adjustment=effect, delta=delta)
        (reading,) = await store.targets.readings("main", 9)
        await store.targets.read_back(reading, None)
    (newest, *_) = await store.read(lambda r: r.stock_targets(None, None, 1))
    assert newest.state == "applied"
    return newest.id


async def finish(store: Store, clock: TestClock) -> None:
    """Let a day pass, and the connection and the store have something newer."""
    clock.advance(DAY)
    await count(store, 1, 59, variant="var_9", product="prod_9")


async def left(store: Store) -> list[str]:
    """Return the counts of `var_1` that are left, the oldest first."""
    found = await store.read(lambda r: r.stock_targets(None, None, 99))
    return [each.id for each in reversed(found) if each.variant_id == "var_1"]


class OldCountsConformance(StoreConformance):
    """Tests of the stock counts that `Store.retention` deletes."""

    async def test_a_count_that_changed_nothing_is_deleted_after_a_newer_one(
        self, store: Store, clock: TestClock
    ) -> None:
        await show_level(store, 10)
        await applied(store, 10)
        adjusted = await applied(store, 20, 7)
        await applied(store, 30, 7, 7)
        newest = await applied(store, 40, 7, 7)
        await finish(store, clock)
        assert (await prune(store, clock, 2 * DAY)).counts == 0
        assert (await prune(store, clock, MINUTE)).counts == 2
        assert await left(store) == [adjusted, newest]
        assert (await prune(store, clock, MINUTE)).counts == 0

    async def test_a_count_that_comes_again_after_it_was_deleted_is_superseded(
        self, store: Store, clock: TestClock
    ) -> None:
        await show_level(store, 10)
        for second in (10, 20):
            await applied(store, second)
        await finish(store, clock)
        assert (await prune(store, clock, MINUTE)).counts == 1
        await count(store, 10, 10)
        assert (await listed(store))[0] == (10, "superseded")

    async def test_a_count_that_an_operator_decided_stays(
        self, store: Store, clock: TestClock
    ) -> None:
        await show_level(store, 10)
        await count(store, 3, 10)
        (target,) = await due(store)
        for verb in ("park", "resolve --applied"):
            decision = Decision(target.id, verb, "ann", "seen")
            await store.decisions.decide(decision, None)
        await applied(store, 20)
        newest = await applied(store, 30)
        await finish(store, clock)
        assert (await prune(store, clock, MINUTE)).counts == 1
        assert await left(store) == [target.id, newest]

    async def test_a_parked_count_stays_and_the_applied_one_before_it(
        self, store: Store, clock: TestClock
    ) -> None:
        await show_level(store, 10)
        before = await applied(store, 10)
        await count(store, 3, 20)
        (target,) = await due(store)
        await store.decisions.decide(Decision(target.id, "park", "ann", "x"), None)
        await finish(store, clock)
        assert (await prune(store, clock, MINUTE)).counts == 0
        assert await left(store) == [before, target.id]

    async def test_a_count_whose_row_was_in_quarantine_stays(
        self, store: Store, clock: TestClock
    ) -> None:
        await show_level(store, 10)
        bad = NewRecord("main-var_1-10-10", None, "10 or so", "no number", "")
        await store.records.accept(
            "erp", "main", [bad], None, lambda *_: Unmatched("", final=True)
        )
        corrected, _, newest = [await applied(store, second) for second in (10, 20, 30)]
        await finish(store, clock)
        assert (await prune(store, clock, MINUTE)).counts == 1
        assert await left(store) == [corrected, newest]

    async def test_the_newest_count_of_a_connection_stays(
        self, store: Store, clock: TestClock
    ) -> None:
        await show_level(store, 10)
        await applied(store, 20)
        await count(store, 3, 10)
        await plan(store)
        clock.advance(DAY)
        assert (await prune(store, clock, MINUTE)).counts == 0
        assert [quantity for quantity, _ in await listed(store)] == [3, 10]

    async def test_after_a_restore_the_counts_of_an_adopted_effect_stay(
        self, store: Store, clock: TestClock
    ) -> None:
        await show_level(store, 10, adjustment="adj_1", delta=2)
        for second in (10, 20):
            await applied(store, second)
        move = Move("adj_1", "prod_1", "var_1", 2, None, None, at(clock))
        found = [TaggedAdjustment("a" * 32, "adj_1", (move,))]
        await store.tags.record_tags("main", found, adopt=True)
        await finish(store, clock)
        assert (await prune(store, clock, MINUTE)).counts == 0

    @pytest.mark.parametrize("slice_seconds", [0.0, 1.0])
    async def test_slices_end_and_go_on(
        self, slice_seconds: float, store: Store, clock: TestClock
    ) -> None:
        await show_level(store, 10)
        for second in range(20):
            await count(store, second, second)
        await finish(store, clock)
        (target, _) = await store.targets.due("main", 9)
        assert await decide(store, target, 10) in {"applied", "adjusting"}
        for adjustment in await claimed(store):
            await resolve(store, adjustment, Cause.CONFIRMED, effect_id="adj_1")
        assert (await prune(store, clock, MINUTE, slice_seconds)).counts == 19
