"""A person who was forgotten is nowhere, stays so, and every sum comes out the same."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core.clock import SystemClock
from backhaul.errors import BackhaulError
from backhaul.maintenance.customer_erasure import CustomerErasure
from backhaul.platform import personal_data
from backhaul.store import database_at
from backhaul.store.inbox import Arrival, Selection
from backhaul.store.records import NewRecord
from scenes import payloads
from scenes.customers import (
    EMAIL,
    NAME,
    OTHER,
    PHONE,
    SECRETS,
    SILENT,
    STREET,
    bytes_of,
    customer,
    delivery,
    forget,
    index,
    match_none,
    order,
    told_in,
)
from scenes.databases import fold_all, fold_as_demo, rows, started_store, take

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from backhaul.store.sqlite.database import SqliteStore


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with started_store(tmp_path / "backhaul.db") as started:
        yield started


async def know(store: SqliteStore) -> None:
    """Fold a customer with orders of many versions, and somebody else."""
    bodies = [delivery("customers/create", customer())]
    for at in range(5):
        bodies += [delivery("orders/updated", order(n, at)) for n in range(1, 41)]
    other = order(99, customer=OTHER, **SILENT)
    bodies += [bodies[1], delivery("orders/create", other)]
    sold = payloads.stock_change(orderId="ord_1")
    bodies.append(delivery("inventory/level_update", sold))
    await take(store, *bodies, b"not json, but about " + EMAIL.encode())
    await index(store)


SUMS = {
    "orders": "SELECT id, number, status, total_minor, currency, customer_id, placed_at"
    " FROM orders",
    "items": "SELECT * FROM order_items",
    "shipments": "SELECT * FROM shipments",
    "ledger": "SELECT * FROM stock_ledger",
    "outcomes": "SELECT id, state, kind, object_id FROM event_outcomes",
    "commands": "SELECT id, kind, target, state, payload FROM commands",
    "changes": "SELECT * FROM changes",
}


def sums(store: SqliteStore) -> dict[str, list[tuple[Any, ...]]]:
    queries = {name: f"{query} ORDER BY 1, 2" for name, query in SUMS.items()}
    return {name: rows(store.path, query) for name, query in queries.items()}


async def test_the_bytes_are_gone_from_the_files(store: SqliteStore) -> None:
    await know(store)
    assert told_in(store) == list(SECRETS)
    done = await forget(store)
    assert done["left_behind"] == ""
    assert told_in(store) == []
    assert b"bela other" in bytes_of(store)


@pytest.mark.parametrize("word", [EMAIL, "xylophon"])
async def test_what_the_database_left_behind_in_the_file_goes_too(
    word: str, store: SqliteStore
) -> None:
    await take(store, delivery("orders/create", order(1)))
    with closing(sqlite3.connect(store.path, isolation_level=None)) as careless:
        careless.execute("PRAGMA secure_delete=OFF")
        careless.execute("CREATE TABLE scratch (word)")
        careless.execute("INSERT INTO scratch VALUES (?)", (word,))
        careless.execute("DELETE FROM scratch")
    await forget(store)
    assert told_in(store) == []


async def test_every_sum_comes_out_the_same(store: SqliteStore) -> None:
    await know(store)
    before = sums(store)
    done = await forget(store)
    assert sums(store) == before
    assert done["erased"] == {
        "customers": 1, "orders": 40, "events": 203, "records": 0, "in quarantine": 1,
    }  # fmt: skip
    query = "SELECT name, email, phone FROM customers"
    assert rows(store.path, query) == [(None, None, None)]
    left = "SELECT json_extract(document, '$.customer.name') FROM orders WHERE id = ?"
    assert rows(store.path, left, "ord_99") == [("Bela Other",)]
    audit = "SELECT who, action, detail FROM audit"
    ((who, action, detail),) = rows(store.path, audit)
    assert (who, action) == ("eve", "forget")
    assert "cus_1 of main: 1 customers, 40 orders" in detail


async def test_nobody_finds_the_person_any_more(store: SqliteStore) -> None:
    await know(store)
    with database_at(store.path).reader() as known:
        assert known.search("xylophon", None, 5)
        await forget(store)
        for text in (NAME, EMAIL, PHONE, STREET, "zephyrine"):
            assert known.search(text, None, 5) == []
        assert known.search("1", "order", 5)


@pytest.mark.parametrize("kind", ["delivery", "read"])
@pytest.mark.parametrize("name", ["cus_1", EMAIL, EMAIL.upper()])
async def test_what_comes_later_is_redacted(
    name: str, kind: str, store: SqliteStore
) -> None:
    await know(store)
    await forget(store, name)
    topic = {"delivery": "orders/updated", "read": "orders/read"}[kind]
    guest = {"id": None, "name": NAME, "email": EMAIL.title()}
    for document in (order(1, at=9), order(50), order(51, customer=guest)):
        body = delivery(topic, document)
        if kind == "read":
            body = json.dumps(document).encode()
        await store.inbox.append(
            Arrival("main", kind, topic, payloads.instant(40), b"{}", body)
        )
    assert await fold_all(store) == []
    await index(store)
    await store.erasure.empty_log()
    assert told_in(store) == []
    query = "SELECT fulfillment_status, updated_at FROM orders WHERE id = 'ord_1'"
    assert rows(store.path, query) == [("UNFULFILLED", payloads.instant(9))]
    marks = "SELECT count(*) FROM events WHERE erased_by = 'forget' AND id > 205"
    assert rows(store.path, marks) == [(3,)]


async def test_events_without_the_erased_customer_are_no_damage(
    store: SqliteStore,
) -> None:
    """Their bodies were changed on purpose, before and while they were folded."""
    await know(store)
    await forget(store)
    await store.inbox.append(payloads.arrival(delivery("orders/updated", order(1, 9))))
    assert await fold_all(store) == []
    report = await store.reprocessing.reprocess(
        fold_as_demo, Selection(), 0, 9.0, confirming=False
    )
    assert report.problems == ()
    assert rows(store.path, "SELECT 1 FROM events WHERE erased_by = 'forget'") != []


async def test_a_sweep_sees_no_difference(store: SqliteStore) -> None:
    await know(store)
    await forget(store)
    before = rows(store.path, "SELECT * FROM changes")
    body = json.dumps(order(1, at=4)).encode()
    arrival = Arrival("main", "read", "orders/read", payloads.instant(50), b"{}", body)
    await store.inbox.append(arrival)
    await fold_all(store)
    (last,) = rows(store.path, "SELECT state FROM events ORDER BY id DESC LIMIT 1")
    assert last == ("duplicate",)
    assert rows(store.path, "SELECT * FROM changes") == before


async def test_a_delivery_that_comes_again_is_known_and_keeps_nothing(
    store: SqliteStore,
) -> None:
    first = delivery("orders/create", order(1))
    await take(store, first)
    await index(store)
    await forget(store)
    await take(store, first)
    await store.erasure.empty_log()
    states = rows(store.path, "SELECT state, erased_by FROM events ORDER BY id")
    assert states == [("folded", "forget"), ("duplicate", "forget")]
    assert told_in(store) == []


async def test_records_and_answers_lose_the_person_and_keep_the_work(
    store: SqliteStore,
) -> None:
    await know(store)
    raw = f"1,DHL,T-7,{NAME.upper()},{EMAIL}"
    record = NewRecord("k", json.dumps({"name": NAME}).encode(), raw, "", "f.csv:2")
    bad = NewRecord("bad", None, f"?,{PHONE}", "no order", "f.csv:3")
    await store.records.accept("courier", "main", [record, bad], None, match_none)
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute(
            "INSERT INTO commands (id, store, kind, target, lane, state, payload,"
            " cause, instance, created_at, due_at) VALUES ('c1', 'main', 'fulfill',"
            " 'ord_1', 'order:ord_1', 'applied', '{}', 'x', 'courier', 'a', 'b')"
        )
        connection.execute(
            "INSERT INTO attempts (command_id, number, started_at, response)"
            " VALUES ('c1', 1, 'a', ?)",
            (json.dumps({"data": order(1)}).encode(),),
        )
        # As a look kept it that was answered under the same key.
        answered = {"status": 200, "body": json.dumps({"data": order(1)})}
        connection.execute(
            "INSERT INTO resolution_checks"
            " (command_id, number, at, found, reason, read)"
            " VALUES ('c1', 1, 'a', 'applied', 'r', ?)",
            (json.dumps(answered),),
        )
    await forget(store)
    assert told_in(store) == []
    ((kept,),) = rows(store.path, "SELECT raw FROM records WHERE key = 'k'")
    assert kept == "1,DHL,T-7,[erased],[erased]"
    ((answer,),) = rows(store.path, "SELECT response FROM attempts")
    assert json.loads(answer)["data"]["totals"]["total"] == "2998.00"
    ((read,),) = rows(store.path, "SELECT read FROM resolution_checks")
    again = json.loads(json.loads(read)["body"])
    assert again["data"]["totals"]["total"] == "2998.00"


async def test_what_walks_saw_of_a_customer_goes(store: SqliteStore) -> None:
    await take(store, delivery("customers/create", customer()))
    at = await store.passes.begin("main", "full", "customers")
    await store.passes.advance(at, ["cus_1", "cus_2"], {})
    await forget(store)
    seen = rows(store.path, "SELECT object_id FROM pass_seen")
    assert seen == [("cus_2",)]


async def test_twice_is_once_and_nobody_is_said(store: SqliteStore) -> None:
    await know(store)
    await forget(store)
    done = await forget(store)
    assert set(done["erased"].values()) == {0}
    again = await forget(store, EMAIL)
    assert again["customer"] == "cus_1"
    with pytest.raises(
        BackhaulError, match="no customer of store main has the id or e-mail"
    ):
        await forget(store, "cus_7")


async def test_an_open_reader_is_told_of(tmp_path: Path) -> None:
    class Impatient(SystemClock):
        async def sleep(self, seconds: float) -> None:
            await asyncio.sleep(0)

    async with started_store(tmp_path / "backhaul.db") as store:
        await take(store, delivery("orders/create", order(1)))
        with closing(sqlite3.connect(store.path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM orders").fetchone()
            forgetter = CustomerErasure(store.erasure, Impatient())
            done = await forgetter.erase("main", "cus_1", "eve")
            assert done["left_behind"] == "log"
            reader.execute("ROLLBACK")


def test_to_redact_again_changes_nothing() -> None:
    for topic, document in (("orders/read", order(1)), ("customers/read", customer())):
        once = personal_data.redacted(topic, document)
        assert personal_data.redacted(topic, once) == once
        assert once["id"] == document["id"]
        assert not any(secret in json.dumps(once) for secret in SECRETS)
    assert personal_data.redacted("orders/read", order(1))["items"] == order(1)["items"]


async def test_somebody_else_who_names_the_person_keeps_an_own_order(
    store: SqliteStore,
) -> None:
    theirs = order(98, customer=OTHER, note=f"for {NAME}")
    bodies = [delivery("orders/create", order(1)), delivery("orders/create", theirs)]
    await take(store, *bodies)
    await forget(store)
    body = "SELECT json_extract(body, '$.data.customer.name') FROM inbox ORDER BY id"
    assert rows(store.path, body) == [(None,), ("Bela Other",)]
