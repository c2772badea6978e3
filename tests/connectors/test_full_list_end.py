"""A full stock list is marked complete only if all of its rows are usable."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backhaul_sdk import FullList, StockLevel
from backhaul_sdk.testing import MemoryHost
from connectors.dropping import Drop
from connectors.tables import SqliteTables

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CASE = Path(__file__).parent / "cases" / "19-absent-article.csv"


@pytest.fixture
def drop(tmp_path: Path) -> Drop:
    return Drop(tmp_path, {"absent": "zero", "absent_limit": 0.25})


@pytest.fixture
async def tables(tmp_path: Path) -> AsyncIterator[SqliteTables]:
    made = SqliteTables(tmp_path / "erp.db")
    yield made
    await made.close()


def ends(host: MemoryHost) -> list[tuple[int, float]]:
    found = [each for each in host.records.values() if isinstance(each, FullList)]
    levels = [each for each in host.records.values() if isinstance(each, StockLevel)]
    assert {each.listed_at for each in levels} <= {
        each.listed_at for each in found
    } or (not found)
    assert all(each.full_list for each in levels)
    return [(each.rows, each.absent_limit) for each in found]


async def test_a_list_of_usable_rows_has_an_end(drop: Drop) -> None:
    drop.put("stock-levels.csv", CASE.read_bytes())
    assert ends(await drop.pull()) == [(1, 0.25)]


@pytest.mark.parametrize("batch_rows", [1, 2, 500])
async def test_the_end_comes_last(drop: Drop, batch_rows: int) -> None:
    drop.options["batch_rows"] = batch_rows
    drop.put("stock-levels.csv", "sku,quantity\nA,1\nB,2\nC,3\n")
    records = [record for batch in await drop.batches() for record in batch.records]
    assert isinstance(records[-1], FullList)
    assert len(records) == 4


@pytest.mark.parametrize("bad", ["B,x", ",2", "A,2", "B"])
async def test_a_list_with_an_unusable_row_has_no_end(drop: Drop, bad: str) -> None:
    rows = "".join(f"X{number},1\n" for number in range(20))
    drop.put("stock-levels.csv", f"sku,quantity\nA,1\n{bad}\n{rows}")
    assert ends(await drop.pull()) == []


@pytest.mark.parametrize(
    ("rows", "end"),
    [
        ("A,1,MAIN\nB,2,SHOP\n", (1, 0, " without 1 SKUs that stock_level_rows")),
        ("A,1,MAIN\nA,2,SHOP\n", (1, 0.25, "")),
        ("A,1,MAIN\n,2,SHOP\n", (1, 0.25, "")),
        ("A,1,SHOP\nB,2,SHOP\n", (0, 0, " without 2 SKUs")),
        ("A,1,MAIN\nB,2,MAIN\n", (2, 0.25, "")),
    ],
)
async def test_articles_that_a_filter_hides_are_not_zeroed_unasked(
    drop: Drop, rows: str, end: tuple[int, float, str]
) -> None:
    drop.options["stock_level_rows"] = {"only": {"House": "MAIN"}}
    drop.put("stock-levels.csv", f"sku,quantity,House\n{rows}")
    host = await drop.pull()
    (found,) = [each for each in host.records.values() if isinstance(each, FullList)]
    assert (found.rows, found.absent_limit) == end[:2]
    assert found.locator.startswith(f"stock-levels.csv{end[2]}")


async def test_an_empty_list_has_an_end(drop: Drop) -> None:
    drop.options["incomplete_seconds"] = 0
    drop.put("stock-levels.csv", "sku,quantity\n")
    assert ends(await drop.pull()) == [(0, 0.25)]


async def test_nothing_else_has_an_end(drop: Drop) -> None:
    drop.put("fulfillments.csv", "order,tracking_company,tracking_number\n1,DHL,2\n")
    keeps = Drop(drop.path)
    keeps.put("stock-levels.csv", "sku,quantity\nA,1\n")
    host = await keeps.pull()
    assert not any(isinstance(each, FullList) for each in host.records.values())


async def read(tables: SqliteTables, **options: Any) -> MemoryHost:
    options = {"absent": "zero", "stock_levels": {"table": "stock"}, **options}
    connector = tables.connector(**options)
    await connector.open()
    host = MemoryHost()
    await host.pull(connector)
    return host


@pytest.mark.parametrize("batch_rows", [1, 2, 3, 100])
async def test_a_whole_table_has_an_end(tables: SqliteTables, batch_rows: int) -> None:
    tables.run("CREATE TABLE stock (id integer, sku text, quantity numeric)")
    assert ends(await read(tables, batch_rows=batch_rows)) == [(0, 0.1)]
    for number in range(3):
        tables.run("INSERT INTO stock VALUES (?, ?, 1)", (number, f"S{number}"))
    assert ends(await read(tables, batch_rows=batch_rows)) == [(3, 0.1)]


@pytest.mark.parametrize(
    "row", [(None, "B", 1), (9, "B", "x"), (9, "", 1), (9, "A", 1), (9, "B", None)]
)
async def test_a_table_with_an_unusable_row_has_no_end(
    tables: SqliteTables, row: tuple[Any, ...]
) -> None:
    tables.run("CREATE TABLE stock (id integer, sku text, quantity numeric)")
    tables.run("INSERT INTO stock VALUES (1, 'A', 1)")
    tables.run("INSERT INTO stock VALUES (?, ?, ?)", row)
    assert ends(await read(tables, batch_rows=1)) == []


async def test_a_read_that_goes_on_after_a_kill_has_no_end(
    tables: SqliteTables,
) -> None:
    tables.run("CREATE TABLE stock (id integer, sku text, quantity numeric)")
    for number in range(4):
        tables.run("INSERT INTO stock VALUES (?, ?, 1)", (number, f"S{number}"))
    options = {"absent": "zero", "stock_levels": {"table": "stock"}, "batch_rows": 2}
    connector = tables.connector(**options)
    await connector.open()
    batches = connector.pull(None)
    first = await anext(batches)
    await batches.aclose()
    again = tables.connector(**options)
    await again.open()
    rest = [each async for batch in again.pull(first.cursor) for each in batch.records]
    assert not any(isinstance(each, FullList) for each in rest)


def test_only_a_whole_table_has_an_end(tables: SqliteTables) -> None:
    source = {"table": "stock", "changed_at": "at"}
    with pytest.raises(ValueError, match='absent = "zero" needs the whole list'):
        tables.connector(stock_levels=source, absent="zero")
