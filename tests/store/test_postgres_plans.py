"""Query plans of frequent statements on PostgreSQL, among many rows."""

from __future__ import annotations

import itertools
import re
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core.clock import SystemClock
from backhaul.store.commands import Sendable
from backhaul.store.filters import Filter, Sort
from backhaul.store.order_lists import OrderTab
from backhaul.store.postgres.connection import Connection
from backhaul.store.postgres.database import open_store
from backhaul.store.postgres.dialect import batched, numbered
from backhaul.store.sql.dialect import BATCH
from backhaul.store.sql.read_models import near_matches
from backhaul.store.sql.records import mappings
from backhaul.store.stock_lists import PushState
from scenes import commands
from scenes.cluster_members import became_owner, member
from scenes.databases import append, fold_all
from scenes.payloads import (
    customer,
    deletion,
    envelope,
    item,
    order,
    product,
    stock_change,
)
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul.store import Store
    from backhaul.store.read_models import Reader
    from scenes.postgres_databases import PostgresDatabases

pytestmark = pytest.mark.programs

MANY = 100_000
_N = f"FROM generate_series(1, {MANY}) n"
_AT = "'2026-03-01T12:00:00.000Z'"
FILLED = {
    "inbox": "(id, stream, store, kind, topic, received_at, headers, body)"
    f" SELECT n, 0, 'main', 'delivery', 'orders/create', {_AT}, '', '' {_N}",
    "event_outcomes": "(id, state, topic, object_id, folded_at)"
    f" SELECT n, 'folded', 'orders/create', 'old_' || n, {_AT} {_N}",
    "delivery_digests": f"(digest, id) SELECT sha256(n::text::bytea), n {_N}",
    "changes": "(id, store, kind, object_id, change, at, event)"
    f" SELECT n, 'main', 'order', 'old_' || n, 'created', {_AT}, n {_N}",
    "orders": "(store, id, status, updated_at, document)"
    f" SELECT 'main', 'old_' || n, 'PAID', {_AT}, '{{}}' {_N}",
    "order_items": "(store, id, order_id, quantity)"
    f" SELECT 'main', '1', 'old_' || n, 1 {_N}",
    "shipments": f"(store, id, order_id) SELECT 'main', '1', 'old_' || n {_N}",
    "customers": "(store, id, updated_at, document)"
    f" SELECT 'main', 'old_' || n, {_AT}, '{{}}' {_N}",
    "products": "(store, id, title, status, updated_at)"
    f" SELECT 'main', 'old_' || n, '', 'ACTIVE', {_AT} {_N}",
    "variants": "(store, id, product_id, updated_at)"
    f" SELECT 'main', 'v_' || n, 'old_' || n, {_AT} {_N}",
    "inventory_levels": "(store, product_id, variant_id, stock, updated_at)"
    f" SELECT 'main', 'old_' || n, 'v_' || n, 1, {_AT} {_N}",
    "stock_ledger": "(id, store, product_id, variant_id, adjustment, stock_after,"
    f" adjustment_id, at) SELECT n, 'main', 'old_' || n, 'v_' || n, 1, 1, 'a_' || n,"
    f" {_AT} {_N}",
    "sku_spellings": f"(store, near, sku) SELECT 'main', n::text, n::text {_N}",
    "tombstones": "(kind, store, id, updated_at)"
    f" SELECT 'order', 'main', 'gone_' || n, {_AT} {_N}",
    "commands": "(seq, id, store, kind, target, lane, state, payload, cause, instance,"
    " created_at, due_at) SELECT n, 'old_' || n, 'main', 'cancel', 'old_' || n,"
    f" 'order:old_' || n, 'confirmed', '{{}}', '', 'courier', {_AT}, {_AT} {_N}",
    "records": "(id, instance, store, key, payload, raw, locator, state, received_at,"
    f" retry_at) SELECT n, 'courier', 'main', 'old_' || n, '', '', '', 'accepted',"
    f" {_AT}, {_AT} {_N}",
    "attempts": "(id, command_id, number, started_at)"
    f" SELECT n, 'old_' || n, 1, {_AT} {_N}",
}
"""Tables that grow, with old rows."""
NUMBERED = (
    *((each, "id") for each in ("inbox", "changes", "stock_ledger", "records")),
    ("attempts", "id"),
    ("commands", "seq"),
)
"""Columns with a sequence, which must continue after these rows."""
SOUGHT_AT_ALL = {"tombstones"}
"""Each slice checks if such a table has rows, which reads only the first row."""
_FROM_AN_ID_ON = re.compile(r"using \w+_pkey on (\w+).*\n\s*Index Cond: \(id > ")
"""A plan that reads all later rows of all streams, for the rows of one stream."""
_OF_A_LIST = re.compile(r" AS (waiting|from_minor|orders)\b")
_PLANNED = re.compile(r"\s*(SELECT|WITH|INSERT|UPDATE|DELETE)\b")


class Recorder:
    """The statements that connections executed."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.seen: dict[str, None] = {}
        for name in ("execute", "executemany", "begin"):
            patch.setattr(Connection, name, self._recording(getattr(Connection, name)))

    def _recording(self, run: Any) -> Any:
        def recorded(connection: Connection, sql: str, *values: Any) -> Any:
            if _PLANNED.match(sql.removeprefix(BATCH)):
                self.seen[sql] = None
            return run(connection, sql, *values)

        return recorded


@pytest.fixture
def url(postgres_server: PostgresDatabases) -> Iterator[str]:
    with postgres_server.lent() as url, closing(Connection(url)) as connection:
        connection.limits.silence_seconds = HANG_SECONDS
        # without triggers and foreign keys, which slow down each row
        connection.execute("SET session_replication_role = replica")
        for table, rows in FILLED.items():
            connection.execute(f"INSERT INTO {table} {rows}")
        folded = "INSERT INTO kv (name, value) VALUES ('fold_cursor', ?)"
        connection.execute(folded, (str(MANY),))
        connection.execute("UPDATE streams SET folded_to = ?", (MANY,))
        for names in NUMBERED:
            following = "SELECT setval(pg_get_serial_sequence(?, ?), ?)"
            connection.execute(following, (*names, MANY))
        connection.execute("SET session_replication_role = DEFAULT")
        connection.execute("ANALYZE")
        yield url


async def test_no_hot_statement_reads_a_whole_table(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(monkeypatch)
    store = open_store(url, SystemClock(), member("a"))
    store.start()
    assert await became_owner(store)
    recorder.seen.clear()
    await work(store)
    await store.stop()
    assert len(recorder.seen) > 40, "it recorded too little"
    with closing(Connection(url)) as connection:
        found = {
            " ".join(sql.split()): scanned
            for sql in [*recorder.seen]
            if (scanned := scans(connection, sql))
        }
    assert not found


async def test_no_list_of_the_mirror_reads_a_whole_table(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(monkeypatch)
    store = open_store(url, SystemClock(), member("a"))
    store.start()
    recorder.seen.clear()
    for tab in OrderTab:
        await store.read(partial(_orders, tab))
    await store.read(lambda reader: reader.orders_of("main", "cus_1", 20))
    await store.read(lambda reader: reader.products(51))
    await store.read(lambda reader: reader.customers(51))
    await store.stop()
    listed = [sql for sql in recorder.seen if _OF_A_LIST.search(sql)]
    assert len(listed) == 6
    with closing(Connection(url)) as connection:
        assert [found for sql in listed if (found := scans(connection, sql))] == []


def _orders(tab: OrderTab, reader: Reader) -> None:
    reader.orders(tab, ["main"], 51)


async def test_no_page_of_stock_reads_a_whole_table(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(monkeypatch)
    store = open_store(url, SystemClock(), member("a"))
    store.start()
    recorder.seen.clear()
    filters = [
        *(Filter(), Filter(words=("lamp",)), Filter(sku="A"), Filter(object="p")),
        *(Filter(state=state.value) for state in PushState),
    ]
    for wanted in filters:
        for sort in (Sort.USUAL, Sort.LOWEST):
            await store.read(partial(_stock, wanted, sort))
    await store.read(lambda reader: reader.state_counts("stock"))
    await store.stop()
    listed = [sql for sql in recorder.seen if sql.lstrip().startswith("SELECT")]
    assert len(listed) > 2 * len(filters)
    with closing(Connection(url)) as connection:
        found = {sql: scanned for sql in listed if (scanned := scans(connection, sql))}
    assert not found


def _stock(wanted: Filter, sort: Sort, reader: Reader) -> None:
    reader.stock(wanted, ["main"], 101, None, sort, 10_000)


def test_near_matches_read_no_whole_table(url: str) -> None:
    named = (
        "UPDATE orders SET number = substr(id, 5)::bigint, name = '#' || substr(id, 5)"
    )
    with closing(Connection(url)) as connection:
        connection.limits.silence_seconds = HANG_SECONDS
        connection.execute(f"{named}, external_id = 'POS-' || substr(id, 5)")
        connection.execute("UPDATE variants SET sku = id")
        connection.execute("VACUUM ANALYZE")
        queries = (
            *(near_matches.SKUS_SPELLED, near_matches.SKUS_AFTER),
            *(near_matches.SKUS_BEFORE, near_matches.SKU_DETAIL),
            *(near_matches.ORDERS_NUMBERED, near_matches.ORDERS_NAMED),
            *(near_matches.ORDERS_REFERENCED, near_matches.ORDER_UNITS),
            *(near_matches.CARRIERS, mappings.FIND),
        )
        found = {sql: scanned for sql in queries if (scanned := scans(connection, sql))}
    assert not found


async def work(store: Store) -> None:
    """Receive and fold events of each kind twice, and send a command."""
    line = item(productId="prod_1", variantId="var_1")
    topics = {
        "products/create": product(),
        "orders/create": order(items=[line]),
        "customers/create": customer(),
        "inventory/level_update": stock_change(),
        "products/update": product(at=4),
        "orders/updated": order(at=5, items=[line]),
        "products/delete": deletion(),
    }
    for topic, data in topics.items():
        await append(store, [envelope(topic, data)])
    assert await fold_all(store) == []
    await commands.plan(store, "cancel", "order:ord_1")
    await store.commands.claim(
        "main", {"cancel": "9"}, 8, lambda *_: Sendable(b"{}", "k")
    )


def scans(connection: Connection, sql: str) -> list[str]:
    """Return the tables with many rows that the generic plan of a statement reads."""
    text, _ = numbered(sql)
    if BATCH in sql:
        numbers = itertools.count(1)
        types = connection._types(sql)
        text = re.sub("%b", lambda _: f"${next(numbers)}", batched(sql, types).decode())
    # In a message with BEGIN, `$1` is text; alone it would need a value.
    plan = connection.begin(f"EXPLAIN (GENERIC_PLAN) {text}", ()).fetchall()
    connection.execute("ROLLBACK")
    text = "\n".join(row[0] for row in plan)
    read = re.findall(r"Seq Scan on (\w+)", text) + re.findall(_FROM_AN_ID_ON, text)
    return [each for each in read if each in FILLED.keys() - SOUGHT_AT_ALL]
