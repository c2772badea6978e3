"""Tests of records: accepted with their cursor, matched, waiting, or quarantined."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from backhaul.store.matching import NewCommand, NewTarget
from backhaul.store.records import Known, Matched, NewRecord, Unmatched
from backhaul.store.testing.command_scenes import claimed, count_commands, detail
from backhaul.store.testing.mirror_scenes import show_level, show_order, show_product
from backhaul.store.testing.scenes import StoreConformance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.store import Store
    from backhaul.store.matching import MatchReader, WaitingRecord
    from backhaul.store.mirror import OrderSummary
    from backhaul.store.read_records import ListedQuarantine, ListedRecord
    from backhaul.store.records import MatchOne, RecordOutcome
    from backhaul.store.testing.scenes import OpenStore, TestClock


def new(key: str, order: str = "1001", raw: str = "a;b") -> NewRecord:
    """Return a record that names an order."""
    payload = b'{"kind":"note","record":{"order":"%s"}}' % order.encode()
    return NewRecord(key, payload, raw, "", f"file:{key}")


def bad(key: str) -> NewRecord:
    """Return a row that the connector could not read."""
    return NewRecord(key, None, "a;b", "no order", f"file:{key}")


def match(record: WaitingRecord, mirror: MatchReader) -> Matched | Unmatched:
    """Match a record to the order that it names."""
    name = record.payload.decode().split('"')[-2]
    orders = mirror.orders_named(record.store, name)
    if not orders:
        return Unmatched(f"order {name} is not known", final=False)
    id_ = f"{record.instance}-{record.key}".ljust(32, "0")
    target = orders[0].id
    return Matched(NewCommand(id_, "fulfill", target, f"order:{target}", {"n": 1}))


def failing_on(key: str) -> MatchOne:
    """Return a matcher that fails at one record."""

    def fail(record: WaitingRecord, mirror: MatchReader) -> Matched | Unmatched:
        found = match(record, mirror)
        if record.key == key:
            raise ZeroDivisionError(f"of {key}")
        return found

    return fail


async def accept(
    store: Store,
    *records: NewRecord,
    cursor: str | None = None,
    instance: str = "courier",
    by: MatchOne = match,
) -> list[str]:
    """Accept records of a connection; return their states."""
    found = await store.records.accept(instance, "main", records, cursor, by)
    return states(found)


async def match_again(store: Store, limit: int = 9, by: MatchOne = match) -> list[str]:
    """Match the waiting records again; return their states."""
    return states(await store.records.match(by, limit))


def states(found: Sequence[RecordOutcome]) -> list[str]:
    """Return the states of outcomes."""
    return [outcome.state for outcome in found]


async def last_records(store: Store) -> list[ListedRecord]:
    """Return the records of the connection, the newest first."""
    return await store.read(lambda reader: reader.last_records("courier", 99))


async def quarantine(store: Store) -> list[ListedQuarantine]:
    """Return the open rows of the quarantine."""
    return await store.read(lambda reader: reader.quarantine(99))


class RecordsConformance(StoreConformance):
    """Tests of `Store.records`."""

    async def test_a_key_that_no_column_holds_is_refused_alone(
        self, store: Store
    ) -> None:
        """A connector may break its own types."""
        odd = new(cast("str", ("k", 1)))
        with pytest.raises(Exception, match="tuple"):
            await accept(store, odd)
        assert await accept(store, new("first")) == ["waiting"]
        assert [record.key for record in await last_records(store)] == ["first"]

    async def test_a_record_its_cursor_and_its_command_are_committed_together(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1")
        assert await store.records.cursor("courier") is None
        assert await accept(store, new("first"), cursor="7") == ["accepted"]
        assert await store.records.cursor("courier") == "7"
        assert await store.records.cursor("books") is None
        (record,) = await last_records(store)
        assert (record.key, record.state) == ("first", "accepted")
        shown = await detail(store, record.command_id or "")
        assert (shown.state, shown.target, shown.store) == ("planned", "ord_1", "main")
        assert (shown.instance, shown.cause) == ("courier", "record courier file:first")
        assert shown.record is not None
        assert (shown.record.key, shown.record.locator) == ("first", "file:first")

    async def test_a_cursor_stays_unless_a_new_one_is_given(
        self, store: Store, open_store: OpenStore
    ) -> None:
        await accept(store, cursor="7")
        await accept(store, bad("row"))
        await accept(store, cursor="9", instance="books")
        again = await open_store()
        assert await again.records.cursor("courier") == "7"

    async def test_a_record_that_comes_again_is_one_command(self, store: Store) -> None:
        await show_order(store, "ord_1")
        once = await accept(store, new("first"), new("first"))
        again = await accept(store, new("first"))
        assert once + again == ["accepted", "duplicate", "duplicate"]
        assert len(await last_records(store)) == await count_commands(store) == 1

    async def test_the_same_key_of_two_connections_is_two_records(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1")
        await show_order(store, "ord_2")
        await accept(store, new("first"))
        other = new("first", "1002")
        assert await accept(store, other, instance="books") == ["accepted"]
        assert await accept(store, other, instance="books") == ["duplicate"]
        assert await count_commands(store) == 2

    async def test_other_content_under_a_known_key_is_quarantined_once(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1")
        await show_order(store, "ord_2")
        await accept(store, new("first"))
        assert await accept(store, new("first", "1002")) == ["conflict"]
        assert await accept(store, new("first", "1002")) == ["duplicate"]
        (row,) = await quarantine(store)
        assert row.reason.startswith("an earlier record with the same key")
        assert await count_commands(store) == 1

    async def test_a_record_that_reports_what_is_done_is_a_duplicate(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1")
        await accept(store, new("first"))
        (first,) = await last_records(store)
        known = Known(first.command_id, "it left already")
        states_ = await accept(store, new("second"), by=lambda *_: known)
        assert states_ == ["duplicate"]
        second = (await last_records(store))[0]
        assert (second.state, second.reason) == ("accepted", "it left already")
        assert second.command_id == first.command_id

    async def test_a_failed_match_is_quarantined_and_the_others_go_on(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1")
        batch = [new("first"), new("second"), new("third")]
        found = await accept(store, *batch, cursor="7", by=failing_on("second"))
        assert found == ["accepted", "quarantined", "accepted"]
        (row,) = await quarantine(store)
        assert row.reason == "cannot be matched: ZeroDivisionError: of second"
        assert await store.records.cursor("courier") == "7"
        assert await accept(store, new("second")) == ["accepted"]
        assert await quarantine(store) == []
        assert await count_commands(store) == 3

    async def test_a_match_that_fails_half_way_leaves_nothing(
        self, store: Store
    ) -> None:
        await show_product(store)
        too_large = NewTarget("a" * 32, "prod_1", "var_1", 1 << 70, "2026-03-01")
        found = await accept(store, new("first"), by=lambda *_: Matched(too_large))
        assert found == ["quarantined"]
        assert await count_commands(store) == 0

    async def test_a_bad_row_is_quarantined_once(self, store: Store) -> None:
        await show_order(store, "ord_1")
        found = await accept(store, bad("row"), new("first"), bad("row"))
        assert found == ["quarantined", "accepted", "duplicate"]
        (row,) = await quarantine(store)
        assert (row.source, row.name) == ("record", "courier")
        assert (row.reason, row.locator) == ("no order", "file:row")
        shown = await store.read(lambda reader: reader.quarantined(row.id))
        assert shown is not None
        assert (shown.key, shown.store) == ("row", "main")

    async def test_bad_rows_are_reported_once_the_oldest_first(
        self, store: Store
    ) -> None:
        await accept(store, *(bad(f"row-{number}") for number in range(3)))
        assert await store.records.unreported("books", 9) == []
        reported = []
        while rows := await store.records.unreported("courier", 2):
            await store.records.mark_reported([row.id for row in rows])
            reported.append([row.key for row in rows])
            assert (rows[0].raw, rows[0].reason) == ("a;b", "no order")
        assert reported == [["row-0", "row-1"], ["row-2"]]

    async def test_an_unmatched_record_waits_and_is_matched_later(
        self, store: Store, clock: TestClock
    ) -> None:
        assert not await store.records.any_waiting()
        assert await accept(store, new("first")) == ["waiting"]
        assert await store.records.any_waiting()
        clock.advance(1)
        assert await match_again(store) == ["waiting"]
        await show_order(store, "ord_1")
        clock.advance(1)
        assert await match_again(store) == ["accepted"]
        assert await match_again(store) == []
        assert not await store.records.any_waiting()
        assert [command.target for command in await claimed(store)] == ["ord_1"]

    async def test_an_order_of_another_store_does_not_match(self, store: Store) -> None:
        await show_order(store, "ord_1", name="other")
        assert await accept(store, new("first")) == ["waiting"]

    async def test_records_that_are_due_longest_are_matched_first(
        self, store: Store, clock: TestClock
    ) -> None:
        await accept(store, *(new(f"key-{number}") for number in range(3)))
        found = [
            [outcome.record.key for outcome in await store.records.match(match, 2)]
            for _ in range(3)
        ]
        assert found == [["key-0", "key-1"], ["key-2"], []]
        clock.advance(1)
        assert len(await match_again(store)) == 3

    async def test_a_clock_that_was_set_back_delays_no_record(
        self, store: Store, clock: TestClock
    ) -> None:
        await accept(store, new("first"))
        clock.set_by(-86_400)
        assert await match_again(store) == ["waiting"]
        assert await match_again(store) == []

    async def test_the_reason_of_a_waiting_record_is_the_newest(
        self, store: Store, clock: TestClock
    ) -> None:
        for number, reason in enumerate(("order", "SKU")):
            found = Unmatched(reason, final=False)
            await accept(store, new("first"), by=lambda *_, f=found: f)
            clock.advance(number + 1)
            await match_again(store, by=lambda *_, f=found: f)
            (record,) = await last_records(store)
            assert (record.state, record.reason) == ("waiting", reason)

    async def test_waiting_records_are_listed_with_their_reason_the_oldest_first(
        self, store: Store, clock: TestClock
    ) -> None:
        await accept(store, new("old"))
        clock.advance(1)
        await accept(store, new("late", "ord_2"))
        await show_order(store, "ord_3")
        await accept(store, new("matched", "ord_3"))
        rows = await store.read(lambda reader: reader.waiting_records(9))
        assert [row.key for row in rows] == ["old", "late"]
        (first,) = await store.read(lambda reader: reader.waiting_records(1))
        assert first == rows[0]
        assert (first.instance, first.store) == ("courier", "main")
        assert first.reason

    async def test_a_record_that_cannot_be_matched_is_quarantined(
        self, store: Store, clock: TestClock
    ) -> None:
        await accept(store, new("first"), new("second"))
        clock.advance(1)
        final = Unmatched("waited too long", final=True)
        assert await match_again(store, 1, lambda *_: final) == ["quarantined"]
        (row,) = await quarantine(store)
        assert (row.reason, row.locator) == ("waited too long", "file:first")
        await show_order(store, "ord_1")
        assert await match_again(store) == ["accepted"]
        assert await count_commands(store) == 1

    async def test_a_waiting_record_with_other_content_replaces_the_first(
        self, store: Store, clock: TestClock
    ) -> None:
        await accept(store, new("first", "1009"))
        assert await accept(store, new("first", "1001")) == ["waiting"]
        await show_order(store, "ord_1")
        clock.advance(1)
        assert await match_again(store) == ["accepted"]
        assert len(await last_records(store)) == 1

    async def test_a_row_that_an_operator_approved_is_applied_by_its_connector(
        self, store: Store
    ) -> None:
        row = NewRecord("row", None, "a;b", "no order", "file:2", can_apply=True)
        await accept(store, row, bad("other"))
        assert await store.records.approved("courier") == []
        found = {each.locator: each.id for each in await quarantine(store)}
        state = await store.quarantine.retry(found["file:2"], None, "ann", "seen")
        assert state == "approved"
        (approved,) = await store.records.approved("courier")
        assert (approved.key, approved.raw) == ("row", "a;b")
        assert await store.records.approved("books") == []
        await store.records.mark_applied(approved.id)
        assert await store.records.approved("courier") == []


async def read(store: Store, query: str) -> list[OrderSummary]:
    """Return the orders with a name, as a matcher finds them."""
    found: list[OrderSummary] = []

    def find(record: WaitingRecord, mirror: MatchReader) -> Unmatched:
        found.extend(mirror.orders_named(record.store, query))
        return Unmatched("", final=True)

    key = f"find-{query}"
    await store.records.accept("reader", "main", [new(key)], None, find)
    return found


class MatchReaderConformance(StoreConformance):
    """Tests of `MatchReader`, which reads the mirror for matching."""

    async def test_an_order_is_found_by_each_of_its_names(self, store: Store) -> None:
        await show_order(store, "ord_1", external_id="POS-1")
        await show_order(store, "ord_2")
        await show_order(store, "ord_3", name="other", external_id="POS-3")
        for name in ("1001", "#1001", "ord_1", "POS-1"):
            assert [found.id for found in await read(store, name)] == ["ord_1"]
        for name in ("1003", "POS-3", "100", "", "' OR 1=1 --", "9" * 40):
            assert await read(store, name) == []

    async def test_all_orders_with_a_name_are_found(self, store: Store) -> None:
        await show_order(store, "ord_1")
        await show_order(store, "ord_2", external_id="1001")
        found = {order.id for order in await read(store, "1001")}
        assert found == {"ord_1", "ord_2"}

    async def test_variants_are_found_by_sku_in_their_store(self, store: Store) -> None:
        await show_product(store, "prod_1")
        await show_product(store, "prod_2", name="other")
        found: dict[str, list[tuple[str, str]]] = {}

        def find(record: WaitingRecord, mirror: MatchReader) -> Unmatched:
            for sku in ("SKU-1", "SKU-2", "SKU"):
                found[sku] = mirror.variants_with_sku(record.store, sku)
            return Unmatched("", final=True)

        await accept(store, new("find"), by=find)
        assert found == {"SKU-1": [("prod_1", "var_1")], "SKU-2": [], "SKU": []}

    async def test_names_stand_for_what_the_mirror_shows(self, store: Store) -> None:
        await show_order(store, "ord_1")
        await show_product(store, "prod_1")
        await show_level(store, 5)
        found = await store.records.find_names("main", ["1001", "SKU-1", "none"])
        assert list(found) == ["1001", "SKU-1", "none"]
        assert found["1001"] != found["none"]
        assert found["SKU-1"] != found["none"]
        other = await store.records.find_names("other", ["1001", "SKU-1"])
        assert set(other.values()) == {found["none"]}
