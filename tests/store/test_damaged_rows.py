"""F10: rows that a failing disk has changed are reported and not used."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core.identity import digest_of, is_intact
from backhaul.core.lifecycle import Cause, State
from backhaul.ingest.topics import decode_event
from backhaul.store.commands import Attempt, Sendable, Transition
from backhaul.store.deliveries import Subscriber
from backhaul.store.inbox import Selection
from backhaul.store.records import Known, NewRecord, Unmatched
from scenes import payloads
from scenes.clock import VirtualClock
from scenes.commands import plan
from scenes.databases import append_and_fold, rows, started_store, write

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from backhaul.store.inbox import Decoded, StoredEvent
    from backhaul.store.matching import Command, MatchReader, WaitingRecord
    from backhaul.store.sqlite.database import SqliteStore

ALL = {"cancel": "9999", "fulfill": "9999", "adjust": "9999"}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with started_store(tmp_path / "backhaul.db", VirtualClock()) as started:
        yield started


def change(path: Path, sql: str, *values: Any) -> None:
    """Change a row directly, without the store."""
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(sql, values).rowcount == 1


def prepare(command: Command, _: MatchReader) -> Sendable:
    return Sendable(command.id.encode(), "mark")


def fold(event: StoredEvent) -> Decoded:
    return decode_event(event, store_id=None, currency="INR")


def match_nothing(_: WaitingRecord, __: MatchReader) -> Unmatched:
    return Unmatched("the order is unknown", final=False)


def state_and_reason(store: SqliteStore, command: str) -> tuple[Any, ...]:
    query = "SELECT state, reason FROM commands WHERE id = ?"
    return rows(store.path, query, command)[0]


@pytest.mark.parametrize(
    ("before", "after"),
    [(("ab", "c"), ("a", "bc")), (("ab",), ("aB",)), ((b"",), ())],
)
def test_values_and_where_they_end_make_the_digest(
    before: tuple[Any, ...], after: tuple[Any, ...]
) -> None:
    assert is_intact(digest_of(before), before)
    assert not is_intact(digest_of(before), after)
    assert is_intact(None, after)


async def test_a_body_that_changed_is_quarantined(store: SqliteStore) -> None:
    body = payloads.envelope("orders/create", payloads.order())
    for _ in range(2):
        await store.inbox.append(payloads.arrival(body))
    changed = body.replace(b'"number":1001', b'"number":1003')
    changed = changed if changed != body else body.replace(b"1001", b"1003", 1)
    assert changed != body
    change(store.path, "UPDATE inbox SET body = ? WHERE id = 1", changed)
    await store.inbox.fold(fold, 1.0)
    query = "SELECT state, detail FROM events ORDER BY id"
    (first, detail), (second, _) = rows(store.path, query)
    assert (first, second) == ("quarantined", "folded")
    assert "the disk or the database file is damaged" in detail


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("payload", '{"reason":"FRAUD"}'),
        ("payload", b"{\xff"),
        ("target", "ord_9"),
        ("kind", "fulfill"),
    ],
)
async def test_a_changed_command_is_parked_and_never_claimed(
    column: str, value: str | bytes, store: SqliteStore
) -> None:
    bad = await plan(store, "cancel", "ord_1")
    good = await plan(store, "cancel", "ord_2")
    change(
        store.path,
        f"UPDATE commands SET {column} = CAST(? AS TEXT) WHERE id = ?",  # noqa: S608 - ours
        value,
        bad,
    )
    claimed = await store.commands.claim("main", ALL, 9, prepare)
    assert [command.id for command, _ in claimed] == [good]
    state, reason = state_and_reason(store, bad)
    assert state == "parked"
    assert "the stored command is damaged" in reason


async def test_a_changed_request_is_parked_and_never_sent_again(
    store: SqliteStore,
) -> None:
    bad, good = [await plan(store, "cancel", order) for order in ("ord_1", "ord_2")]
    for command, _ in await store.commands.claim("main", ALL, 9, prepare):
        attempt = Attempt("2026-03-01T12:00:00.000Z", "x", None, "why", None)
        step = Transition((Cause.UNKNOWN,), "why", due_at="2026-03-01T12:00:00.000Z")
        assert (
            await store.commands.record_attempt(command, attempt, step)
            is State.UNCERTAIN
        )
    change(store.path, "UPDATE commands SET request = x'00' WHERE id = ?", bad)
    assert [doubt.command.id for doubt in await store.uncertain.due("main", 9)] == [
        good
    ]
    assert state_and_reason(store, bad)[0] == "parked"


@pytest.mark.parametrize("column", ["store", "kind", "topic", "received_at"])
async def test_a_damaged_event_is_quarantined(column: str, store: SqliteStore) -> None:
    for order in ("ord_1", "ord_2", "ord_3"):
        body = payloads.envelope("orders/create", payloads.order(order))
        await store.inbox.append(payloads.arrival(body))
    damage = f"UPDATE inbox SET {column} = CAST(x'ff' AS TEXT) WHERE id = ?"  # noqa: S608 - ours
    change(store.path, damage, 2)
    report = await store.inbox.fold(fold, 1.0)
    assert report.folded_to == 3
    ((event, problem),) = report.problems
    assert (event, problem.state) == (2, "quarantined")
    assert "the row of this event is damaged" in (problem.detail or "")
    orders = rows(store.path, "SELECT store, id FROM orders ORDER BY id")
    assert orders == [("main", "ord_1"), ("main", "ord_3")]
    again = await store.reprocessing.reprocess(
        fold, Selection(ids=(2,)), 0, 1.0, confirming=False
    )
    assert "damaged" in (again.problems[0][1].detail or "")


@pytest.mark.parametrize("column", ["store", "instance", "key", "received_at"])
async def test_a_damaged_record_is_quarantined(column: str, store: SqliteStore) -> None:
    payload = b'{"kind":"fulfill","record":{"order":"1001"}}'
    new = [NewRecord(key, payload, "a row", "", "row 1") for key in ("a", "b")]
    await store.records.accept("erp", "main", new, None, match_nothing)
    damage = f"UPDATE records SET {column} = CAST(x'ff' AS TEXT) WHERE id = ?"  # noqa: S608 - ours
    change(store.path, damage, 1)
    write(store.path, "UPDATE records SET retry_at = ''")
    outcomes = await store.records.match(lambda *_: Known(None, "done"), 9)
    states = {outcome.record.id: outcome.state for outcome in outcomes}
    assert states == {1: "quarantined", 2: "duplicate"}


async def test_a_damaged_refetch_does_not_stop_the_others(store: SqliteStore) -> None:
    for order in ("ord_1", "ord_2"):
        await store.refetch_queue.enqueue("main", "order", order, "a tie")
    damage = (
        "UPDATE refetch_queue SET object_id = CAST(x'ff' AS TEXT) WHERE object_id = ?"
    )
    change(store.path, damage, "ord_1")
    (due,) = await store.refetch_queue.next("main", 1)
    assert due.object_id == "ord_2"
    await store.refetch_queue.done(due)
    assert await store.refetch_queue.next("main", 9) == []
    assert await store.refetch_queue.next_due("main") is None


@pytest.mark.parametrize("column", ["topic", "object_id", "store"])
async def test_a_damaged_delivery_is_parked(column: str, store: SqliteStore) -> None:
    topics = frozenset({"order.placed"})
    books = Subscriber(instance="books", store="main", topics=topics, begin="all")
    await store.deliveries.subscribe(books)
    for order in ("ord_1", "ord_2"):
        body = payloads.envelope("orders/create", payloads.order(order))
        await store.inbox.append(payloads.arrival(body))
    await store.inbox.fold(fold, 1.0)
    await store.deliveries.fan_out(books, 9.0)
    damage = f"UPDATE deliveries SET {column} = CAST(x'ff' AS TEXT) WHERE seq = ?"  # noqa: S608 - ours
    change(store.path, damage, 1)
    claimed = await store.deliveries.claim(books)
    assert claimed is not None
    assert claimed.object_id == "ord_2"
    query = "SELECT state, reason FROM deliveries WHERE seq = 1"
    ((state, reason),) = rows(store.path, query)
    assert state == "parked"
    assert "the delivery is damaged" in reason


@pytest.mark.parametrize(
    ("table", "id_"), [("order_items", "li_1"), ("shipments", "shp_1")]
)
async def test_a_part_with_a_damaged_id_is_replaced_by_the_next_event(
    table: str, id_: str, store: SqliteStore
) -> None:
    """The damaged row would count the same units or the same parcel twice."""
    shipped = payloads.shipment("shp_1", trackingNumber="T-7")
    order = payloads.order("ord_1", shipments=[shipped])
    await append_and_fold(store, payloads.envelope("orders/create", order))
    damage = f"UPDATE {table} SET id = CAST(x'6cff' AS TEXT) WHERE id = ?"  # noqa: S608 - ours
    change(store.path, damage, id_)
    later = {**order, "note": "later", "updatedAt": payloads.instant(9)}
    assert (
        await append_and_fold(store, payloads.envelope("orders/updated", later)) == []
    )
    assert rows(store.path, f"SELECT id FROM {table}") == [(id_,)]  # noqa: S608 - ours


async def test_a_damaged_order_stops_no_other_order_of_its_slice(
    store: SqliteStore,
) -> None:
    orders = [payloads.order(f"ord_{n}") for n in (1, 2, 3)]
    await append_and_fold(
        store, *(payloads.envelope("orders/create", one) for one in orders)
    )
    damage = "UPDATE orders SET seen_at = x'ff' WHERE id = ?"
    change(store.path, damage, "ord_2")
    later = {"status": "FULFILLED", "updatedAt": payloads.instant(9)}
    events = [payloads.envelope("orders/updated", one | later) for one in orders]
    ((event, problem),) = await append_and_fold(store, *events)
    assert (event, problem.state) == (5, "quarantined")
    found = rows(store.path, "SELECT id, status FROM orders ORDER BY id")
    assert found == [
        ("ord_1", "FULFILLED"),
        ("ord_2", "PENDING"),
        ("ord_3", "FULFILLED"),
    ]


async def test_a_level_with_a_damaged_id_is_deleted_with_its_variant(
    store: SqliteStore,
) -> None:
    shown = payloads.product(
        variants=[payloads.variant("var_1", 5), payloads.variant("var_2", 6)]
    )
    await append_and_fold(store, payloads.envelope("products/create", shown))
    damage = "UPDATE inventory_levels SET variant_id = CAST(x'6cff' AS TEXT)"
    change(store.path, f"{damage} WHERE variant_id = ?", "var_1")
    later = {**shown, "title": "New", "updatedAt": payloads.instant(9)}
    assert (
        await append_and_fold(store, payloads.envelope("products/update", later)) == []
    )
    levels = "SELECT variant_id, stock FROM inventory_levels ORDER BY variant_id"
    assert rows(store.path, levels) == [("var_1", 5), ("var_2", 6)]
