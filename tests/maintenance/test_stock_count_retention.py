"""Old stock counts that changed nothing are deleted, and never applied again."""

from __future__ import annotations

from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.connect.record_matching import Matcher, encode
from backhaul.core.clock import SystemClock, to_text
from backhaul.store.records import NewRecord
from backhaul.store.sql.operations.retention import COUNT_BATCH
from backhaul_sdk import Fulfillment, StockLevel
from scenes.clock import START, VirtualClock
from scenes.damaged_rows import insert
from scenes.databases import started_store
from scenes.stock_counts import ERP, STORE, StockSystem, now, stock_system
from scenes.stored import rows_of, values_of

if TYPE_CHECKING:
    from pathlib import Path

    from backhaul.store import Place, Store

_KEYS = count(1)


def keys(place: Place) -> list[str]:
    """Return the keys of the records, in order of arrival."""
    return values_of(place, "records", "key")


async def prune(store: Store, before: str, slice_seconds: float = 1.0) -> int:
    """Prune until nothing is left to do; return the number of deleted counts."""
    total, more = 0, True
    while more:
        step = await store.retention.prune(before, slice_seconds)
        total, more = total + step.counts, step.more
    return total


def later() -> str:
    """Return a time at which everything so far is old."""
    return to_text(SystemClock().now() + timedelta(hours=1))


class CountedProduct:
    """A product whose stock the back office counts repeatedly."""

    def __init__(self, system: StockSystem, product: Any) -> None:
        self.system = system
        self.lamp = product

    def level(self, quantity: int, as_of: str = "", listed_at: str = "") -> StockLevel:
        return StockLevel(
            key=f"shelf-{next(_KEYS)}",
            sku=self.lamp["variants"][0]["sku"],
            quantity=quantity,
            as_of=as_of or now(),
            listed_at=listed_at,
        )

    async def submit_count(
        self,
        quantity: int,
        as_of: str = "",
        state: str = "applied",
        listed_at: str = "",
    ) -> StockLevel:
        """Submit a count, and wait until it is applied."""
        level = self.level(quantity, as_of, listed_at)
        assert await self.submit(level) == "accepted"
        await self.system.await_state(self.system.command_of(level.key), state)
        return level

    async def submit(self, level: StockLevel) -> str:
        """Submit a count, new or repeated; return the result."""
        new = NewRecord(level.key, encode(level), "", "", level.key)
        (outcome,) = await self.system.store.records.accept(
            ERP, STORE, [new], None, self.system.matcher
        )
        self.system.sender.context.signals.command_changed.emit()
        return outcome.state

    def remaining(self, *levels: StockLevel) -> list[bool]:
        """Return for each count whether its record and its other rows exist."""
        found = {*keys(self.system.place)}
        targets = values_of(self.system.place, "stock_targets", "id")
        assert {*targets} <= {*values_of(self.system.place, "records", "command_id")}
        assert len(targets) == len(found)
        return [level.key in found for level in levels]


async def test_a_count_that_changed_nothing_goes_once_it_was_counted_again(
    database: Place,
    tmp_path: Path,
) -> None:
    async with stock_system(database, tmp_path) as system:
        shelf = CountedProduct(system, await system.add_product(10))
        right = await shelf.submit_count(10)
        step = await shelf.submit_count(7)
        again = await shelf.submit_count(7)
        newest = await shelf.submit_count(7)
        young = to_text(SystemClock().now() - timedelta(days=1))
        assert await prune(system.store, young) == 0
        assert await prune(system.store, later()) == 2
        assert shelf.remaining(right, step, again, newest) == [False, True, False, True]
        assert await prune(system.store, later()) == 0


async def test_a_repeated_count_is_not_applied_after_its_removal(
    database: Place,
    tmp_path: Path,
) -> None:
    async with stock_system(database, tmp_path) as system:
        shelf = CountedProduct(system, await system.add_product(10))
        first = await shelf.submit_count(10)
        second = await shelf.submit_count(7)
        third = await shelf.submit_count(7)
        assert await prune(system.store, later()) == 1
        assert shelf.remaining(first, second, third) == [False, True, True]
        assert await shelf.submit(third) == "duplicate"
        assert await shelf.submit(first) == "accepted"
        assert system.state(system.command_of(first.key)) == "superseded"
        await shelf.submit_count(7)
        assert system.adjustments(system.command_of(first.key)) == []
        assert await system.stock(shelf.lamp) == 7


async def test_of_two_of_one_moment_the_first_stays(
    database: Place, tmp_path: Path
) -> None:
    """If it was deleted, its repetition would be applied as the later one."""
    async with stock_system(database, tmp_path) as system:
        shelf, moment = CountedProduct(system, await system.add_product(10)), now()
        first = await shelf.submit_count(10, moment)
        second = await shelf.submit_count(9, moment, listed_at=now())
        await system.submit_count(await system.add_product(1), 1)
        assert await prune(system.store, later()) == 0
        assert await shelf.submit(first) == "duplicate"
        assert shelf.remaining(first, second) == [True, True]
        assert await system.stock(shelf.lamp) == 9


@pytest.mark.parametrize("dropped", [False, True])
async def test_a_count_without_a_lasting_replacement_stays(
    database: Place, tmp_path: Path, dropped: bool
) -> None:
    async with stock_system(
        database, tmp_path, counts={ERP: {"max_step": 5}}
    ) as system:
        shelf = CountedProduct(system, await system.add_product(10))
        true = await shelf.submit_count(10)
        parked = await shelf.submit_count(100, state="parked")
        if dropped:
            await system.decide(system.command_of(parked.key), "discard")
        await system.submit_count(await system.add_product(1), 1)
        assert await prune(system.store, later()) == 0
        assert shelf.remaining(true, parked) == [True, True]


async def test_a_count_that_an_operator_decided_stays(
    database: Place, tmp_path: Path
) -> None:
    async with stock_system(
        database, tmp_path, counts={ERP: {"max_step": 5}}
    ) as system:
        shelf = CountedProduct(system, await system.add_product(10))
        decided = await shelf.submit_count(100, state="parked")
        await system.decide(system.command_of(decided.key), "resolve --applied")
        nobodys = await shelf.submit_count(10)
        newest = await shelf.submit_count(10)
        assert await prune(system.store, later()) == 1
        assert shelf.remaining(decided, nobodys, newest) == [True, False, True]


async def test_the_newest_of_an_instance_stays_whatever_it_is(
    database: Place, tmp_path: Path
) -> None:
    """It shows when the connection last submitted a record."""
    async with stock_system(database, tmp_path) as system:
        shelf = CountedProduct(system, await system.add_product(10))
        await shelf.submit_count(10)
        minute_ago = to_text(SystemClock().now() - timedelta(minutes=1))
        late = await shelf.submit_count(3, minute_ago, state="superseded")
        await system.submit_count(await system.add_product(1), 1, by="another")
        assert await prune(system.store, later()) == 0
        assert shelf.remaining(late) == [True]


async def test_the_newest_command_stays_as_its_number_would_be_given_again(
    database: Place,
    tmp_path: Path,
) -> None:
    async with stock_system(database, tmp_path) as system:
        shelf = CountedProduct(system, await system.add_product(10))
        await shelf.submit_count(10)
        minute_ago = to_text(SystemClock().now() - timedelta(minutes=1))
        late = await shelf.submit_count(3, minute_ago, state="superseded")
        await system.submit(
            Fulfillment(key="parcel", order="nobody's", everything=True)
        )
        assert await prune(system.store, later()) == 0
        assert system.state(system.command_of(late.key)) == "superseded"


async def test_a_count_that_was_in_quarantine_stays(
    database: Place, tmp_path: Path
) -> None:
    async with stock_system(database, tmp_path) as system:
        shelf = CountedProduct(system, await system.add_product(10))
        mended = shelf.level(10)
        bad = NewRecord(mended.key, None, "10 or so", "is no number", "")
        await system.store.records.accept(ERP, STORE, [bad], None, system.matcher)
        assert await shelf.submit(mended) == "accepted"
        await system.await_state(system.command_of(mended.key), "applied")
        usual = await shelf.submit_count(10)
        newest = await shelf.submit_count(10)
        assert await prune(system.store, later()) == 1
        assert shelf.remaining(mended, usual, newest) == [True, False, True]


@pytest.mark.parametrize("slice_seconds", [0.0, 1.0])
async def test_a_slice_ends_when_its_time_is_over(
    database: Place, slice_seconds: float
) -> None:
    clock = VirtualClock()
    async with started_store(database, clock) as store:
        matcher = Matcher(clock, 60)
        for number in range(3 * COUNT_BATCH):
            level = StockLevel(
                key=f"k{number}", sku="NONE", quantity=1, as_of=to_text(clock.now())
            )
            records = [record(level.key, level)]
            await store.records.accept("erp", "main", records, None, matcher)
        await clock.advance(60)
        step = await store.retention.prune(to_text(clock.now()), slice_seconds)
        assert step.counts == (3 * COUNT_BATCH - 1 if slice_seconds else COUNT_BATCH)
        assert step.more


async def test_after_a_restore_counts_with_an_adopted_effect_are_kept(
    database: Place,
    tmp_path: Path,
) -> None:
    async with stock_system(database, tmp_path) as system:
        shelf = CountedProduct(system, await system.add_product(10))
        await shelf.submit_count(10)
        await shelf.submit_count(7)
        await shelf.submit_count(7)
        columns = ("store", "adjustment_id", "at")
        ((name, id_, moment),) = rows_of(
            system.place, "stock_ledger", *columns, adjustment=-3
        )
        adopted = {"store": name, "adjustment_id": id_, "at": moment}
        made_by = {"command_id": "of before", "evidence": "{}"}
        insert(system.place, "adopted_effects", **adopted, **made_by)
        assert await prune(system.store, later()) == 0


def record(key: str, record: Fulfillment | StockLevel) -> NewRecord:
    return NewRecord(key, encode(record), "", "", key)


@pytest.mark.parametrize("slice_seconds", [0.0, 1.0])
async def test_of_an_unknown_article_only_the_newest_stays(
    database: Place, slice_seconds: float
) -> None:
    clock = VirtualClock()
    async with started_store(database, clock) as store:
        matcher = Matcher(clock, 60)
        parcel = Fulfillment(key="parcel", order="1001", everything=True)
        for number in range(150):
            level = StockLevel(
                key=f"k{number}", sku="NONE", quantity=1, as_of=to_text(clock.now())
            )
            records = [record(level.key, level)]
            records += [record("parcel", parcel)] * (number == 75)
            await store.records.accept("erp", "main", records, None, matcher)
            await clock.advance(1)
        assert await prune(store, to_text(START), slice_seconds) == 0
        old = to_text(clock.now() + timedelta(days=1))
        assert await prune(store, old, slice_seconds) == 149
        assert keys(store.place) == ["parcel", "k149"]


async def test_a_count_that_is_read_again_each_time_blocks_no_removal_of_others(
    database: Place,
) -> None:
    clock = VirtualClock()
    async with started_store(database, clock) as store:
        matcher = Matcher(clock, 0)
        other = StockLevel(
            key="other", sku="OTHER", quantity=1, as_of=to_text(clock.now())
        )
        await store.records.accept(
            "erp", "main", [record("other", other)], None, matcher
        )
        for number in range(3):
            level = StockLevel(
                key=f"k{number}", sku="NONE", quantity=1, as_of=to_text(clock.now())
            )
            records = [record(level.key, level)]
            await store.records.accept("erp", "main", records, None, matcher)
            await clock.advance(1)
            await store.records.match(matcher, 10)
        old = to_text(clock.now())
        await clock.advance(60)
        again = [record("other", other)]
        await store.records.accept("erp", "main", again, None, matcher)
        assert await prune(store, old) == 2
        assert keys(store.place) == ["other", "k2"]


async def test_a_count_from_a_clock_that_was_ahead_blocks_no_removal_of_others(
    database: Place,
) -> None:
    """Otherwise it would look recent for as long as the clock was ahead."""
    clock = VirtualClock()
    async with started_store(database, clock) as store:
        matcher = Matcher(clock, 60)
        for number, ahead_seconds in enumerate((0, 1_000_000, 0, 0)):
            await clock.advance(1 + ahead_seconds)
            level = StockLevel(
                key=f"k{number}", sku="NONE", quantity=1, as_of=f"2026-02-0{number + 1}"
            )
            records = [record(level.key, level)]
            await store.records.accept("erp", "main", records, None, matcher)
            clock.set_back(ahead_seconds)
        await clock.advance(60)
        assert await prune(store, to_text(clock.now())) == 3
        assert keys(store.place) == ["k3"]
