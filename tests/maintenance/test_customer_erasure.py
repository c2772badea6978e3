"""An erased customer is removed everywhere, stays removed, and all sums stay equal."""

from __future__ import annotations

import asyncio
import json
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
    erase,
    find_secrets,
    index,
    match_none,
    named_in_events,
    order,
)
from scenes.damaged_rows import insert, insert_command, write_to_unused_space
from scenes.databases import (
    append_and_fold,
    fold_all,
    fold_as_demo,
    reading,
    started_store,
)
from scenes.stored import checks, command, documents, rows_of, value_of, values_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from backhaul.store import Place, Store


@pytest.fixture
async def store(database: Place) -> AsyncIterator[Store]:
    async with started_store(database) as started:
        yield started


async def fold_customers(store: Store) -> None:
    """Fold a customer with orders of many versions, and another customer."""
    bodies = [delivery("customers/create", customer())]
    for at in range(5):
        bodies += [delivery("orders/updated", order(n, at)) for n in range(1, 41)]
    other = order(99, customer=OTHER, **SILENT)
    bodies += [bodies[1], delivery("orders/create", other)]
    sold = payloads.stock_change(orderId="ord_1")
    bodies.append(delivery("inventory/level_update", sold))
    await append_and_fold(store, *bodies, b"not json, but about " + EMAIL.encode())
    await index(store)


SUMS = {
    "orders": (
        *("id", "number", "status", "total_minor", "currency", "customer_id"),
        "placed_at",
    ),
    "order_items": (),
    "shipments": (),
    "stock_ledger": (),
    "events": ("id", "state", "kind", "object_id"),
    "commands": ("id", "kind", "target", "state", "payload"),
    "changes": (),
}
"""The columns of each table that must not change; `()` means all."""


def sums(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    return {
        name: rows_of(store.place, name, *columns) for name, columns in SUMS.items()
    }


async def test_the_bytes_are_gone_from_the_files(store: Store) -> None:
    await fold_customers(store)
    assert find_secrets(store) == list(SECRETS)
    done = await erase(store)
    assert done["left_behind"] == ""
    assert find_secrets(store) == []
    assert b"bela other" in bytes_of(store)


@pytest.mark.parametrize("word", [EMAIL, "xylophon"])
async def test_remains_of_erased_rows_in_the_file_are_removed_too(
    word: str, tmp_path: Path
) -> None:
    async with started_store(tmp_path / "backhaul.db") as store:
        await append_and_fold(store, delivery("orders/create", order(1)))
        write_to_unused_space(store.path, word)
        await erase(store)
        assert find_secrets(store) == []


async def test_every_sum_comes_out_the_same(store: Store) -> None:
    await fold_customers(store)
    before = sums(store)
    done = await erase(store)
    assert sums(store) == before
    assert done["erased"] == {
        "customers": 1, "orders": 40, "events": 203, "records": 0, "in quarantine": 1,
        "deliveries": 0, "attempts of deliveries": 0, "saved views": 0,
    }  # fmt: skip
    erased = rows_of(store.place, "customers", "name", "email", "phone")
    assert erased == [(None, None, None)]
    (left,) = documents(store.place, "orders", id="ord_99")
    assert left["customer"]["name"] == "Bela Other"
    ((who, action, detail),) = rows_of(store.place, "audit", "who", "action", "detail")
    assert (who, action) == ("eve", "forget")
    assert "cus_1 of main: 1 customers, 40 orders" in detail


async def test_an_erased_customer_is_no_longer_found(store: Store) -> None:
    await fold_customers(store)
    with database_at(store.place).reader() as known:
        assert known.search("xylophon", None, 5)
        await erase(store)
        for text in (NAME, EMAIL, PHONE, STREET, "zephyrine"):
            assert known.search(text, None, 5) == []
        assert known.search("1", "order", 5)


@pytest.mark.parametrize("kind", ["delivery", "read"])
@pytest.mark.parametrize("name", ["cus_1", EMAIL, EMAIL.upper()])
async def test_a_later_event_is_redacted(name: str, kind: str, store: Store) -> None:
    await fold_customers(store)
    await erase(store, name)
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
    assert find_secrets(store) == []
    columns = ("fulfillment_status", "updated_at")
    (changed,) = rows_of(store.place, "orders", *columns, id="ord_1")
    assert changed == ("UNFULFILLED", payloads.instant(9))
    assert len([event for event in erased_events(store) if event > 205]) == 3


def erased_events(store: Store) -> list[int]:
    return values_of(store.place, "events", "id", erased_by="forget")


async def test_events_without_the_erased_customer_are_no_damage(
    store: Store,
) -> None:
    """The erasure changed their bodies, before and while they were folded."""
    await fold_customers(store)
    await erase(store)
    await store.inbox.append(payloads.arrival(delivery("orders/updated", order(1, 9))))
    assert await fold_all(store) == []
    report = await store.reprocessing.reprocess(
        fold_as_demo, Selection(), 0, 9.0, confirming=False
    )
    assert report.problems == ()
    assert erased_events(store) != []


async def test_a_full_sync_after_an_erasure_finds_no_difference(store: Store) -> None:
    await fold_customers(store)
    await erase(store)
    before = rows_of(store.place, "changes")
    body = json.dumps(order(1, at=4)).encode()
    arrival = Arrival("main", "read", "orders/read", payloads.instant(50), b"{}", body)
    await store.inbox.append(arrival)
    await fold_all(store)
    assert values_of(store.place, "events", "state")[-1] == "duplicate"
    assert rows_of(store.place, "changes") == before


async def test_a_delivery_that_comes_again_is_known_and_keeps_nothing(
    store: Store,
) -> None:
    first = delivery("orders/create", order(1))
    await append_and_fold(store, first)
    await index(store)
    await erase(store)
    await append_and_fold(store, first)
    await store.erasure.empty_log()
    states = rows_of(store.place, "events", "state", "erased_by")
    assert states == [("folded", "forget"), ("duplicate", "forget")]
    assert find_secrets(store) == []


async def test_records_and_answers_lose_the_customer_and_keep_the_work(
    store: Store,
) -> None:
    await fold_customers(store)
    raw = f"1,DHL,T-7,{NAME.upper()},{EMAIL}"
    record = NewRecord("k", json.dumps({"name": NAME}).encode(), raw, "", "f.csv:2")
    bad = NewRecord("bad", None, f"?,{PHONE}", "no order", "f.csv:3")
    await store.records.accept("courier", "main", [record, bad], None, match_none)
    insert_command(store.place, "c1", "fulfill", "ord_1", "applied", instance="courier")
    first = {"command_id": "c1", "number": 1}
    shown = json.dumps({"data": order(1)})
    attempt = {"started_at": "a", "response": shown.encode()}
    insert(store.place, "attempts", **first, **attempt)
    # a check with the same idempotency key keeps the whole response
    answered = json.dumps({"status": 200, "body": shown})
    check = {"at": "a", "found": "applied", "reason": "r", "read": answered}
    insert(store.place, "resolution_checks", **first, **check)
    await erase(store)
    assert find_secrets(store) == []
    kept = value_of(store.place, "records", "raw", key="k")
    assert kept == "1,DHL,T-7,[erased],[erased]"
    (attempted,) = command(store.place, "c1").attempts
    assert json.loads(attempted.response or b"")["data"]["totals"]["total"] == "2998.00"
    (checked,) = checks(store.place, "c1")
    again = json.loads(json.loads(checked.read or "")["body"])
    assert again["data"]["totals"]["total"] == "2998.00"


async def test_rows_of_a_customer_seen_by_full_syncs_are_removed(store: Store) -> None:
    await append_and_fold(store, delivery("customers/create", customer()))
    at = await store.passes.begin("main", "full", "customers")
    await store.passes.advance(at, ["cus_1", "cus_2"], {})
    await erase(store)
    seen = [
        await store.mirror.all_seen("customers", "main", at.pass_id, [id_])
        for id_ in ("cus_1", "cus_2")
    ]
    assert seen == [False, True]


async def test_erasing_twice_changes_nothing_and_an_unknown_customer_is_refused(
    store: Store,
) -> None:
    await fold_customers(store)
    await erase(store)
    done = await erase(store)
    assert set(done["erased"].values()) == {0}
    again = await erase(store, EMAIL)
    assert again["customer"] == "cus_1"
    with pytest.raises(
        BackhaulError, match="store main has no customer with the id or e-mail"
    ):
        await erase(store, "cus_7")


async def test_an_open_reader_is_reported(tmp_path: Path) -> None:
    """An open read transaction keeps the write-ahead log of a file."""

    class Impatient(SystemClock):
        async def sleep(self, seconds: float) -> None:
            await asyncio.sleep(0)

    async with started_store(tmp_path / "backhaul.db") as store:
        await append_and_fold(store, delivery("orders/create", order(1)))
        with reading(store.place):
            forgetter = CustomerErasure(store.erasure, Impatient())
            done = await forgetter.erase("main", "cus_1", "eve")
            assert done["left_behind"] == "log"


def test_to_redact_again_changes_nothing() -> None:
    for topic, document in (("orders/read", order(1)), ("customers/read", customer())):
        once = personal_data.redacted(topic, document)
        assert personal_data.redacted(topic, once) == once
        assert once["id"] == document["id"]
        assert not any(secret in json.dumps(once) for secret in SECRETS)
    assert personal_data.redacted("orders/read", order(1))["items"] == order(1)["items"]


async def test_an_order_of_another_customer_that_names_the_erased_one_stays(
    store: Store,
) -> None:
    theirs = order(98, customer=OTHER, note=f"for {NAME}")
    bodies = [delivery("orders/create", order(1)), delivery("orders/create", theirs)]
    await append_and_fold(store, *bodies)
    await erase(store)
    assert named_in_events(store) == [None, "Bela Other"]
