"""Stored events are exported by filter; pruned events are omitted and counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul.store import database_at
from backhaul.store.export_and_query import EventFilter
from backhaul.store.inbox import Arrival
from backhaul.store.sql.inbox.export import WINDOW
from backhaul.traffic import capture_files
from scenes import payloads
from scenes.databases import append, append_and_fold, fold_all, started_store
from scenes.memory import peak_bytes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from backhaul.store.sqlite.database import SqliteStore

YOUNG = payloads.instant(45)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with started_store(tmp_path / "backhaul.db") as started:
        yield started


def order(number: int, **members: Any) -> bytes:
    document = payloads.order(f"ord_{number}", number=number, **members)
    return payloads.envelope("orders/create", document)


async def test_pruned_events_are_left_out_and_counted(
    store: SqliteStore, tmp_path: Path
) -> None:
    await append_and_fold(store, order(1001), order(1002))
    await store.inbox.append(payloads.arrival(order(1003), at=50))
    await fold_all(store)
    while (await store.retention.prune(YOUNG, 1.0)).more:
        pass
    out = tmp_path / "day.jsonl"
    with database_at(store.path).inbox_export() as history, out.open("w") as stream:
        head = capture_files.CaptureHeader(capture_files.FORMAT, "t", {})
        assert capture_files.write(head, history.arrivals(EventFilter()), stream) == 1
        assert history.pruned == 2
    (left,) = capture_files.read(out)
    assert left.received_at == payloads.instant(50)


async def test_matching_events_are_found_however_far_apart(store: SqliteStore) -> None:
    await append(store, [order(1)])
    other = Arrival("other", "delivery", "t", "t", b"{}", b"b")
    for future in [store.inbox.append(other) for _ in range(2 * WINDOW - 1)]:
        await future
    await append(store, [order(2)])
    with database_at(store.path).inbox_export() as history:
        found = list(history.arrivals(EventFilter(store="main")))
        assert len(list(history.arrivals(EventFilter()))) == 2 * WINDOW + 1
    assert [b"ord_1" in found[0].body, b"ord_2" in found[1].body] == [True, True]
    assert len(found) == 2


async def test_only_one_body_is_held_in_memory_at_a_time(store: SqliteStore) -> None:
    bodies = [order(number, note="n" * 100_000) for number in range(100)]
    await append(store, bodies)
    del bodies
    with database_at(store.path).inbox_export() as history, peak_bytes() as peak:
        assert sum(1 for _ in history.arrivals(EventFilter())) == 100
        assert 0 < peak() < 3_000_000


async def test_no_checkpoint_waits_for_a_slow_reader(
    store: SqliteStore,
) -> None:
    await append(store, [order(number) for number in range(9)])
    with database_at(store.path).inbox_export() as history:
        arrivals = history.arrivals(EventFilter())
        next(arrivals)
        assert await store.erasure.empty_log()


NAMES = {
    "id": "ord_1002",
    "number": "1002",
    "name": "#1002",
    "external id": "POS-2",
    "product": "prod_1",
    "handle": "linen-shirt",
    "SKU": "LS-S",
    "customer": "cus_1",
    "e-mail": "asha@example.com",
    "nobody": "1002abc",
}


@pytest.mark.parametrize("name", NAMES)
async def test_an_object_is_known_by_each_of_its_names(
    name: str, store: SqliteStore
) -> None:
    await append_and_fold(
        store,
        order(1001),
        order(1002, externalId="POS-2"),
        payloads.envelope("products/create", payloads.product()),
        payloads.envelope("customers/create", payloads.customer()),
    )
    topics = {"product": "products", "handle": "products", "SKU": "products"}
    topics |= {"customer": "customers", "e-mail": "customers"}
    with database_at(store.path).inbox_export() as history:
        found = list(history.arrivals(EventFilter(object=NAMES[name])))
    if name == "nobody":
        assert found == []
        return
    (one,) = found
    topic = f'"topic":"{topics.get(name, "orders")}/create"'
    assert topic.encode() in one.body
    assert (b"ord_1002" in one.body) == (name not in topics)
