"""A shipment that names no article never means everything unless its row says so."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backhaul_connectors.sql.parsing import Origin, record_of
from backhaul_sdk import Bad, Fulfillment, Line
from backhaul_sdk.testing import MemoryHost
from connectors.tables import SqliteTables

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CASES = Path(__file__).parent / "cases"
COLUMNS = {"order": "order_number"}
EMPTY: tuple[object, ...] = (
    None,
    "[]",
    " [] ",
    "null",
    "",
    [],
    "{}",
    '[{"sku": null, "quantity": 1}]',
)
"""What databases make of a list without rows, and lists that name nothing."""


@pytest.fixture
async def tables(tmp_path: Path) -> AsyncIterator[SqliteTables]:
    made = SqliteTables(tmp_path / "erp.db")
    yield made
    await made.close()


def shipment_of(**values: Any) -> object:
    """Return what the sql connector makes of a row of shipments."""
    origin = Origin(place="ship", id="s1", changed_at=None, zone=UTC)
    return record_of("fulfillments", {"order": "1001", **values}, origin)


async def test_a_table_of_shipments_without_lines_ships_nothing(
    tables: SqliteTables,
) -> None:
    with closing(sqlite3.connect(tables.path)) as connection:
        connection.executescript((CASES / "03-empty-lines-sqlite.sql").read_text())
    source = {"table": "ship", "changed_at": "upd", "columns": COLUMNS}
    source["columns"] = {**COLUMNS, "lines": "lines"}
    connector = tables.connector(fulfillments=source)
    await connector.open()
    host = MemoryHost()
    await host.pull(connector)
    assert list(host.records) == []
    (bad,) = host.bad.values()
    assert "(lines is empty), so nobody knows what was shipped" in bad.reason


@pytest.mark.parametrize("lines", EMPTY, ids=repr)
@pytest.mark.parametrize("beside", [{}, {"sku": None}, {"sku": " "}], ids=repr)
def test_empty_lines_ship_nothing(lines: object, beside: dict[str, Any]) -> None:
    assert isinstance(shipment_of(lines=lines, **beside), Bad)


@pytest.mark.parametrize("sku", [None, "", "  "], ids=repr)
@pytest.mark.parametrize("beside", [{}, {"quantity": None}, {"quantity": 2}], ids=repr)
def test_an_empty_sku_ships_nothing(sku: object, beside: dict[str, Any]) -> None:
    assert isinstance(shipment_of(sku=sku, **beside), Bad)


def test_a_row_without_columns_of_articles_is_everything() -> None:
    shipment = shipment_of()
    assert isinstance(shipment, Fulfillment)
    assert (shipment.lines, shipment.everything) == ((), True)


def test_a_row_may_name_its_article_in_either_column() -> None:
    shipment = shipment_of(lines=None, sku="A", quantity=2)
    assert isinstance(shipment, Fulfillment)
    assert shipment.lines == (Line(sku="A", quantity=2),)
    assert not shipment.everything
