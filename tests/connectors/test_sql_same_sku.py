"""Several rows of one SKU in a table read as a whole are refused or added up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul_sdk import StockLevel
from backhaul_sdk.testing import MemoryHost
from connectors.tables import SqliteTables

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

ROWS = [("A3", 30), ("B1", 7), ("A3", 12), ("NEG", -5), ("NEG", 2), ("ODD", 1.5)]
SOURCES = [{"table": "stock"}, {"query": "SELECT * FROM stock"}]


@pytest.fixture
async def tables(tmp_path: Path) -> AsyncIterator[SqliteTables]:
    made = SqliteTables(tmp_path / "erp.db")
    yield made
    await made.close()


def fill(tables: SqliteTables, *rows: tuple[Any, Any]) -> None:
    tables.run("CREATE TABLE stock (id integer, sku text, quantity numeric)")
    for number, row in enumerate(rows):
        tables.run("INSERT INTO stock VALUES (?, ?, ?)", (number, *row))


async def levels(tables: SqliteTables, **options: Any) -> tuple[Any, MemoryHost]:
    """Return quantities by article of one read, and the host that took them."""
    connector = tables.connector(**options)
    await connector.open()
    host = MemoryHost()
    await host.pull(connector)
    found = [each for each in host.records.values() if isinstance(each, StockLevel)]
    assert len(found) == len({each.sku for each in found})
    return {each.sku: each.quantity for each in found}, host


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("batch_rows", [1, 2, 100])
async def test_rows_of_one_article_are_refused(
    tables: SqliteTables, source: dict[str, str], batch_rows: int
) -> None:
    fill(tables, *ROWS)
    found, host = await levels(tables, stock_levels=source, batch_rows=batch_rows)
    assert found == {"B1": 7}
    reasons = sorted(each.reason for each in host.bad.values())
    assert len(reasons) == 5
    assert reasons[1].startswith("rows 0, 2 count the same SKU 'A3'")


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("batch_rows", [1, 2, 100])
async def test_rows_of_one_article_are_added_up(
    tables: SqliteTables, source: dict[str, str], batch_rows: int
) -> None:
    fill(tables, *ROWS, ("BAD", "x"), ("BAD", 3))
    options = {"same_sku": "sum", "batch_rows": batch_rows}
    found, host = await levels(tables, stock_levels=source, **options)
    assert found == {"A3": 42, "B1": 7, "NEG": 0}
    notes = {
        each.sku: each.note
        for each in host.records.values()
        if isinstance(each, StockLevel)
    }
    assert notes["A3"] == "30 + 12 of rows 0, 2 added up"
    assert notes["NEG"] == "-5 + 2 of rows 3, 4 added up; -3 is taken as 0"
    assert len(host.bad) == 3


async def test_every_row_of_a_read_is_of_one_moment(tables: SqliteTables) -> None:
    fill(tables, *((f"S{number}", number) for number in range(9)))
    _, host = await levels(tables, stock_levels=SOURCES[0], batch_rows=2)
    found = [each for each in host.records.values() if isinstance(each, StockLevel)]
    assert len({(each.as_of, each.listed_at) for each in found}) == 1


def test_only_a_whole_list_can_be_added_up(tables: SqliteTables) -> None:
    source = {"table": "stock", "changed_at": "at"}
    with pytest.raises(ValueError, match='same_sku = "sum" needs the whole list'):
        tables.connector(stock_levels=source, same_sku="sum")


async def test_rows_of_an_outbox_are_entries_of_a_journal(tables: SqliteTables) -> None:
    tables.run(
        "CREATE TABLE counts (id integer, sku text, quantity numeric, at text,"
        " done text)"
    )
    for number, quantity in enumerate((30, 12)):
        values = (number, "A3", quantity, "2026-03-31T10:00:00Z")
        tables.run("INSERT INTO counts VALUES (?, ?, ?, ?, NULL)", values)
    source = {
        "table": "counts",
        "processed_at": "done",
        "columns": {"as_of": "at"},
    }
    connector = tables.connector(stock_levels=source)
    await connector.open()
    host = MemoryHost()
    await host.pull(connector)
    found = [each for each in host.records.values() if isinstance(each, StockLevel)]
    assert [(each.quantity, each.in_order) for each in found] == [
        (30, True),
        (12, True),
    ]
