"""What the SQL connector reads from tables, with a SQLite file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from backhaul_connectors.sql.settings import Settings
from backhaul_sdk import (
    Absent,
    Applied,
    Cancellation,
    CheckFailed,
    Found,
    Fulfillment,
    Line,
    NotSent,
    StockLevel,
)
from backhaul_sdk.testing import MemoryHost, sample_change
from connectors.tables import MOVEMENTS, NEWS, ORDERS, SHIPMENTS, SqliteTables

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from backhaul_sdk import Record

URL = "postgresql://backhaul@db.example/erp"


@pytest.fixture
async def tables(tmp_path: Path) -> AsyncIterator[SqliteTables]:
    made = SqliteTables(tmp_path / "erp.db")
    yield made
    await made.close()


async def pull(tables: SqliteTables, host: MemoryHost, **options: Any) -> list[Record]:
    """Take everything with a new connector; return what is new."""
    connector = tables.connector(**options)
    await connector.open()
    before = len(host.records)
    await host.pull(connector)
    return list(host.records.values())[before:]


async def test_a_shipment_has_the_values_of_its_columns(tables: SqliteTables) -> None:
    tables.ship(7, 1)
    (shipment,) = await pull(tables, MemoryHost(), fulfillments=SHIPMENTS)
    assert shipment == Fulfillment(
        key="fulfillment:7",
        order="A-7",
        tracking_company="BlueDart",
        tracking_number="BD7",
        everything=True,
        locator="shipments 7",
        raw='{"order":"A-7","tracking_company":"BlueDart","tracking_number":"BD7"}',
    )


async def test_a_query_can_join_and_gather_lines(tables: SqliteTables) -> None:
    query = """SELECT id AS "Parcel", order_no, '2020-05-01 12:30:00' AS packed,
        json_array(json_object('sku', 'LS-S', 'quantity', 2)) AS articles,
        changed_at FROM shipments WHERE carrier LIKE '%Dart';"""
    columns = {"order": "order_no", "lines": "articles", "shipped_at": "packed"}
    none = {"tracking_company": "", "tracking_number": ""}
    source = {"query": query, "id": "Parcel", "changed_at": "changed_at"}
    tables.ship(7, 1)
    (shipment,) = await pull(
        tables,
        MemoryHost(),
        fulfillments={**source, "columns": {**columns, **none}},
        timezone="Europe/Berlin",
    )
    assert isinstance(shipment, Fulfillment)
    assert shipment.lines == (Line(sku="LS-S", quantity=2),)
    assert shipment.shipped_at == "2020-05-01T10:30:00Z"


async def test_a_changed_row_comes_again_and_no_other(tables: SqliteTables) -> None:
    host = MemoryHost()
    tables.ship(0, 25)
    await pull(tables, host, fulfillments=SHIPMENTS, batch_rows=10)
    tables.run(
        "UPDATE shipments SET changed_at = '2021-01-01 00:00:00' WHERE id IN (3, 20)"
    )
    connector = tables.connector(fulfillments=SHIPMENTS)
    await connector.open()
    batches = [batch async for batch in connector.pull(host.cursor)]
    keys = [record.key for batch in batches for record in batch.records]
    assert keys == ["fulfillment:3", "fulfillment:20"]


async def test_rows_of_one_moment_are_all_read(tables: SqliteTables) -> None:
    tables.ship(0, 35)
    tables.run("UPDATE shipments SET changed_at = '2020-01-01 00:00:00'")
    host = MemoryHost()
    assert len(await pull(tables, host, fulfillments=SHIPMENTS, batch_rows=10)) == 35


async def test_a_row_is_left_until_late_ones_have_been_committed(
    tables: SqliteTables,
) -> None:
    host = MemoryHost()
    tables.ship(0, 1)
    tables.run("UPDATE shipments SET changed_at = datetime('now')")
    assert await pull(tables, host, fulfillments=SHIPMENTS, lag_seconds=3600) == []
    tables.ship(1, 1)  # committed later, although it is older
    tables.run("UPDATE shipments SET changed_at = '2020-01-01' WHERE id = 1")
    await pull(tables, host, fulfillments=SHIPMENTS, lag_seconds=3600)
    assert list(host.records) == ["fulfillment:1"]
    await pull(tables, host, fulfillments=SHIPMENTS, lag_seconds=0)
    assert list(host.records) == ["fulfillment:1", "fulfillment:0"]


async def test_a_row_without_its_time_is_reported(tables: SqliteTables) -> None:
    host = MemoryHost()
    tables.ship(0, 3)
    tables.run("UPDATE shipments SET changed_at = NULL WHERE id = 1")
    assert len(await pull(tables, host, fulfillments=SHIPMENTS)) == 2
    (bad,) = host.bad.values()
    assert bad.reason == "changed_at is empty, so the row is never read; fill it in"
    assert bad.locator == "shipments 1"


async def test_ids_that_are_no_text_stay_apart(tables: SqliteTables) -> None:
    tables.run("CREATE TABLE odd (id text PRIMARY KEY, order_number text, at integer)")
    ids = [b"\xff\x01", b"\xff\x02", b"\xfe", b"plain", "ünï".encode()]
    for id_ in ids:
        values = (id_, "A-1")
        tables.run("INSERT INTO odd VALUES (CAST(? AS TEXT), ?, 1600000000)", values)
    source = {"table": "odd", "changed_at": "at", "columns": {"tracking_company": ""}}
    source["columns"] = {"tracking_company": "", "tracking_number": ""}
    host = MemoryHost()
    await pull(tables, host, fulfillments=source, batch_rows=2)
    assert len(host.records) == len(ids)
    assert 'fulfillment:{"text":"ff01"}' in host.records
    assert await pull(tables, host, fulfillments=source, batch_rows=2) == []


async def test_marked_rows_may_have_ids_that_are_no_text(tables: SqliteTables) -> None:
    tables.run("CREATE TABLE odd (id text, sku text, adjustment integer, done text)")
    for id_ in (b"\xff\x01", b"\xff\x02", b"plain"):
        values = (id_, "LS-S")
        tables.run("INSERT INTO odd VALUES (CAST(? AS TEXT), ?, 5, NULL)", values)
    source = {"table": "odd", "processed_at": "done"}
    assert len(await pull(tables, MemoryHost(), stock_deltas=source)) == 3
    assert await pull(tables, MemoryHost(), stock_deltas=source) == []


async def test_rows_are_marked_after_the_commit_only(tables: SqliteTables) -> None:
    tables.move(0, 2)
    connector = tables.connector(stock_deltas=MOVEMENTS)
    await connector.open()
    async for batch in connector.pull(None):
        assert tables.rows("SELECT count(taken_at) FROM movements") == [(0,)]
        await batch.ack()
    assert tables.rows("SELECT count(taken_at) FROM movements") == [(2,)]


async def test_levels_without_a_time_are_read_whole_each_time(
    tables: SqliteTables,
) -> None:
    tables.run("CREATE TABLE stock (id integer, sku text, quantity numeric)")
    for number in range(5):
        tables.run("INSERT INTO stock VALUES (?, ?, ?)", (number, f"S{number}", 2.0))
    source = {"table": "stock"}
    host = MemoryHost()
    first = await pull(tables, host, stock_levels=source, batch_rows=2)
    second = await pull(tables, host, stock_levels=source, batch_rows=5)
    for levels in (first, second):
        assert [(s.sku, s.quantity) for s in levels if isinstance(s, StockLevel)] == [
            (f"S{number}", 2) for number in range(5)
        ]
    assert isinstance(first[0], StockLevel)
    assert isinstance(second[0], StockLevel)
    assert first[0].as_of < second[0].as_of


async def test_a_level_says_something_new_when_it_changes(tables: SqliteTables) -> None:
    tables.run("CREATE TABLE stock (id integer, sku text, quantity text, at text)")
    tables.run("INSERT INTO stock VALUES (1, 'LS-S', '7', '2020-01-01T10:00:00Z')")
    source = {"table": "stock", "changed_at": "at"}
    host = MemoryHost()
    (first,) = await pull(tables, host, stock_levels=source)
    tables.run("UPDATE stock SET quantity = '4', at = '2020-01-01T11:00:00Z'")
    (second,) = await pull(tables, host, stock_levels=source)
    assert first.key != second.key
    assert isinstance(second, StockLevel)
    assert (second.quantity, second.as_of) == (4, "2020-01-01T11:00:00Z")


async def test_after_a_restore_the_counts_of_unchanged_rows_are_read_again(
    tables: SqliteTables,
) -> None:
    tables.run("CREATE TABLE stock (id integer, sku text, quantity text, at text)")
    tables.run("INSERT INTO stock VALUES (1, 'LS-S', '7', '2020-01-01T10:00:00Z')")
    tables.ship(7, 1)
    levels = {"table": "stock", "changed_at": "at"}
    connector = tables.connector(fulfillments=SHIPMENTS, stock_levels=levels)
    await connector.open()
    host = MemoryHost()
    await host.pull(connector)
    assert len(host.records) == 2
    again = connector.pull(connector.restart_stock(host.cursor))
    (record,) = [record async for batch in again for record in batch.records]
    assert isinstance(record, StockLevel)


async def test_cancellations_are_read(tables: SqliteTables) -> None:
    tables.run(
        "CREATE TABLE void (id integer, order_number integer, restock bool, why text, "
        "at integer)"
    )
    tables.run("INSERT INTO void VALUES (1, 1001, true, 'Customer', 1600000000)")
    source = {"table": "void", "changed_at": "at", "columns": {"reason": "why"}}
    (found,) = await pull(tables, MemoryHost(), cancellations=source)
    assert isinstance(found, Cancellation)
    assert (found.order, found.restock, found.reason) == ("1001", True, "CUSTOMER")


async def test_a_source_that_fails_holds_up_no_other(tables: SqliteTables) -> None:
    tables.move(0, 3)
    gone = {**SHIPMENTS, "table": "nowhere"}
    connector = tables.connector(fulfillments=gone, stock_deltas=MOVEMENTS)
    await connector.open()
    host = MemoryHost()
    with pytest.raises(CheckFailed, match="fulfillments: nowhere cannot be used: no"):
        await host.pull(connector)
    assert len(host.records) == 3


async def test_a_name_is_never_a_statement(tables: SqliteTables) -> None:
    tables.ship(0, 1)
    evil = {**SHIPMENTS, "table": 'x"; DROP TABLE shipments; --'}
    connector = tables.connector(fulfillments=evil)
    await connector.open()
    with pytest.raises(CheckFailed, match="no such table"):
        await MemoryHost().pull(connector)
    assert tables.rows("SELECT count(*) FROM shipments") == [(1,)]


async def test_values_are_never_a_statement(tables: SqliteTables) -> None:
    connector = tables.connector(write=[ORDERS])
    await connector.open()
    change = sample_change(1)
    evil = {**change.document, "status": "'); DROP TABLE orders; --"}
    change.document.clear()  # type: ignore[attr-defined]  # a dict of our own
    change.document.update(evil)  # type: ignore[attr-defined]  # a dict of our own
    assert isinstance(await connector.push(change), Applied)
    assert tables.rows("SELECT count(*) FROM orders") == [(1,)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"fulfillments": {**SHIPMENTS, "table": "nope"}}, "there is no table nope"),
        (
            {"fulfillments": {**SHIPMENTS, "id": "nr"}},
            "has no column nr; it has: id, order_no, carrier, tracking_number",
        ),
        ({"write": [{**NEWS, "table": "nope"}]}, "there is no table nope"),
        (
            {"write": [{**ORDERS, "columns": {"colour": "status"}}]},
            "table orders has no column colour; it has: order_id, change_id",
        ),
        (
            {"write": [{**ORDERS, "object_column": "sku", "columns": {}}]},
            "put a unique index on column sku of table orders",
        ),
    ],
)
async def test_check_says_what_to_fix(
    tables: SqliteTables, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(CheckFailed) as raised:
        await tables.connector(**options).check()
    assert words in str(raised.value)


async def test_check_makes_no_file(tables: SqliteTables) -> None:
    gone = tables.path.with_name("gone.db")
    connector = tables.connector(url=f"sqlite:///{gone}", stock_deltas=MOVEMENTS)
    with pytest.raises(CheckFailed, match="unable to open database file"):
        await connector.check()
    assert not gone.exists()


async def test_a_row_for_each_order_is_kept_up_to_date(tables: SqliteTables) -> None:
    connector = tables.connector(write=[ORDERS, NEWS])
    await connector.open()
    placed, cancelled = sample_change(1), sample_change(1, "order.cancelled")
    assert await connector.push(placed) == Applied(placed.object_id)
    assert await connector.lookup(placed) == Found(placed.object_id)
    assert await connector.lookup(cancelled) == Absent()
    await connector.push(cancelled)
    assert tables.rows("SELECT change_id, status, total, sku FROM orders") == [
        (cancelled.id.encode(), b"CANCELLED", 20, b"LS-S")
    ]
    topics = tables.rows("SELECT topic, at FROM news ORDER BY topic")
    assert topics == [
        (b"order.cancelled", cancelled.occurred_at.encode()),
        (b"order.placed", placed.occurred_at.encode()),
    ]


async def test_a_change_that_is_written_twice_is_there_once(
    tables: SqliteTables,
) -> None:
    connector = tables.connector(write=[ORDERS, NEWS])
    await connector.open()
    for _ in range(3):
        assert isinstance(await connector.push(sample_change(1)), Applied)
    assert tables.rows("SELECT count(*) FROM orders") == [(1,)]
    assert tables.rows("SELECT count(*) FROM news") == [(1,)]


async def test_a_missing_table_keeps_changes_waiting(
    tables: SqliteTables,
) -> None:
    connector = tables.connector(write=[{**NEWS, "table": "nope"}])
    await connector.open()
    assert isinstance(await connector.push(sample_change(1)), NotSent)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"url": "oracle://x@y/z"},
            "but must begin with one of postgresql://, mysql://",
        ),
        ({"url": "what is this"}, "url is not the address of a database"),
        ({"url": "sqlite://"}, "url must name a file"),
        ({}, "reads and writes nothing"),
        ({"stock_deltas": {"table": "a.b.c", "processed_at": "x"}}, "schema.table"),
        (
            {"stock_deltas": {"table": "a"}},
            "changed_at and processed_at are both missing",
        ),
        (
            {"stock_levels": {"table": "a", "query": "SELECT 1"}},
            "one of table and query must be set",
        ),
        (
            {"stock_levels": {"query": "DELETE FROM x"}},
            "must begin with SELECT or WITH",
        ),
        ({"stock_levels": {"table": "a", "id": "\n"}}, "cannot be the name"),
        ({"write": [{**NEWS, "topics": ["order.eaten"]}]}, "'order.eaten' is not one"),
        ({"write": [{**NEWS, "columns": {"x": "@y"}}]}, "'@y' is neither a path"),
        ({"stock_levels": {"table": "a"}, "timezone": "Mars"}, "is not a time zone"),
    ],
)
def test_wrong_settings_are_explained(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as raised:
        Settings.model_validate({"url": URL, **options})
    assert words in str(raised.value)


def test_a_password_in_the_address_never_shows() -> None:
    secret = "hush-0123456789"
    address = f"postgresql://backhaul:{secret}@db.example/erp"
    settings = Settings.model_validate({"url": address, "write": [NEWS]})
    assert secret not in repr(settings)
    with pytest.raises(ValidationError) as raised:
        Settings.model_validate({"url": f"oracle://x:{secret}@y/z", "write": [NEWS]})
    assert secret not in str(raised.value)
