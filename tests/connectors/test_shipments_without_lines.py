"""A shipment without lines ships the whole order only if its row says so."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backhaul_connectors.sql.parsing import RowOrigin, record_of
from backhaul_sdk import Bad, Fulfillment, Line
from backhaul_sdk.testing import MemoryHost
from connectors.dropping import Drop
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
    origin = RowOrigin(place="ship", id="s1", changed_at=None, zone=UTC)
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
    assert "(lines is empty), so Backhaul does not know what was shipped" in bad.reason


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


JSON_LINES: tuple[dict[str, Any], ...] = (
    {"lines": []},
    {"lines": None},
    {"Line Items": ""},
    {"items": [{"sku": "A1", "quantity": 1}]},
    {"Positionen": {"1": "A1"}},
    {"skus": ["A1"]},
    {"items": "A1 x 2"},
    {"parcel": [{"Artikelnummer": "A1"}]},
    {"sku": None, "lines": []},
    {"sku": "", "content": [{"weight": 1}, {"EAN": "4006381333931"}]},
)
"""Members of an object that list what a shipment contains."""


@pytest.mark.parametrize("members", JSON_LINES, ids=repr)
async def test_an_object_that_lists_its_articles_in_a_member_ships_nothing(
    members: dict[str, Any], tmp_path: Path
) -> None:
    drop = Drop(tmp_path)
    drop.put("fulfillments.jsonl", json.dumps({"order": "1001", **members}) + "\n")
    await drop.pull()
    assert drop.records() == []
    assert "rite one object for each SKU" in drop.reasons()[0]


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"items": 3},
        {"address": {"city": "Bonn"}, "tags": ["express"]},
        {"events": [{"at": "2026-03-31"}]},
    ],
    ids=repr,
)
async def test_other_members_of_an_object_do_not_matter(
    members: dict[str, Any], tmp_path: Path
) -> None:
    drop = Drop(tmp_path)
    drop.put("fulfillments.jsonl", json.dumps({"order": "1001", **members}) + "\n")
    await drop.pull()
    (record,) = drop.records()
    assert isinstance(record, Fulfillment)
    assert record.everything


REFUSED = (
    "1001,DHL,J1,=A2,1",
    "#1001,DHL,J1,A1,1.5",
    "1001,DHL,J1,A1,0",
    "1001,DHL,J1,4.01E+12,",
    "1001,DHL,J1,,2",
    "1001,DHL,7.9E+11,A1,1",
)
"""Rows that name an article, or units of one, and cannot be used."""


@pytest.mark.parametrize("row", REFUSED)
@pytest.mark.parametrize("is_first", [True, False])
async def test_a_row_without_article_beside_a_refused_row_needs_an_operator(
    row: str, tmp_path: Path, *, is_first: bool
) -> None:
    drop = Drop(tmp_path)
    rows = [row, "1001,DHL,J1,,", "1002,DHL,J2,,"]
    rows = rows if is_first else rows[::-1]
    header = "order,tracking_company,tracking_number,sku,quantity\n"
    drop.put("fulfillments.csv", header + "\n".join(rows) + "\n")
    await drop.pull()
    asked = {r.order: r.question for r in drop.records() if isinstance(r, Fulfillment)}
    assert "other rows of this file have SKUs" in asked["1001"]
    assert asked["1002"] == ""
