"""Tests of stock targets that a restore leaves unexplained: held, and released."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pytest

from backhaul.core.effect_proof import Move
from backhaul.core.stock import ADJUSTMENT_REASON
from backhaul.core.stock_decision import ROUNDS_SECONDS
from backhaul.store.commands import Decision, TaggedAdjustment
from backhaul.store.operations import AuditEntry, HeldTargets
from backhaul.store.stock_targets import HeldFilter
from backhaul.store.testing.command_scenes import (
    ADJUSTMENT,
    audit_entries,
    claimed,
    in_brief,
    plan,
)
from backhaul.store.testing.contract import FamilyTests
from backhaul.store.testing.mirror_scenes import show_level, show_product
from backhaul.store.testing.stock_targets import adjusted, count, decide, due, listed

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul.store import Store
    from backhaul.store.testing.contract import MovableClock

Advance: TypeAlias = "Callable[[float], object]"
"""Sets the clock ahead by some seconds."""
EFFECT_AT = "2026-03-01T12:00:20.000Z"
MINUTE = 60.0
LONG_AGO = 31 * 24 * 60 * MINUTE
RELEASE = AuditEntry("ann", "stock release", "no newer count")
OTHERS = [
    HeldFilter(store="other"),
    HeldFilter(instance="courier"),
    HeldFilter(sku="SKU-2"),
]
MATCHING = [
    HeldFilter(),
    HeldFilter(store="main"),
    HeldFilter("main", "erp", "SKU-1"),
]


async def restore(store: Store, number: int) -> None:
    """Let the stock history show an adjustment that this database does not know."""
    effect = f"adj_{number}"
    move = Move(effect, "prod_1", "var_1", -2, None, None, EFFECT_AT)
    found = [TaggedAdjustment(f"{number:032x}", effect, (move,))]
    await store.tags.record_tags("main", found, adopt=True)


async def lose_an_adjustment(store: Store, advance: Advance) -> None:
    """Show a level to which an adjustment led that this database does not know."""
    advance(MINUTE)
    await show_product(store)
    await show_level(
        store, 8, 20, adjustment="adj_9", delta=-2, reason=ADJUSTMENT_REASON
    )
    await restore(store, 9)


async def decided(store: Store, advance: Advance, level: int = 8) -> str:
    """Read the product as often as a decision takes; return the target's state."""
    state = ""
    for _ in range(len(ROUNDS_SECONDS) + 1):
        advance(max(ROUNDS_SECONDS))
        for target in await due(store):
            state = await decide(store, target, level)
    return state


async def hold(store: Store, advance: Advance) -> None:
    """Let a count be held."""
    await lose_an_adjustment(store, advance)
    await count(store, 7, 10)
    assert await decided(store, advance) == "held"


class HeldTargetsConformance(FamilyTests):
    """Tests of `Store.targets` after a restore."""

    async def test_a_count_that_a_restore_leaves_unexplained_is_held(
        self, store: Store, clock: MovableClock
    ) -> None:
        await hold(store, clock.advance)
        clock.advance(MINUTE)
        assert await due(store) == []
        assert await claimed(store) == []
        assert await listed(store) == [(7, "held")]
        (target,) = await store.read(
            lambda reader: reader.stock_targets("held", None, 9)
        )
        assert "may be the adjustment of a newer count" in target.reason
        assert "since the database was restored" in target.reason

    async def test_held_counts_are_one_condition_and_none_is_parked(
        self, store: Store, clock: MovableClock
    ) -> None:
        await hold(store, clock.advance)
        held = (await store.read(lambda reader: reader.stock_targets(None, None, 9)))[0]
        conditions = await store.alert_conditions.current([])
        expected = [HeldTargets("main", 1, held.created_at, "SKU-1")]
        assert conditions.held_targets == expected
        assert conditions.parked == []
        assert await store.read(lambda reader: reader.held_by_store()) == expected
        counts = await store.read(lambda reader: reader.counts())
        assert (counts.counts_held, counts.commands) == (1, {"planned": 1})

    async def test_a_newer_count_replaces_a_held_one(
        self, store: Store, clock: MovableClock
    ) -> None:
        await hold(store, clock.advance)
        await count(store, 6, 40)
        assert await listed(store) == [(6, "planned"), (7, "superseded")]
        assert await decided(store, clock.advance) == "adjusting"
        assert (await adjusted(store)).payload["delta"] == -2

    async def test_a_count_from_after_the_restore_is_parked(
        self, store: Store, clock: MovableClock
    ) -> None:
        await lose_an_adjustment(store, clock.advance)
        clock.advance(MINUTE)
        await count(store, 7, 90)
        assert await decided(store, clock.advance, level=4) == "parked"

    async def test_a_count_is_parked_if_the_restore_is_long_ago(
        self, store: Store, clock: MovableClock
    ) -> None:
        await lose_an_adjustment(store, clock.advance)
        clock.advance(LONG_AGO)
        await count(store, 7, 10)
        assert await decided(store, clock.advance) == "parked"

    async def test_a_released_count_is_applied_with_all_movements_since(
        self, store: Store, clock: MovableClock
    ) -> None:
        await hold(store, clock.advance)
        assert await store.targets.release(HeldFilter(), RELEASE) == 1
        assert await listed(store) == [(7, "planned")]
        assert await decided(store, clock.advance) == "adjusting"
        # 7 were counted before 2 left, so 5 are left of the 8 that are shown.
        assert (await adjusted(store)).payload["delta"] == -3

    async def test_a_record_that_explains_the_stock_ends_the_hold(
        self, store: Store, clock: MovableClock
    ) -> None:
        await hold(store, clock.advance)
        await plan(store, "adjust", "prod_1", id_=f"{9:032x}", payload=ADJUSTMENT)
        assert await listed(store) == [(7, "planned")]
        assert await decided(store, clock.advance) == "adjusting"
        assert (await adjusted(store)).payload["delta"] == -3

    async def test_a_released_count_that_cannot_be_explained_is_parked(
        self, store: Store, clock: MovableClock
    ) -> None:
        await hold(store, clock.advance)
        await store.targets.release(HeldFilter(), RELEASE)
        assert await decided(store, clock.advance, level=4) == "parked"
        assert await claimed(store) == []

    async def test_a_release_has_an_audit_entry_for_each_count(
        self, store: Store, clock: MovableClock
    ) -> None:
        await hold(store, clock.advance)
        await store.targets.release(HeldFilter(), RELEASE)
        (entry,) = await audit_entries(store)
        (target,) = await store.read(lambda reader: reader.stock_targets(None, None, 9))
        assert in_brief(entry) == in_brief(RELEASE)
        assert entry.command_id == target.id
        assert (entry.state_before, entry.state_after) == ("held", "planned")
        assert await store.targets.release(HeldFilter(), RELEASE) == 0
        assert len(await audit_entries(store)) == 1

    @pytest.mark.parametrize("wanted", MATCHING)
    async def test_a_filter_lists_and_releases_its_counts(
        self, store: Store, clock: MovableClock, wanted: HeldFilter
    ) -> None:
        await hold(store, clock.advance)
        (target,) = await store.read(lambda reader: reader.held_targets(wanted))
        assert (target.sku, target.quantity, target.state) == ("SKU-1", 7, "held")
        assert await store.targets.release(wanted, RELEASE) == 1

    @pytest.mark.parametrize("wanted", OTHERS)
    async def test_a_filter_leaves_other_counts_on_hold(
        self, store: Store, clock: MovableClock, wanted: HeldFilter
    ) -> None:
        await hold(store, clock.advance)
        assert await store.read(lambda reader: reader.held_targets(wanted)) == []
        assert await store.targets.release(wanted, RELEASE) == 0
        assert await listed(store) == [(7, "held")]

    async def test_a_release_does_not_outlast_the_next_restore(
        self, store: Store, clock: MovableClock
    ) -> None:
        await hold(store, clock.advance)
        await store.targets.release(HeldFilter(), RELEASE)
        clock.advance(MINUTE)
        await restore(store, 10)
        assert await decided(store, clock.advance) == "held"

    async def test_an_operator_decides_about_one_held_count(
        self, store: Store, clock: MovableClock
    ) -> None:
        await hold(store, clock.advance)
        (target,) = await store.read(lambda reader: reader.stock_targets(None, None, 9))
        await store.decisions.decide(Decision(target.id, "park", "ann", "to check"))
        await store.decisions.decide(Decision(target.id, "resend", "ann", "right"))
        assert await decided(store, clock.advance) == "adjusting"

    async def test_a_connection_is_asked_once_for_its_stock_list(
        self, store: Store, clock: MovableClock
    ) -> None:
        records = store.records
        await lose_an_adjustment(store, clock.advance)
        await count(store, 7, 10)
        assert not await records.must_read_stock_list("erp")
        await decided(store, clock.advance)
        assert await records.must_read_stock_list("erp")
        assert not await records.must_read_stock_list("courier")
        await records.begin_stock_list("erp", "from the beginning")
        assert await records.cursor("erp") == "from the beginning"
        await store.targets.release(HeldFilter(), RELEASE)
        clock.advance(MINUTE)
        await count(store, 7, 11)
        await decided(store, clock.advance)
        assert not await records.must_read_stock_list("erp")

    async def test_a_connection_is_asked_again_after_the_next_restore(
        self, store: Store, clock: MovableClock
    ) -> None:
        await hold(store, clock.advance)
        await store.records.begin_stock_list("erp", None)
        await store.targets.release(HeldFilter(), RELEASE)
        clock.advance(MINUTE)
        await restore(store, 10)
        assert not await store.records.must_read_stock_list("erp")
        assert await decided(store, clock.advance) == "held"
        assert await store.records.must_read_stock_list("erp")
