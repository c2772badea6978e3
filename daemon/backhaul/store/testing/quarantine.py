"""Tests of the quarantine: its rows, and what an operator does with them."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from backhaul.core.identity import command_id
from backhaul.core.lifecycle import Cause
from backhaul.core.resources import Item, Shipment
from backhaul.errors import BackhaulError
from backhaul.store.inbox import Folded
from backhaul.store.matching import NewCommand
from backhaul.store.records import Matched, NewRecord, Unmatched
from backhaul.store.testing.command_scenes import (
    at,
    audit_entries,
    claimed,
    detail,
    in_brief,
    plan,
    resolve,
)
from backhaul.store.testing.event_scenes import fold_with, quarantined, webhook
from backhaul.store.testing.mirror_scenes import find_objects, rows_of, show_order
from backhaul.store.testing.scenes import StoreConformance

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.matching import MatchReader, WaitingRecord
    from backhaul.store.read_records import (
        ListedQuarantine,
    )
    from backhaul.store.records import MatchOne, QuarantinedRow
    from backhaul.store.testing.scenes import TestClock

NUMBER = "T-9"
SHIPPED = Item("li_1", "prod_1", "var_1", "SKU-1", "Lamp", 2, 2, 50)
NOTHING_CHANGED = "nothing was changed"


def document(order: str = "1001", kind: str = "fulfill", **members: Any) -> bytes:
    """Return the payload of a record that names an order."""
    return json.dumps({"kind": kind, "record": {"order": order, **members}}).encode()


def shipment(order: str = "1001", **members: Any) -> bytes:
    """Return the payload of a shipment with a tracking number."""
    members = {"tracking_number": NUMBER, "tracking_company": "BlueDart"} | members
    return document(order, **members)


def refuse(*_: object) -> Unmatched:
    """Quarantine every record."""
    return Unmatched("not now", final=True)


def wait(*_: object) -> Unmatched:
    """Let every record wait."""
    return Unmatched("not yet", final=False)


def match(record: WaitingRecord, _: MatchReader) -> Matched:
    """Make every record a command."""
    id_ = command_id(record.store, record.instance, record.key, "fulfill")
    return Matched(NewCommand(id_, "fulfill", "ord_1", "order:ord_1", {"n": 1}))


async def bad_record(
    store: Store,
    payload: bytes | None = None,
    key: str = "row",
    *,
    instance: str = "courier",
    by: MatchOne = refuse,
    can_apply: bool = False,
) -> int:
    """Quarantine a record of a connection; return its row."""
    new = NewRecord(key, payload, "a;b", "no order", f"file:{key}", can_apply=can_apply)
    await store.records.accept(instance, "main", [new], None, by)
    rows = await store.read(lambda reader: reader.quarantine(99))
    return next(each.id for each in rows if each.locator == f"file:{key}")


async def bad_event(
    store: Store,
    body: str = "{",
    name: str = "main",
    *,
    kind: str | None = None,
    object_id: str | None = None,
    topic: str = "orders/create",
) -> int:
    """Quarantine an event of a store; return its row."""
    event = await store.inbox.append(webhook(body, name, topic))
    outcome = Folded("quarantined", topic, None, kind, object_id, "no JSON")
    await fold_with(store, lambda *_: outcome)
    rows = await store.read(lambda reader: reader.quarantine(99))
    return next(each.id for each in rows if each.locator == f"event {event}")


async def listed(store: Store, limit: int = 9, before: int | None = None) -> list[int]:
    """Return the open rows of the quarantine, as operators list them."""
    rows = await rows_listed(store, limit, before)
    return [row.id for row in rows]


async def rows_listed(
    store: Store, limit: int = 9, before: int | None = None
) -> list[ListedQuarantine]:
    """Return a page of the open rows of the quarantine."""
    return await store.read(lambda reader: reader.quarantine(limit, before))


async def record_state(store: Store, key: str = "row") -> tuple[str, str]:
    """Return state and reason of a record of `courier`."""
    records = await store.read(lambda reader: reader.last_records("courier", 99))
    return next((each.state, each.reason) for each in records if each.key == key)


class QuarantineRowsConformance(StoreConformance):
    """Tests of the rows of the quarantine, as operators read them."""

    async def test_a_row_says_where_it_comes_from_and_why(
        self, store: Store, clock: TestClock
    ) -> None:
        record = await bad_record(store, document())
        clock.advance(5)
        event = await bad_event(store)
        first, second = await rows_listed(store)
        assert (first.id, second.id) == (event, record)
        assert (first.source, first.name, first.locator) == ("event", "main", "event 1")
        assert (first.reason, first.at) == ("no JSON", at(clock))
        assert (second.source, second.name) == ("record", "courier")
        assert (second.locator, second.reason) == ("file:row", "not now")
        assert second.at == at(clock, -5)
        row = await quarantined(store, event)
        assert (row.key, row.raw, row.state) == ("1", b"{", "open")
        assert (row.payload, row.store) == (None, None)
        row = await quarantined(store, record)
        assert (row.key, str(row.raw), row.reported) == ("row", "a;b", 0)
        assert (row.payload, row.store) == (document().decode(), "main")
        assert await store.read(lambda reader: reader.quarantined(99)) is None

    async def test_a_list_ends_and_continues(self, store: Store) -> None:
        rows = [await bad_record(store, document(), f"row {n}") for n in range(5)]
        rows.reverse()
        assert await listed(store, 2) == rows[:2]
        assert await listed(store, 2, rows[1]) == rows[2:4]
        assert await listed(store, 2, rows[3]) == rows[4:]
        assert await listed(store, 2, rows[4]) == []

    async def test_only_open_rows_are_listed(self, store: Store) -> None:
        first = await bad_record(store, document(), "first")
        second = await bad_record(store, document(), "second")
        third = await bad_event(store)
        await store.quarantine.retry(first, None, "ann", "seen")
        await store.quarantine.discard(third, "ann", "seen")
        assert await listed(store) == [second]
        counts = await store.read(lambda reader: reader.counts())
        assert counts.quarantined == 1

    async def test_a_row_names_its_object(self, store: Store) -> None:
        await show_order(store, "ord_1")
        named = json.dumps({"data": {"id": "ord_2", "number": 1002}})
        titled = json.dumps({"title": "Lamp"})
        expected = {
            await bad_event(store, kind="order", object_id="ord_1"): "order #1001",
            await bad_event(
                store, named, kind="order", object_id="ord_2"
            ): "order #1002",
            await bad_event(
                store, titled, kind="product", object_id="prod_1"
            ): "product Lamp",
            await bad_event(store, kind="order", object_id="ord_3"): "order ord_3",
            await bad_event(store): "",
            await bad_record(store, document("POS-1"), "order"): "order POS-1",
            await bad_record(
                store, b'{"kind":"adjust","record":{"sku":"S-1"}}', "sku"
            ): "sku S-1",
            await bad_record(store, None, "bad"): "",
            await bad_record(
                store,
                json.dumps(
                    {"read": {"values": {"order": ["", ""], "sku": ["S", ""]}}}
                ).encode(),
                "read",
            ): "sku S",
        }
        assert {row.id: row.about for row in await rows_listed(store)} == expected

    async def test_an_order_is_found_by_an_event_that_could_not_be_read(
        self, store: Store
    ) -> None:
        body = json.dumps({"id": "ord_7", "number": 1007})
        row = await bad_event(store, body, kind="order", object_id="ord_7")
        for name in ("1007", "#1007", "ord_7"):
            (found,) = await find_objects(store, "order", name)
            assert (found.store, found.id, found.name) == ("main", "ord_7", "#1007")
            assert f"quarantine show {row}" in found.facts["mirrored"]
        (hit,) = await store.read(lambda reader: reader.search("1007", None, 9))
        assert (hit.kind, hit.id, hit.title) == ("order", "ord_7", "#1007")
        for kind, name in (("order", "1008"), ("product", "1007")):
            assert await find_objects(store, kind, name) == []

    async def test_an_event_of_an_unknown_object_is_found_by_its_topic(
        self, store: Store
    ) -> None:
        await bad_event(store, '{"handle": "lamp"}', topic="products/update")
        (found,) = await store.read(
            lambda reader: reader.find_objects("product", "lamp")
        )
        assert found.id == "lamp"
        assert not await find_objects(store, "order", "lamp")


class QuarantineActionsConformance(StoreConformance):
    """Tests of `Store.quarantine`."""

    async def test_find_returns_the_row_with_its_record(self, store: Store) -> None:
        id_ = await bad_record(store, document())
        found = await store.quarantine.find(id_)
        assert (found.id, found.source, found.name) == (id_, "record", "courier")
        assert (found.key, found.locator, found.state) == ("row", "file:row", "open")
        assert (found.reason, found.payload) == ("not now", document().decode())
        assert (found.command_id, found.store) == (None, "main")
        bad = await store.quarantine.find(await bad_record(store, None, "bad"))
        assert bad.payload == "null"

    async def test_an_event_is_not_retried_here(self, store: Store) -> None:
        id_ = await bad_event(store)
        for action in (find, retry, correct):
            with pytest.raises(BackhaulError, match="reprocess"):
                await action(store, id_)
        assert await listed(store) == [id_]

    async def test_an_unknown_row_is_refused(self, store: Store) -> None:
        for action in (find, retry, correct, drop):
            with pytest.raises(BackhaulError, match="there is no row 7"):
                await action(store, 7)
        assert await audit_entries(store) == []

    async def test_a_retried_record_is_matched_again(
        self, store: Store, clock: TestClock
    ) -> None:
        id_ = await bad_record(store, document())
        clock.advance(60)
        state = await store.quarantine.retry(id_, None, "ann", "order is there")
        assert state == "waiting"
        assert await record_state(store) == ("waiting", "")
        assert (await quarantined(store, id_)).state == "retried"
        (entry,) = await audit_entries(store)
        assert in_brief(entry) == (
            "ann",
            "quarantine retry",
            f"row {id_} (courier file:row): order is there",
        )
        assert entry.at == at(clock)
        seen: list[WaitingRecord] = []

        def see(record: WaitingRecord, mirror: MatchReader) -> Matched:
            seen.append(record)
            return match(record, mirror)

        (outcome,) = await store.records.match(see, 9)
        assert outcome.state == "accepted"
        assert (seen[0].payload, seen[0].received_at) == (document(), at(clock))

    async def test_an_edited_record_has_its_new_content(self, store: Store) -> None:
        id_ = await bad_record(store, document("1oo1"))
        edited = document("1001")
        assert await store.quarantine.retry(id_, edited, "ann", "") == "waiting"
        (entry,) = await audit_entries(store)
        assert entry.action == "quarantine edit"
        assert (await quarantined(store, id_)).payload == edited.decode()
        assert [each.state for each in await store.records.match(match, 9)] == [
            "accepted"
        ]

    async def test_a_bad_row_is_retried_only_with_content(self, store: Store) -> None:
        id_ = await bad_record(store, None)
        with pytest.raises(BackhaulError, match="quarantine edit"):
            await retry(store, id_)
        assert await listed(store) == [id_]
        assert await audit_entries(store) == []
        state = await store.quarantine.retry(id_, document(), "ann", "seen")
        assert (state, await record_state(store)) == ("waiting", ("waiting", ""))

    async def test_a_row_that_its_connector_can_apply_is_approved(
        self, store: Store
    ) -> None:
        id_ = await bad_record(store, None, can_apply=True)
        assert await store.quarantine.retry(id_, None, "ann", "seen") == "approved"
        assert [each.key for each in await store.records.approved("courier")] == ["row"]
        assert await store.records.match(match, 9) == []

    async def test_a_record_that_fails_again_is_open_again(
        self, store: Store, clock: TestClock
    ) -> None:
        id_ = await bad_record(store, document())
        await store.records.mark_reported([id_])
        await retry(store, id_)
        clock.advance(60)
        await store.records.match(
            lambda *_: Unmatched("still not", final=True), limit=9
        )
        row = await quarantined(store, id_)
        assert (row.state, row.reason, row.at) == ("open", "still not", at(clock))
        (unreported,) = await store.records.unreported("courier", 9)
        assert (unreported.id, unreported.reason) == (id_, "still not")

    async def test_a_retried_row_is_not_changed_again(self, store: Store) -> None:
        id_ = await bad_record(store, shipment())
        await retry(store, id_)
        for action in (find, retry, correct, drop):
            with pytest.raises(BackhaulError, match=NOTHING_CHANGED):
                await action(store, id_)
        assert len(await audit_entries(store)) == 1

    async def test_a_dropped_record_stays_dropped(self, store: Store) -> None:
        id_ = await bad_record(store, document())
        await store.quarantine.discard(id_, "ann", "a test row")
        assert (await quarantined(store, id_)).state == "dropped"
        assert (await record_state(store))[0] == "dropped"
        (entry,) = await audit_entries(store)
        assert in_brief(entry) == (
            "ann",
            "quarantine discard",
            f"row {id_} (courier file:row): a test row",
        )
        new = NewRecord("row", document(), "a;b", "", "file:row")
        (again,) = await store.records.accept("courier", "main", [new], None, match)
        assert (again.state, again.reason) == ("duplicate", "discarded by an operator")
        assert await store.records.match(match, 9) == []
        with pytest.raises(BackhaulError, match=NOTHING_CHANGED):
            await drop(store, id_)

    async def test_a_dropped_record_can_be_retried(self, store: Store) -> None:
        id_ = await bad_record(store, document())
        await drop(store, id_)
        assert (await store.quarantine.find(id_)).state == "dropped"
        assert await store.quarantine.retry(id_, None, "ann", "seen") == "waiting"
        (outcome,) = await store.records.match(match, 9)
        assert outcome.state == "accepted"

    async def test_a_dropped_event_has_an_audit_entry(self, store: Store) -> None:
        id_ = await bad_event(store)
        await drop(store, id_)
        assert await listed(store) == []
        (entry,) = await audit_entries(store)
        assert entry.detail == f"row {id_} (main event 1): seen"

    async def test_an_action_touches_only_its_row(self, store: Store) -> None:
        first = await bad_record(store, document(), "row")
        other = await bad_record(store, document(), "other")
        foreign = await bad_record(store, document(), "row", instance="books")
        assert set(await listed(store)) == {first, other, foreign}
        await drop(store, first)
        assert set(await listed(store)) == {other, foreign}
        states = dict(rows_of(store, "records", "instance", "state", key="row"))
        assert states == {"courier": "dropped", "books": "quarantined"}


class QuarantineCorrectionConformance(StoreConformance):
    """Tests of `Quarantine.correct`: only a tracking number is sent."""

    async def test_only_the_number_is_sent(
        self, store: Store, clock: TestClock
    ) -> None:
        await show_order(store, "ord_1", items=(SHIPPED,))
        id_ = await bad_record(store, shipment())
        assert await can_correct(store, id_)
        command = await store.quarantine.correct(id_, "ann", "the label was changed")
        found = await detail(store, command)
        assert (found.kind, found.target, found.lane) == (
            *("fulfill", "ord_1", "order:ord_1"),
        )
        assert (found.state, found.instance) == ("planned", "courier")
        assert found.wanted == {
            "tracking_company": "BlueDart",
            "tracking_number": NUMBER,
            "lines": [],
            "number_only": True,
        }
        assert await record_state(store) == ("accepted", "only its number is sent")
        assert (await quarantined(store, id_)).state == "retried"
        (entry,) = await audit_entries(store)
        assert in_brief(entry) == (
            "ann",
            "quarantine correct",
            f"row {id_} (courier file:row): the label was changed",
        )
        with pytest.raises(BackhaulError, match=NOTHING_CHANGED):
            await correct(store, id_)

    async def test_it_is_the_same_command_after_a_restore(self, store: Store) -> None:
        await show_order(store, "ord_1", items=(SHIPPED,))
        id_ = await bad_record(store, shipment())
        command = await store.quarantine.correct(id_, "ann", "seen")
        assert command == command_id("main", "courier", "row:number", "fulfill")

    @pytest.mark.parametrize(
        ("payload", "problem"),
        [
            (document(), "not a shipment with a tracking number"),
            (document(kind="cancel", tracking_number=NUMBER), "not a shipment"),
            (shipment("1009"), "is not known"),
            (shipment("ord_2"), "2 open units"),
            (shipment("ord_3"), "is cancelled"),
            (shipment("ord_4"), "already shows the number"),
            (shipment("TWICE"), "could be any of several orders"),
        ],
    )
    async def test_a_row_that_needs_more_than_a_number_is_refused(
        self, payload: bytes, problem: str, store: Store
    ) -> None:
        whole: dict[str, Any] = {"items": (SHIPPED,)}
        parcel = Shipment("shp_1", None, NUMBER, None)
        await show_order(store, "ord_2")
        await show_order(
            store, "ord_3", cancelled_at="2026-03-01T11:00:00.000Z", **whole
        )
        await show_order(store, "ord_4", shipments=(parcel,), **whole)
        for id_ in ("ord_5", "ord_6"):
            await show_order(store, id_, external_id="TWICE", **whole)
        row = await bad_record(store, payload)
        assert not await can_correct(store, row)
        with pytest.raises(BackhaulError, match=problem):
            await correct(store, row)
        assert await listed(store) == [row]
        assert await audit_entries(store) == []
        assert await store.read(lambda reader: reader.open_commands("planned", 9)) == []

    async def test_open_units_that_a_command_may_have_shipped_are_open(
        self, store: Store
    ) -> None:
        """The mirror decides: what no event shows may not have shipped."""
        await show_order(store, "ord_1")
        await plan(store, "fulfill", "ord_1")
        (command,) = await claimed(store)
        await resolve(store, command, Cause.CONFIRMED)
        row = await bad_record(store, shipment())
        with pytest.raises(BackhaulError, match="2 open units"):
            await correct(store, row)
        fulfilled = replace(SHIPPED, fulfilled_quantity=3)
        await show_order(store, "ord_1", 1, items=(fulfilled,))
        assert await can_correct(store, row)


async def can_correct(store: Store, id_: int) -> bool:
    """Return whether the row's number can be sent alone."""
    return await store.read(lambda reader: reader.can_correct(id_))


async def find(store: Store, id_: int) -> QuarantinedRow:
    """Find a row."""
    return await store.quarantine.find(id_)


async def retry(store: Store, id_: int) -> str:
    """Retry a row."""
    return await store.quarantine.retry(id_, None, "ann", "seen")


async def correct(store: Store, id_: int) -> str:
    """Send the number of a row."""
    return await store.quarantine.correct(id_, "ann", "seen")


async def drop(store: Store, id_: int) -> None:
    """Discard a row."""
    await store.quarantine.discard(id_, "ann", "seen")
