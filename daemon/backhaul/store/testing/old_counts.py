"""Tests of retention of stock counts: those that changed nothing are deleted."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.core.effect_proof import Move
from backhaul.core.lifecycle import Cause
from backhaul.store.commands import Decision, TaggedAdjustment
from backhaul.store.records import NewRecord, Unmatched
from backhaul.store.testing.command_scenes import at, claimed, plan, resolve
from backhaul.store.testing.contract import FamilyTests
from backhaul.store.testing.mirror_scenes import show_level
from backhaul.store.testing.stock_targets import count, decide, due, listed

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.testing.contract import MovableClock

DAY = 86_400.0


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


async def prune(
    store: Store, clock: MovableClock, age: float = 60.0, slice_seconds: float = 1.0
) -> int:
    """Prune what is so old, until nothing is left to do; return the deleted counts."""
    deleted, more = 0, True
    while more:
        step = await store.retention.prune(at(clock, -age), slice_seconds)
        deleted, more = deleted + step.counts, step.more
    return deleted


async def finish(store: Store, clock: MovableClock) -> None:
    """Let a day pass, and the connection and the store have something newer."""
    clock.advance(DAY)
    await count(store, 1, 59, variant="var_9", product="prod_9")


async def left(store: Store) -> list[str]:
    """Return the counts of `var_1` that are left, the oldest first."""
    found = await store.read(lambda r: r.stock_targets(None, None, 99))
    return [each.id for each in reversed(found) if each.variant_id == "var_1"]


class OldCountsConformance(FamilyTests):
    """Tests of the stock counts that `Store.retention` deletes."""

    async def test_a_count_that_changed_nothing_is_deleted_after_a_newer_one(
        self, store: Store, clock: MovableClock
    ) -> None:
        await show_level(store, 10)
        await applied(store, 10)
        adjusted = await applied(store, 20, 7)
        await applied(store, 30, 7, 7)
        newest = await applied(store, 40, 7, 7)
        await finish(store, clock)
        assert await prune(store, clock, 2 * DAY) == 0
        assert await prune(store, clock) == 2
        assert await left(store) == [adjusted, newest]
        assert await prune(store, clock) == 0

    async def test_a_count_that_comes_again_after_it_was_deleted_is_superseded(
        self, store: Store, clock: MovableClock
    ) -> None:
        await show_level(store, 10)
        for second in (10, 20):
            await applied(store, second)
        await finish(store, clock)
        assert await prune(store, clock) == 1
        await count(store, 10, 10)
        assert (await listed(store))[0] == (10, "superseded")

    async def test_a_count_that_an_operator_decided_stays(
        self, store: Store, clock: MovableClock
    ) -> None:
        await show_level(store, 10)
        await count(store, 3, 10)
        (target,) = await due(store)
        for verb in ("park", "settle --applied"):
            decision = Decision(target.id, verb, "ann", "seen")
            await store.decisions.decide(decision, None)
        await applied(store, 20)
        newest = await applied(store, 30)
        await finish(store, clock)
        assert await prune(store, clock) == 1
        assert await left(store) == [target.id, newest]

    async def test_a_parked_count_stays_and_the_applied_one_before_it(
        self, store: Store, clock: MovableClock
    ) -> None:
        await show_level(store, 10)
        before = await applied(store, 10)
        await count(store, 3, 20)
        (target,) = await due(store)
        await store.decisions.decide(Decision(target.id, "park", "ann", "x"), None)
        await finish(store, clock)
        assert await prune(store, clock) == 0
        assert await left(store) == [before, target.id]

    async def test_a_count_whose_row_was_in_quarantine_stays(
        self, store: Store, clock: MovableClock
    ) -> None:
        await show_level(store, 10)
        bad = NewRecord("main-var_1-10-10", None, "10 or so", "no number", "")
        await store.records.accept(
            "erp", "main", [bad], None, lambda *_: Unmatched("", final=True)
        )
        corrected, _, newest = [await applied(store, second) for second in (10, 20, 30)]
        await finish(store, clock)
        assert await prune(store, clock) == 1
        assert await left(store) == [corrected, newest]

    async def test_the_newest_count_of_a_connection_stays(
        self, store: Store, clock: MovableClock
    ) -> None:
        await show_level(store, 10)
        await applied(store, 20)
        await count(store, 3, 10)
        await plan(store)
        clock.advance(DAY)
        assert await prune(store, clock) == 0
        assert [quantity for quantity, _ in await listed(store)] == [3, 10]

    async def test_after_a_restore_the_counts_of_an_adopted_effect_stay(
        self, store: Store, clock: MovableClock
    ) -> None:
        await show_level(store, 10, adjustment="adj_1", delta=2)
        for second in (10, 20):
            await applied(store, second)
        move = Move("adj_1", "prod_1", "var_1", 2, None, None, at(clock))
        found = [TaggedAdjustment("a" * 32, "adj_1", (move,))]
        await store.tags.record_tags("main", found, adopt=True)
        await finish(store, clock)
        assert await prune(store, clock) == 0

    @pytest.mark.parametrize("slice_seconds", [0.0, 1.0])
    async def test_slices_end_and_go_on(
        self, slice_seconds: float, store: Store, clock: MovableClock
    ) -> None:
        await show_level(store, 10)
        for second in range(20):
            await count(store, second, second)
        await finish(store, clock)
        (target, _) = await store.targets.due("main", 9)
        assert await decide(store, target, 10) in {"applied", "adjusting"}
        for adjustment in await claimed(store):
            await resolve(store, adjustment, Cause.CONFIRMED, effect_id="adj_1")
        assert await prune(store, clock, slice_seconds=slice_seconds) == 19
