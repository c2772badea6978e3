"""Contradicting counts of one article in one list are refused, not chosen by chance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul.connect.record_matching import Matcher
from backhaul_sdk import StockLevel
from scenes import payloads
from scenes.back_office import ScriptedConnector, host_of
from scenes.databases import append_and_fold
from scenes.payloads import envelope
from scenes.stored import rows_of, stock_targets, value_of

if TYPE_CHECKING:
    from backhaul.store import Store
    from scenes.clock import VirtualClock

MORNING, NOON = payloads.instant(0), payloads.instant(600)


class Lists:
    """Submits stock counts as connectors do, each with its own key."""

    def __init__(self, store: Store, clock: VirtualClock) -> None:
        self._host = host_of(
            ScriptedConnector("desk"), store, clock=clock, wait_seconds=600
        )
        self._store = store
        self._number = 0

    async def say(
        self, quantity: int, locator: str = "", listed_at: str = "", **more: Any
    ) -> str:
        self._number += 1
        values = {"sku": "LS-S", "as_of": MORNING, "key": f"k{self._number}"} | more
        level = StockLevel(
            quantity=quantity, locator=locator, listed_at=listed_at, **values
        )
        return (await self._host.emit(level)).state

    def targets(self) -> dict[int, str]:
        found = stock_targets(self._store.place)
        return {each.quantity: each.state for each in found}

    def reason(self) -> str:
        reason = value_of(self._store.place, "quarantine", "reason")
        return str(reason)


@pytest.fixture
async def lists(store: Store, clock: VirtualClock) -> Lists:
    await append_and_fold(store, envelope("products/create", payloads.product()))
    return Lists(store, clock)


@pytest.mark.parametrize("second", [12, 30])
async def test_two_rows_of_one_list_are_both_refused(lists: Lists, second: int) -> None:
    assert await lists.say(30, "erp.csv:2", NOON) == "accepted"
    assert await lists.say(second, "erp.csv:3", NOON) == "quarantined"
    assert lists.targets() == {30: "superseded"}
    assert "counted several times in one list" in lists.reason()
    assert "erp.csv:2" in lists.reason()
    assert "erp.csv:3" in lists.reason()


async def test_without_a_list_another_quantity_of_the_same_time_is_refused(
    lists: Lists,
) -> None:
    assert await lists.say(30) == "accepted"
    assert await lists.say(30) == "accepted"
    assert await lists.say(12) == "quarantined"


async def test_a_later_list_of_the_same_time_corrects_an_earlier_one(
    lists: Lists,
) -> None:
    assert await lists.say(30, "erp.csv:2", MORNING) == "accepted"
    assert await lists.say(12, "erp.csv:2", NOON) == "accepted"
    assert lists.targets() == {30: "superseded", 12: "planned"}


async def test_an_earlier_list_that_comes_later_changes_nothing(lists: Lists) -> None:
    assert await lists.say(12, "b.csv:2", NOON) == "accepted"
    assert await lists.say(30, "a.csv:2", MORNING) == "accepted"
    assert lists.targets() == {30: "superseded", 12: "planned"}


async def test_a_repeated_row_is_no_contradiction(lists: Lists) -> None:
    assert await lists.say(30, "stock 7", NOON) == "accepted"
    assert await lists.say(12, "stock 7", NOON) == "accepted"
    assert lists.targets() == {30: "superseded", 12: "planned"}


async def test_three_rows_of_one_list_leave_no_count(lists: Lists) -> None:
    for line in (2, 3, 4):
        await lists.say(line, f"erp.csv:{line}", NOON)
    assert lists.targets() == {2: "superseded"}


async def test_other_articles_lists_and_instances_do_not_contradict(
    lists: Lists, store: Store, clock: VirtualClock
) -> None:
    assert await lists.say(30, "erp.csv:2", NOON) == "accepted"
    variants = [payloads.variant("var_9", sku="LS-M")]
    product = payloads.product("prod_9", variants=variants)
    await append_and_fold(store, envelope("products/create", product))
    assert await lists.say(31, "erp.csv:3", NOON, sku="LS-M") == "accepted"
    other = host_of(ScriptedConnector("cellar"), store, clock=clock, wait_seconds=600)
    level = StockLevel(
        key="k", sku="LS-S", quantity=5, as_of=MORNING, listed_at=NOON, locator="c:2"
    )
    assert (await other.emit(level)).state == "accepted"


async def test_rows_of_an_article_that_is_not_known_yet_are_refused_together(
    store: Store, clock: VirtualClock
) -> None:
    lists = Lists(store, clock)
    assert await lists.say(30, "erp.csv:2", NOON, sku="NEW") == "waiting"
    assert await lists.say(12, "erp.csv:3", NOON, sku="NEW") == "waiting"
    variants = [payloads.variant("var_9", sku="NEW")]
    product = payloads.product("prod_9", variants=variants)
    await append_and_fold(store, envelope("products/create", product))
    await clock.advance(60)
    matched = await store.records.match(Matcher(clock, 600), 100)
    assert sorted(each.state for each in matched) == ["accepted", "quarantined"]
    assert set(lists.targets().values()) == {"superseded"}


async def test_the_row_that_an_operator_retries_counts(
    lists: Lists, store: Store, clock: VirtualClock
) -> None:
    await lists.say(30, "erp.csv:2", NOON)
    await lists.say(12, "erp.csv:3", NOON)
    await store.quarantine.retry(1, None, "ann", "recounted")
    await clock.advance(1)
    await store.records.match(Matcher(clock, 600), 100)
    assert lists.targets() == {30: "superseded", 12: "planned"}


async def test_a_note_on_a_corrected_value_is_kept(lists: Lists, store: Store) -> None:
    await lists.say(0, "erp.csv:2", NOON, note="-2 is taken as 0")
    assert rows_of(store.place, "records", "state", "reason") == [
        ("accepted", "-2 is taken as 0")
    ]


async def test_of_two_entries_of_a_journal_the_later_one_counts(lists: Lists) -> None:
    assert await lists.say(30, "counts 1", in_order=True) == "accepted"
    assert await lists.say(12, "counts 2", in_order=True) == "accepted"
    assert lists.targets() == {30: "superseded", 12: "planned"}


async def test_entries_of_a_journal_wait_for_their_article_the_last_one_counts(
    lists: Lists,
) -> None:
    late: dict[str, Any] = {"sku": "LATER", "in_order": True}
    assert await lists.say(30, "counts 1", **late) == "waiting"
    assert await lists.say(12, "counts 2", **late) == "waiting"
    found = rows_of(lists._store.place, "records", "locator", "state")
    assert found == [("counts 1", "replaced"), ("counts 2", "waiting")]
