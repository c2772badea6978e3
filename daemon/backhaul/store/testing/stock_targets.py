"""Tests of stock targets: the newest count of a variant, its adjustment, and holds."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from backhaul.core.effect_proof import Move, TagMeaning
from backhaul.core.lifecycle import Cause
from backhaul.core.stock import ListEnd
from backhaul.core.stock_decision import Wait
from backhaul.store.commands import Decision, TaggedAdjustment
from backhaul.store.operations import AuditEntry, HeldTargets
from backhaul.store.records import Known, NewRecord
from backhaul.store.stock_targets import HeldFilter
from backhaul.store.testing.command_scenes import (
    ADJUSTMENT,
    at,
    audit_entries,
    claimed,
    detail,
    in_brief,
    plan,
    resolve,
    sent,
    state_of,
)
from backhaul.store.testing.mirror_scenes import show_level, show_product
from backhaul.store.testing.scenes import StoreConformance
from backhaul.store.testing.target_scenes import (
    MINUTE,
    claimed_adjustment,
    count,
    decide,
    decided,
    due,
    hold,
    listed,
    lose_an_adjustment,
    restore,
)

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.matching import MatchReader, WaitingRecord
    from backhaul.store.testing.scenes import TestClock


DAY = 86_400.0


async def given_up(store: Store) -> str:
    """Send an adjustment whose outcome stays unknown; return its id."""
    command = await sent(
        store, Cause.UNDECIDABLE, kind="adjust", target="prod_1", payload=ADJUSTMENT
    )
    return command.id


async def record_late(store: Store, command: str) -> TagMeaning:
    """Record that the stock history shows a command's effect after all counts."""
    move = Move("adj_1", "prod_1", "var_1", -2, None, None, "2026-03-01T12:05:00.000Z")
    found = [TaggedAdjustment(command, "adj_1", (move,))]
    (meaning,) = await store.tags.record_tags("main", found, adopt=False)
    return meaning


async def list_articles(store: Store, second: int, *skus: str) -> str:
    """Submit a full list of two articles that are in stock; return its end's state."""
    listed_at = f"2026-03-01T12:00:{second:02}.000Z"
    for number in (1, 2):
        await show_product(store, f"prod_{number}")
        await show_level(store, 5, product=f"prod_{number}")
    rows = [(sku, {"sku": sku, "full_list": True}) for sku in skus]
    records = [
        NewRecord(
            f"{second}-{key}",
            json.dumps(
                {"kind": "note", "record": {**row, "listed_at": listed_at}},
                separators=(",", ":"),
            ).encode(),
            "",
            "",
            "",
        )
        for key, row in [*rows, ("end", {})]
    ]

    def match(record: WaitingRecord, _: MatchReader) -> Known | ListEnd:
        if record.key.endswith("end"):
            return ListEnd(listed_at, len(skus), 0.5)
        return Known(None, "listed")

    found = await store.records.accept("erp", "main", records, None, match)
    return found[-1].state


class TargetsConformance(StoreConformance):
    """Tests of `Store.targets`."""

    async def test_the_newest_count_of_a_variant_counts(self, store: Store) -> None:
        for quantity, second in ((5, 10), (7, 30), (6, 20)):
            await count(store, quantity, second)
        await count(store, 1, 1, variant="var_2", product="prod_2")
        found = {(each.variant_id, each.count.quantity) for each in await due(store)}
        assert found == {("var_1", 7), ("var_2", 1)}
        states = dict(await listed(store))
        assert (states[5], states[6]) == ("superseded", "superseded")

    async def test_counts_of_stores_are_apart(self, store: Store) -> None:
        await count(store, 5, 10)
        await count(store, 7, 30, name="other")
        (own,) = await due(store)
        (other,) = await due(store, "other")
        assert (own.count.quantity, other.count.quantity) == (5, 7)

    async def test_a_target_waits_for_the_commands_of_its_product(
        self, store: Store
    ) -> None:
        await plan(store, "adjust", "prod_1")
        (command,) = await claimed(store)
        await count(store, 5, 10)
        assert await due(store) == []
        await resolve(store, command, Cause.CONFIRMED)
        assert len(await due(store)) == 1

    async def test_a_target_that_waits_is_due_later(
        self, store: Store, clock: TestClock
    ) -> None:
        await count(store, 5, 10)
        (target,) = await due(store)
        await store.targets.wait(target, Wait("busy", at(clock, 60), counts=True))
        assert await due(store) == []
        assert await store.targets.next_due("main", at(clock)) == at(clock, 60)
        assert await store.targets.next_due("other", at(clock)) is None
        clock.advance(60)
        (again,) = await due(store)
        assert (again.tries, target.tries) == (1, 0)

    async def test_a_target_is_applied_with_its_adjustment(self, store: Store) -> None:
        await show_level(store, 12)
        await count(store, 5, 10)
        (target,) = await due(store)
        assert await decide(store, target, 12) == "adjusting"
        assert await due(store) == []
        command = await claimed_adjustment(store)
        assert command.payload["delta"] == -7
        assert command.payload["variant_id"] == "var_1"
        await resolve(store, command, Cause.CONFIRMED, effect_id="adj_1")
        assert await listed(store) == [(5, "applied")]
        (reading,) = await store.targets.readings("main", 9)
        assert (reading.variant_id, reading.delta) == ("var_1", -7)

    async def test_a_product_is_read_back_until_it_is_done(
        self, store: Store, clock: TestClock
    ) -> None:
        await show_level(store, 12)
        await count(store, 5, 10)
        (target,) = await due(store)
        await decide(store, target, 12)
        await resolve(
            store, await claimed_adjustment(store), Cause.CONFIRMED, effect_id="adj_1"
        )
        (reading,) = await store.targets.readings("main", 9)
        assert await store.targets.readings("other", 9) == []
        await store.targets.read_back(reading, at(clock, 9))
        assert await store.targets.readings("main", 9) == []
        assert await store.targets.next_due("main", at(clock)) == at(clock, 9)
        clock.advance(9)
        (again,) = await store.targets.readings("main", 9)
        assert again.tries == reading.tries + 1
        await store.targets.read_back(again, None)
        assert await store.targets.readings("main", 9) == []

    async def test_an_outdated_target_is_not_decided(self, store: Store) -> None:
        await count(store, 5, 10)
        (target,) = await due(store)
        await count(store, 7, 30)
        assert await decide(store, target, 12) == "superseded"
        assert await claimed(store) == []

    async def test_movements_since_a_count_are_included(self, store: Store) -> None:
        for second, stock in ((5, 10), (20, 8)):
            await show_level(store, stock, second, adjustment=f"adj_{second}", delta=-2)
        await show_level(store, 1, 25, adjustment="adj_9", delta=-9, name="other")
        await count(store, 7, 10)
        (target,) = await due(store)
        assert await decide(store, target, 8) == "adjusting"
        # 7 were counted before 2 were sold, so 5 are left of the 8 that are shown.
        assert (await claimed_adjustment(store)).payload["delta"] == -3

    async def test_a_count_that_changed_nothing_is_deleted_when_it_is_old(
        self, store: Store, clock: TestClock
    ) -> None:
        await show_level(store, 12)
        await count(store, 5, 10)
        clock.advance(DAY)
        await count(store, 7, 30)
        (target,) = await due(store)
        await decide(store, target, 12)
        await resolve(
            store, await claimed_adjustment(store), Cause.CONFIRMED, effect_id="adj_1"
        )
        await store.retention.prune(at(clock, -60), 1.0)  # erases events first
        assert (await store.retention.prune(at(clock, -60), 1.0)).counts == 1
        assert await listed(store) == [(7, "applied")]

    async def test_an_effect_that_comes_late_recalculates_a_count(
        self, store: Store
    ) -> None:
        await show_level(store, 12)
        late = await given_up(store)
        await count(store, 7, 30)
        (target,) = await due(store)
        await decide(store, target, 12)
        assert await record_late(store, late) is TagMeaning.LATE
        assert await state_of(store, late) == "applied"
        assert await claimed(store) == []
        (again,) = await due(store)
        assert again.count.quantity == 7

    async def test_an_effect_that_comes_after_a_count_was_applied_is_a_problem(
        self, store: Store
    ) -> None:
        await show_level(store, 12)
        late = await given_up(store)
        await count(store, 7, 30)
        (target,) = await due(store)
        await decide(store, target, 12)
        step = await claimed_adjustment(store)
        assert await record_late(store, late) is TagMeaning.OPEN
        await resolve(store, step, Cause.CONFIRMED, effect_id="adj_2")
        assert await record_late(store, late) is TagMeaning.BEHIND
        assert "after the count of 7" in (await detail(store, late)).reason
        (problem,) = (await store.alert_conditions.current([])).doubled
        assert (problem.id, problem.detail) == (late, "adj_1")

    async def test_what_a_full_list_leaves_out_is_set_to_0(self, store: Store) -> None:
        await list_articles(store, 10, "SKU-1", "SKU-2")
        assert await due(store) == []
        assert await list_articles(store, 20, "SKU-1") == "accepted"
        (target,) = await due(store)
        assert (target.variant_id, target.count.quantity) == ("var_2", 0)

    async def test_a_full_list_that_leaves_out_too_much_is_quarantined(
        self, store: Store
    ) -> None:
        await list_articles(store, 10, "SKU-1", "SKU-2")
        assert await list_articles(store, 20) == "quarantined"
        assert await due(store) == []

    async def test_stopped_targets_have_a_reason(self, store: Store) -> None:
        entry = AuditEntry("ann", "counts stop", "main")
        assert await store.targets.stopped("main") is None
        await store.targets.stop("main", "wrong counts", entry)
        assert await store.targets.stopped("main") == "wrong counts"
        assert await store.targets.stopped("other") is None
        assert in_brief((await audit_entries(store))[0]) == in_brief(entry)
        stopped = await store.read(lambda reader: reader.stopped_targets())
        assert stopped == {"main": "wrong counts"}
        await store.targets.stop("main", None)
        assert await store.targets.stopped("main") is None


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


class HeldTargetsConformance(StoreConformance):
    """Tests of `Store.targets` after a restore."""

    async def test_a_count_that_a_restore_leaves_unexplained_is_held(
        self, store: Store, clock: TestClock
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
        self, store: Store, clock: TestClock
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
        self, store: Store, clock: TestClock
    ) -> None:
        await hold(store, clock.advance)
        await count(store, 6, 40)
        assert await listed(store) == [(6, "planned"), (7, "superseded")]
        assert await decided(store, clock.advance) == "adjusting"
        assert (await claimed_adjustment(store)).payload["delta"] == -2

    async def test_a_count_from_after_the_restore_is_parked(
        self, store: Store, clock: TestClock
    ) -> None:
        await lose_an_adjustment(store, clock.advance)
        clock.advance(MINUTE)
        await count(store, 7, 90)
        assert await decided(store, clock.advance, level=4) == "parked"

    async def test_a_count_is_parked_if_the_restore_is_long_ago(
        self, store: Store, clock: TestClock
    ) -> None:
        await lose_an_adjustment(store, clock.advance)
        clock.advance(LONG_AGO)
        await count(store, 7, 10)
        assert await decided(store, clock.advance) == "parked"

    async def test_a_released_count_is_applied_with_all_movements_since(
        self, store: Store, clock: TestClock
    ) -> None:
        await hold(store, clock.advance)
        assert await store.targets.release(HeldFilter(), RELEASE) == 1
        assert await listed(store) == [(7, "planned")]
        assert await decided(store, clock.advance) == "adjusting"
        # 7 were counted before 2 left, so 5 are left of the 8 that are shown.
        assert (await claimed_adjustment(store)).payload["delta"] == -3

    async def test_a_record_that_explains_the_stock_ends_the_hold(
        self, store: Store, clock: TestClock
    ) -> None:
        await hold(store, clock.advance)
        await plan(store, "adjust", "prod_1", id_=f"{9:032x}", payload=ADJUSTMENT)
        assert await listed(store) == [(7, "planned")]
        assert await decided(store, clock.advance) == "adjusting"
        assert (await claimed_adjustment(store)).payload["delta"] == -3

    async def test_a_released_count_that_cannot_be_explained_is_parked(
        self, store: Store, clock: TestClock
    ) -> None:
        await hold(store, clock.advance)
        await store.targets.release(HeldFilter(), RELEASE)
        assert await decided(store, clock.advance, level=4) == "parked"
        assert await claimed(store) == []

    async def test_a_release_has_an_audit_entry_for_each_count(
        self, store: Store, clock: TestClock
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
        self, store: Store, clock: TestClock, wanted: HeldFilter
    ) -> None:
        await hold(store, clock.advance)
        (target,) = await store.read(lambda reader: reader.held_targets(wanted))
        assert (target.sku, target.quantity, target.state) == ("SKU-1", 7, "held")
        assert await store.targets.release(wanted, RELEASE) == 1

    @pytest.mark.parametrize("wanted", OTHERS)
    async def test_a_filter_leaves_other_counts_on_hold(
        self, store: Store, clock: TestClock, wanted: HeldFilter
    ) -> None:
        await hold(store, clock.advance)
        assert await store.read(lambda reader: reader.held_targets(wanted)) == []
        assert await store.targets.release(wanted, RELEASE) == 0
        assert await listed(store) == [(7, "held")]

    async def test_a_release_does_not_outlast_the_next_restore(
        self, store: Store, clock: TestClock
    ) -> None:
        await hold(store, clock.advance)
        await store.targets.release(HeldFilter(), RELEASE)
        clock.advance(MINUTE)
        await restore(store, 10)
        assert await decided(store, clock.advance) == "held"

    async def test_an_operator_decides_about_one_held_count(
        self, store: Store, clock: TestClock
    ) -> None:
        await hold(store, clock.advance)
        (target,) = await store.read(lambda reader: reader.stock_targets(None, None, 9))
        await store.decisions.decide(Decision(target.id, "park", "ann", "to check"))
        await store.decisions.decide(Decision(target.id, "resend", "ann", "right"))
        assert await decided(store, clock.advance) == "adjusting"

    async def test_a_connection_is_asked_once_for_its_stock_list(
        self, store: Store, clock: TestClock
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
        self, store: Store, clock: TestClock
    ) -> None:
        await hold(store, clock.advance)
        await store.records.begin_stock_list("erp", None)
        await store.targets.release(HeldFilter(), RELEASE)
        clock.advance(MINUTE)
        await restore(store, 10)
        assert not await store.records.must_read_stock_list("erp")
        assert await decided(store, clock.advance) == "held"
        assert await store.records.must_read_stock_list("erp")
