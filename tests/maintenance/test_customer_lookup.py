"""Which customer an erasure finds, by which names, and who is left alone."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import SystemClock
from backhaul.errors import BackhaulError
from backhaul.maintenance.customer_erasure import CustomerErasure
from backhaul.platform import personal_data
from backhaul.store.customer_erasure import holds, spellings
from backhaul.store.inbox import Arrival
from backhaul.store.records import NewRecord
from backhaul.store.sqlite.engine import SqliteEngine, Writer
from backhaul.store.sqlite.full_text import SqliteErasure
from scenes import payloads
from scenes.customers import (
    EMAIL,
    GUEST,
    NAME,
    OTHER,
    PERSON,
    PHONE,
    SILENT,
    bytes_of,
    customer,
    delivery,
    erase,
    find_secrets,
    index,
    match_none,
    named_in_events,
    named_in_orders,
    order,
)
from scenes.damaged_rows import overwrite_text
from scenes.databases import append_and_fold, fold_all, started_store
from scenes.stored import bodies, count, rows_of, value_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path
    from typing import Any

    from backhaul.store.customer_erasure import CustomerTrace
    from backhaul.store.sqlite.database import SqliteStore

NOON = payloads.instant(40)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with started_store(tmp_path / "backhaul.db") as started:
        yield started


async def test_a_guest_is_erased_by_e_mail(store: SqliteStore) -> None:
    guest = {"id": None, "name": NAME, "email": EMAIL, "phone": PHONE}
    await append_and_fold(store, delivery("orders/create", order(1, customer=guest)))
    await index(store)
    done = await erase(store, EMAIL)
    assert done["erased"]["orders"] == 1
    assert find_secrets(store) == []


async def test_a_guest_is_found_before_the_index_has_come_so_far(
    store: SqliteStore,
) -> None:
    await append_and_fold(store, delivery("orders/create", order(1, customer=GUEST)))
    done = await erase(store, EMAIL.upper())
    assert done["erased"]["orders"] == 1
    assert done["customer"].startswith("guest-")
    assert find_secrets(store) == []


async def test_a_guest_who_is_only_in_kept_events_is_found(store: SqliteStore) -> None:
    """Events that could not be folded are kept too."""
    broken = order(1, customer=GUEST, items=None)
    await append_and_fold(store, delivery("orders/create", broken))
    assert count(store.place, "orders") == 0
    done = await erase(store, EMAIL)
    assert done["erased"]["events"] == 1
    assert find_secrets(store) == []


async def test_an_e_mail_that_is_only_mentioned_identifies_no_customer(
    store: SqliteStore,
) -> None:
    other = order(1, customer=OTHER, note=f"a present from {EMAIL}")
    await append_and_fold(store, delivery("orders/create", other))
    with pytest.raises(BackhaulError, match="store main has no customer"):
        await erase(store, EMAIL)


async def test_a_customer_without_orders_is_found_by_e_mail(store: SqliteStore) -> None:
    await append_and_fold(store, delivery("customers/create", customer()))
    assert (await erase(store, EMAIL.upper()))["customer"] == "cus_1"
    assert find_secrets(store) == []


async def test_text_that_is_no_e_mail_address_identifies_no_customer(
    store: SqliteStore,
) -> None:
    first = {**PERSON, "email": "walk-in"}
    other = {"id": None, "name": "Bela Other", "email": "walk-in", "phone": None}
    orders = [order(1, customer=first), order(99, customer=other, **SILENT)]
    await append_and_fold(store, *(delivery("orders/create", each) for each in orders))
    done = await erase(store)
    assert (done["erased"]["orders"], done["left_behind"]) == (1, "")
    await append_and_fold(
        store, delivery("orders/updated", order(99, 1, **SILENT, customer=other))
    )
    assert named_in_events(store) == [None, "Bela Other", "Bela Other"]


async def test_a_product_keeps_its_name_if_a_customer_is_called_the_same(
    store: SqliteStore,
) -> None:
    person = {**PERSON, "name": "Blend"}
    payload = b'{"sku":"BLEND-250","for":"Blend"}'
    kept = NewRecord("k", payload, "sku,for\nBLEND-250,Blend", "", "f.csv:2")
    await store.records.accept("courier", "main", [kept], None, match_none)
    product = payloads.product(title="Blend of the house")
    await append_and_fold(
        store,
        delivery("products/update", product),
        delivery("orders/create", order(1, customer=person)),
    )
    await erase(store)
    ((left, raw),) = rows_of(store.place, "records", "payload", "raw")
    assert json.loads(left) == {"sku": "BLEND-250", "for": personal_data.ERASED}
    assert raw == f"sku,for\nBLEND-250,{personal_data.ERASED}"
    sold, *_ = bodies(store.place)
    assert json.loads(sold)["data"]["title"] == "Blend of the house"


async def test_a_damaged_payload_without_the_customer_stays_damaged(
    store: SqliteStore,
) -> None:
    """If it was rewritten with replacement characters, it would look intact."""
    kept = NewRecord("k", b'{"sku":"BLEND"}', f"BLEND,{NAME}", "", "f.csv:2")
    await store.records.accept("courier", "main", [kept], None, match_none)
    await append_and_fold(store, delivery("orders/create", order(1)))
    damaged = b'{"sku":"BL\xffND"}'
    overwrite_text(store.place, "records", "payload", damaged)
    await erase(store)
    assert value_of(store.place, "records", "raw") == f"BLEND,{personal_data.ERASED}"
    # reads replace damaged bytes; only the file shows whether a row was rewritten
    assert damaged.lower() in bytes_of(store)
    assert "\N{REPLACEMENT CHARACTER}".encode() not in bytes_of(store)


ZOE = {"id": None, "name": None, "email": "zo\u00eb@example.com", "phone": None}


def email_in(body: bytes) -> str | None:
    email: str | None = json.loads(body)["data"]["customer"].get("email")
    return email


def escaped(data: payloads.Document) -> bytes:
    """Return a delivery with escaped characters, as many JSON libraries write it."""
    return json.dumps(json.loads(delivery("orders/create", data))).encode()


async def test_an_e_mail_is_found_where_its_letters_are_escaped(
    store: SqliteStore,
) -> None:
    known = {**ZOE, "id": "cus_1"}
    told = [escaped(order(n, customer=c)) for n, c in ((1, known), (2, ZOE))]
    await append_and_fold(store, *told, b"no JSON: \\o/")
    await erase(store, "cus_1")
    *orders, kept = bodies(store.place)
    assert [email_in(body) for body in orders] == [None, None]
    assert kept == b"no JSON: \\o/"
    assert b"zo\\u00eb@" not in bytes_of(store)


@pytest.mark.parametrize("asked", ["zo\u00eb@example.com", "ZO\u00cb@example.com"])
async def test_a_guest_is_found_in_kept_events_that_escape_letters(
    asked: str, store: SqliteStore
) -> None:
    await append_and_fold(store, escaped(order(1, customer=ZOE, items=None)))
    done = await erase(store, asked)
    assert done["erased"]["events"] == 1
    assert [email_in(body) for body in bodies(store.place)] == [None]


@pytest.mark.parametrize("word", ["Zo\u00eb Xylo", 'Zoe "Quill"'])
def test_a_file_is_searched_for_escaped_letters_too(word: str, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    once = json.dumps({"name": word})
    for text in (once, json.dumps({"body": once}), word):
        kept.write_text(text)
        assert holds(kept, spellings([word]))
    assert not holds(kept, spellings(["Zoe Xylo"]))


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
    await store.records.accept("courier", "main", records, None, match_none)
    person = {**PERSON, "name": name}
    await append_and_fold(store, delivery("orders/create", order(1, customer=person)))
    done = await erase(store)
    assert (done["erased"]["records"], done["erased"]["in quarantine"]) == (2, 1)
    assert rows_of(store.place, "records", "payload", "raw") == [
        ('{"buyer":"[erased]"}', 'buyer\n"[erased]"'),
        ("null", '{"buyer":"[erased]"}'),
    ]


async def test_another_store_keeps_its_data_of_the_same_customer(
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
        await store.records.accept(f"courier-{name}", name, records, None, match_none)
    await fold_all(store)
    before = kept_by(store, "other")
    assert [len(kept) for kept in before] == [2, 2, 2, 1]
    await erase(store)
    assert kept_by(store, "other") == before
    assert not [m for kept in kept_by(store, "main") for m in kept if EMAIL in str(m)]


def kept_by(store: SqliteStore, name: str) -> list[list[tuple[Any, ...]]]:
    """Return the events, records, quarantine rows and orders of one store."""
    path, names = store.place, {name, f"courier-{name}"}
    return [
        rows_of(path, "events", "body", store=name),
        rows_of(path, "records", "raw", "payload", store=name),
        rows_of(path, "quarantine", "raw", name=names),
        rows_of(path, "orders", "document", store=name),
    ]


@pytest.mark.parametrize("email", [EMAIL, "asha.old@example.com"])
async def test_an_id_finds_guest_orders_by_every_known_e_mail(
    email: str, store: SqliteStore
) -> None:
    earlier = order(1, customer={**PERSON, "email": email}, tags=[])
    guest = order(2, customer={**GUEST, "email": email}, tags=[])
    told = [("customers/create", customer()), ("orders/create", earlier)]
    await append_and_fold(
        store, *(delivery(*b) for b in told), delivery("orders/create", guest)
    )
    done = await erase(store)
    assert done["erased"]["orders"] == 2
    assert find_secrets(store) == []
    assert email.encode() not in bytes_of(store)


async def test_an_order_folded_by_an_older_version_is_erased_too(
    store: SqliteStore,
) -> None:
    class Slow(SqliteErasure):
        """An order arrives and is folded between the lookup and the erasure."""

        async def register(
            self, name: str, trace: CustomerTrace, digests: Sequence[bytes]
        ) -> None:
            await append_and_fold(store, delivery("orders/create", order(2)))
            await super().register(name, trace, digests)

    await append_and_fold(store, delivery("orders/create", order(1)))
    async with writing(store.place) as writer:
        forgetting = Slow(
            SqliteEngine(store.place, writer, SystemClock()), SystemClock()
        )
        await CustomerErasure(forgetting, SystemClock()).erase("main", "cus_1", "eve")
    assert named_in_orders(store) == [None] * 2


@asynccontextmanager
async def writing(path: Path) -> AsyncIterator[Writer]:
    writer = Writer(path, lambda connection, arrivals: [])
    writer.start()
    try:
        yield writer
    finally:
        await writer.stop()


async def test_an_order_with_the_e_mail_of_another_customer_is_theirs(
    store: SqliteStore,
) -> None:
    theirs = {**SILENT, "customer": OTHER, "email": EMAIL}
    told = [
        delivery("customers/create", customer()),
        delivery("orders/create", order(98, **theirs)),
        delivery("orders/create", order(99, customer=OTHER, **SILENT)),
    ]
    await append_and_fold(store, *told)
    await erase(store)
    assert named_in_orders(store) == ["Bela Other"] * 2
    _, *orders = bodies(store.place)
    names = [json.loads(body)["data"]["customer"]["name"] for body in orders]
    assert names == ["Bela Other"] * 2
