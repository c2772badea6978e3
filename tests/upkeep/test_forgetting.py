"""A person who was forgotten is nowhere, stays so, and every sum comes out the same."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import asynccontextmanager, closing
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core.clock import SystemClock
from backhaul.errors import BackhaulError
from backhaul.shop import people
from backhaul.shop.members import describe
from backhaul.store.contract import Arrival, NewRecord, Unmatched
from backhaul.store.sqlite.explaining import Explainer
from backhaul.store.sqlite.forgetting import SqliteForgetting, holds, needles_of
from backhaul.store.sqlite.writer import Writer
from backhaul.upkeep.forgetting import Forgetter
from support import payloads
from support.databases import fold_all, rows, started_store, take

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from backhaul.store.contract import MatchReader, WaitingRecord
    from backhaul.store.sqlite.database import SqliteStore
    from backhaul.store.upkeep import Trace

NAME, EMAIL, PHONE = "Asha Xylophon", "asha.x@example.com", "+919800012345"
STREET = "12 Quincunx Lane"
SECRETS = (
    NAME,
    "xylophon",
    EMAIL,
    PHONE,
    STREET,
    "Zephyrine",
    "please ring",
    "X. Payer",
)
PERSON = {"id": "cus_1", "name": NAME, "email": EMAIL, "phone": PHONE}
SILENT: dict[str, Any] = {
    "tags": [],
    **dict.fromkeys(("note", "shippingAddress", "giftMessage", "payment")),
}
"""Members of an order that say nothing of the person."""
OTHER = {"id": "cus_2", "name": "Bela Other", "email": "b@example.com", "phone": None}

NOON = payloads.instant(40)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with started_store(tmp_path / "backhaul.db") as started:
        yield started


def order(number: int, at: int = 0, **members: Any) -> payloads.Document:
    address = {"name": "Zephyrine", "address1": STREET, "city": "Pune", "phone": PHONE}
    told = {
        "customer": PERSON,
        "shippingAddress": address,
        "note": "please ring twice",
        "giftMessage": f"from {NAME} with love",
        "tags": ["cod", EMAIL.upper()],
        "payment": {"method": "COD", "report": {"payerName": "X. Payer"}},
        "shipments": [payloads.shipment(f"shp_{number}", trackingNumber=f"T{number}")],
    }
    return payloads.order(f"ord_{number}", at, number=number, **{**told, **members})


def customer(at: int = 0) -> payloads.Document:
    address = {"id": "adr_1", "address1": STREET, "isDefault": True}
    return payloads.customer(at=at, **PERSON, addresses=[address], totalSpent="9.00")


def delivery(topic: str, data: payloads.Document, **members: Any) -> bytes:
    return payloads.envelope(topic, data, **members)


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


async def index(store: SqliteStore) -> None:
    while (await store.search.follow(describe, 1.0)).more:
        pass


async def forget(store: SqliteStore, name: str = "cus_1") -> dict[str, Any]:
    return await Forgetter(store.forgetting, SystemClock()).forget("main", name, "eve")


def bytes_of(store: SqliteStore) -> bytes:
    files = store.path.parent.glob("backhaul.db*")
    return b"".join(path.read_bytes() for path in files).lower()


def told_in(store: SqliteStore) -> list[str]:
    kept = bytes_of(store)
    return [secret for secret in SECRETS if secret.lower().encode() in kept]


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
    with closing(Explainer(store.path)) as known:
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
    await store.forgetting.empty_log()
    assert told_in(store) == []
    query = "SELECT fulfillment_status, updated_at FROM orders WHERE id = 'ord_1'"
    assert rows(store.path, query) == [("UNFULFILLED", payloads.instant(9))]
    marks = "SELECT count(*) FROM events WHERE erased_by = 'forget' AND id > 205"
    assert rows(store.path, marks) == [(3,)]


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
    await store.forgetting.empty_log()
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
    await store.records.accept("courier", "main", [record, bad], None, _wait)
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
    await forget(store)
    assert told_in(store) == []
    ((kept,),) = rows(store.path, "SELECT raw FROM records WHERE key = 'k'")
    assert kept == "1,DHL,T-7,[erased],[erased]"
    ((answer,),) = rows(store.path, "SELECT response FROM attempts")
    assert json.loads(answer)["data"]["totals"]["total"] == "2998.00"


def _wait(record: WaitingRecord, mirror: MatchReader) -> Unmatched:
    return Unmatched("not yet", final=False)


async def test_a_guest_is_forgotten_by_e_mail(store: SqliteStore) -> None:
    guest = {"id": None, "name": NAME, "email": EMAIL, "phone": PHONE}
    await take(store, delivery("orders/create", order(1, customer=guest)))
    await index(store)
    done = await forget(store, EMAIL)
    assert done["erased"]["orders"] == 1
    assert told_in(store) == []


GUEST = {"id": None, "name": NAME, "email": EMAIL, "phone": PHONE}


async def test_a_guest_is_found_before_the_index_has_come_so_far(
    store: SqliteStore,
) -> None:
    await take(store, delivery("orders/create", order(1, customer=GUEST)))
    done = await forget(store, EMAIL.upper())
    assert done["erased"]["orders"] == 1
    assert done["customer"].startswith("guest-")
    assert told_in(store) == []


async def test_a_guest_is_found_who_is_in_kept_events_only(store: SqliteStore) -> None:
    """What could not be folded is kept as well."""
    broken = order(1, customer=GUEST, items=None)
    await take(store, delivery("orders/create", broken))
    assert rows(store.path, "SELECT * FROM orders") == []
    done = await forget(store, EMAIL)
    assert done["erased"]["events"] == 1
    assert told_in(store) == []


async def test_an_e_mail_that_is_only_mentioned_is_nobody_s(store: SqliteStore) -> None:
    other = order(1, customer=OTHER, note=f"a present from {EMAIL}")
    await take(store, delivery("orders/create", other))
    with pytest.raises(BackhaulError, match="no customer of main"):
        await forget(store, EMAIL)


async def test_what_walks_saw_of_a_customer_goes(store: SqliteStore) -> None:
    await take(store, delivery("customers/create", customer()))
    at = await store.sweeps.begin("main", "full", "customers")
    await store.sweeps.advance(at, ["cus_1", "cus_2"], {})
    await forget(store)
    seen = rows(store.path, "SELECT object_id FROM sightings")
    assert seen == [("cus_2",)]


async def test_twice_is_once_and_nobody_is_said(store: SqliteStore) -> None:
    await know(store)
    await forget(store)
    done = await forget(store)
    assert set(done["erased"].values()) == {0}
    again = await forget(store, EMAIL)
    assert again["customer"] == "cus_1"
    with pytest.raises(BackhaulError, match="no customer of main has the id or e-mail"):
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
            forgetter = Forgetter(store.forgetting, Impatient())
            done = await forgetter.forget("main", "cus_1", "eve")
            assert done["left_behind"] == "log"
            reader.execute("ROLLBACK")


def test_to_redact_again_changes_nothing() -> None:
    for topic, document in (("orders/read", order(1)), ("customers/read", customer())):
        once = people.redacted(topic, document)
        assert people.redacted(topic, once) == once
        assert once["id"] == document["id"]
        assert not any(secret in json.dumps(once) for secret in SECRETS)
    assert people.redacted("orders/read", order(1))["items"] == order(1)["items"]


async def test_somebody_else_who_names_the_person_keeps_an_own_order(
    store: SqliteStore,
) -> None:
    theirs = order(98, customer=OTHER, note=f"for {NAME}")
    bodies = [delivery("orders/create", order(1)), delivery("orders/create", theirs)]
    await take(store, *bodies)
    await forget(store)
    body = "SELECT json_extract(body, '$.data.customer.name') FROM inbox ORDER BY id"
    assert rows(store.path, body) == [(None,), ("Bela Other",)]


async def test_a_customer_without_orders_is_found_by_e_mail(store: SqliteStore) -> None:
    await take(store, delivery("customers/create", customer()))
    assert (await forget(store, EMAIL.upper()))["customer"] == "cus_1"
    assert told_in(store) == []


async def test_an_e_mail_that_is_no_address_tells_nobody_apart(
    store: SqliteStore,
) -> None:
    first = {**PERSON, "email": "walk-in"}
    other = {"id": None, "name": "Bela Other", "email": "walk-in", "phone": None}
    orders = [order(1, customer=first), order(99, customer=other, **SILENT)]
    await take(store, *(delivery("orders/create", each) for each in orders))
    done = await forget(store)
    assert (done["erased"]["orders"], done["left_behind"]) == (1, "")
    await take(
        store, delivery("orders/updated", order(99, 1, **SILENT, customer=other))
    )
    query = "SELECT json_extract(body, '$.data.customer.name') FROM inbox ORDER BY id"
    assert rows(store.path, query) == [(None,), ("Bela Other",), ("Bela Other",)]


async def test_what_was_sold_keeps_its_name_whoever_is_called_so(
    store: SqliteStore,
) -> None:
    person = {**PERSON, "name": "Blend"}
    payload = b'{"sku":"BLEND-250","for":"Blend"}'
    kept = NewRecord("k", payload, "sku,for\nBLEND-250,Blend", "", "f.csv:2")
    await store.records.accept("courier", "main", [kept], None, _wait)
    product = payloads.product(title="Blend of the house")
    await take(
        store,
        delivery("products/update", product),
        delivery("orders/create", order(1, customer=person)),
    )
    await forget(store)
    ((left, raw),) = rows(store.path, "SELECT payload, raw FROM records")
    assert json.loads(left) == {"sku": "BLEND-250", "for": people.ERASED}
    assert raw == f"sku,for\nBLEND-250,{people.ERASED}"
    query = "SELECT json_extract(body, '$.data.title') FROM inbox WHERE id = 1"
    assert rows(store.path, query) == [("Blend of the house",)]


ZOE = {"id": None, "name": None, "email": "zo\u00eb@example.com", "phone": None}
_EMAILS = "SELECT json_extract(body, '$.data.customer.email') FROM inbox WHERE id < 3"


def escaped(data: payloads.Document) -> bytes:
    """Write a delivery as many a JSON library does."""
    return json.dumps(json.loads(delivery("orders/create", data))).encode()


async def test_an_e_mail_is_found_where_its_letters_are_escaped(
    store: SqliteStore,
) -> None:
    known = {**ZOE, "id": "cus_1"}
    bodies = [escaped(order(n, customer=c)) for n, c in ((1, known), (2, ZOE))]
    await take(store, *bodies, b"no JSON: \\o/")
    await forget(store, "cus_1")
    assert rows(store.path, _EMAILS) == [(None,), (None,)]
    ((kept,),) = rows(store.path, "SELECT body FROM inbox WHERE id = 3")
    assert kept == b"no JSON: \\o/"
    assert b"zo\\u00eb@" not in bytes_of(store)


@pytest.mark.parametrize("asked", ["zo\u00eb@example.com", "ZO\u00cb@example.com"])
async def test_a_guest_is_found_in_kept_events_that_escape_letters(
    asked: str, store: SqliteStore
) -> None:
    await take(store, escaped(order(1, customer=ZOE, items=None)))
    done = await forget(store, asked)
    assert done["erased"]["events"] == 1
    assert rows(store.path, _EMAILS) == [(None,)]


@pytest.mark.parametrize("word", ["Zo\u00eb Xylo", 'Zoe "Quill"'])
def test_a_file_is_searched_for_escaped_letters_too(word: str, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    once = json.dumps({"name": word})
    for text in (once, json.dumps({"body": once}), word):
        kept.write_text(text)
        assert holds(kept, needles_of([word]))
    assert not holds(kept, needles_of(["Zoe Xylo"]))


@pytest.mark.parametrize("name", ['Asha "Quill" Rao', "Asha\\Rao"])
async def test_a_name_is_found_however_it_is_escaped(
    name: str, store: SqliteStore
) -> None:
    payload = json.dumps({"buyer": name}).encode()
    quoted = name.replace('"', '""')
    records = [
        NewRecord("csv", payload, f'buyer\n"{quoted}"', "", "f.csv:2"),
        NewRecord("json", None, payload.decode(), "no order", "scan"),
    ]
    await store.records.accept("courier", "main", records, None, _wait)
    person = {**PERSON, "name": name}
    await take(store, delivery("orders/create", order(1, customer=person)))
    done = await forget(store)
    assert (done["erased"]["records"], done["erased"]["in quarantine"]) == (2, 1)
    kept = rows(store.path, "SELECT payload, raw FROM records ORDER BY key")
    assert kept == [
        ('{"buyer":"[erased]"}', 'buyer\n"[erased]"'),
        ("null", '{"buyer":"[erased]"}'),
    ]


async def test_another_store_keeps_what_it_holds_of_the_same_person(
    store: SqliteStore,
) -> None:
    first = delivery("orders/create", order(1))
    broken = delivery("orders/create", order(2, items=None))
    for name in ("main", "other"):
        for body in (first, broken):
            told = Arrival(name, "delivery", "orders/create", NOON, b"{}", body)
            await store.inbox.append(told)
        raw = f"k,{EMAIL}"
        records = [
            NewRecord("k", json.dumps([EMAIL]).encode(), raw, "", "f.csv:2"),
            NewRecord("bad", None, raw, "no order", "f.csv:3"),
        ]
        await store.records.accept(f"courier-{name}", name, records, None, _wait)
    await fold_all(store)
    before = kept_by(store, "other")
    assert [len(kept) for kept in before] == [2, 2, 2, 1]
    await forget(store)
    assert kept_by(store, "other") == before
    assert not [m for kept in kept_by(store, "main") for m in kept if EMAIL in str(m)]


def kept_by(store: SqliteStore, name: str) -> list[list[tuple[Any, ...]]]:
    """Return events, records, what is in quarantine and orders of one store."""
    queries = (
        "SELECT body FROM inbox WHERE store = ?1",
        "SELECT raw, payload FROM records WHERE store = ?1",
        "SELECT raw FROM quarantine WHERE name IN (?1, 'courier-' || ?1)",
        "SELECT document FROM orders WHERE store = ?1",
    )
    return [rows(store.path, query, name) for query in queries]


_NAMES = "SELECT json_extract(document, '$.customer.name') FROM orders ORDER BY id"


@pytest.mark.parametrize("email", [EMAIL, "asha.old@example.com"])
async def test_asked_by_id_orders_as_a_guest_are_found_by_every_known_e_mail(
    email: str, store: SqliteStore
) -> None:
    earlier = order(1, customer={**PERSON, "email": email}, tags=[])
    guest = order(2, customer={**GUEST, "email": email}, tags=[])
    bodies = [("customers/create", customer()), ("orders/create", earlier)]
    await take(store, *(delivery(*b) for b in bodies), delivery("orders/create", guest))
    done = await forget(store)
    assert done["erased"]["orders"] == 2
    assert told_in(store) == []
    assert email.encode() not in bytes_of(store)


async def test_an_order_folded_before_the_fold_knew_is_forgotten_too(
    store: SqliteStore,
) -> None:
    class Slow(SqliteForgetting):
        """Between looking up and remembering, an order arrives and is folded."""

        async def remember(
            self, name: str, trace: Trace, digests: Sequence[bytes]
        ) -> None:
            await take(store, delivery("orders/create", order(2)))
            await super().remember(name, trace, digests)

    await take(store, delivery("orders/create", order(1)))
    async with writing(store.path) as writer:
        forgetting = Slow(store.path, writer, SystemClock())
        await Forgetter(forgetting, SystemClock()).forget("main", "cus_1", "eve")
    assert rows(store.path, _NAMES) == [(None,)] * 2


@asynccontextmanager
async def writing(path: Path) -> AsyncIterator[Writer]:
    writer = Writer(path, lambda connection, arrivals: [])
    writer.start()
    try:
        yield writer
    finally:
        await writer.stop()


async def test_an_order_that_bears_the_e_mail_beside_another_s_is_the_other_s(
    store: SqliteStore,
) -> None:
    theirs = {**SILENT, "customer": OTHER, "email": EMAIL}
    bodies = [
        delivery("customers/create", customer()),
        delivery("orders/create", order(98, **theirs)),
        delivery("orders/create", order(99, customer=OTHER, **SILENT)),
    ]
    await take(store, *bodies)
    await forget(store)
    told = "SELECT json_extract(body, '$.data.customer.name') FROM inbox WHERE id > 1"
    for query in (_NAMES, told):
        assert rows(store.path, query) == [("Bela Other",)] * 2
