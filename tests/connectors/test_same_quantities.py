"""A quantity has the same value or the same error text in every connector."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from backhaul_sdk import Bad, Fulfillment, StockAdjustment
from backhaul_sdk.testing import MemoryHost
from connectors.backoffice import Office
from connectors.dropping import Drop
from connectors.reading_paths import courier_event, tryton_shipment
from connectors.scanning import Dock
from connectors.tables import SHIPMENTS, SqliteTables

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from backhaul_sdk import Record

RANGE = "quantity must be from 1 to 1000000, not "
WHOLE = "quantity must be a whole number, not "
CELLS: list[tuple[Any, int | str]] = [
    (1, 1),
    (1_000_000, 1_000_000),
    (2.0, 2),
    ("3", 3),
    ("3.0", 3),
    ("1.000", 1),
    (" 4 ", 4),
    ("'5", 5),
    ('="6"', 6),
    (0, f"{RANGE}0"),
    (-1, f"{RANGE}-1"),
    ("\N{MINUS SIGN}2", f"{RANGE}-2"),
    ("7-", f"{RANGE}-7"),
    (1_000_001, f"{RANGE}1000001"),
    (2.125, f"{WHOLE}2.125"),
    ("1.5", f"{WHOLE}'1.5'"),
    ("1e3", f"{WHOLE}'1e3'"),
    ("many", f"{WHOLE}'many'"),
]
"""What a cell holds, and the units it means or what is said of it."""


async def from_a_file(cell: Any, folder: Path) -> int | str:
    drop = Drop(folder, {"decimal": "."})
    members = {"order": "1001", "tracking_company": "DHL", "tracking_number": "J1"}
    row = {**members, "sku": "A", "quantity": cell}
    drop.put("fulfillments.jsonl", json.dumps(row) + "\n")
    return answer_of(await drop.pull())


async def from_a_table(cell: Any, folder: Path) -> int | str:
    tables = SqliteTables(folder / "erp.db")
    tables.run("ALTER TABLE shipments ADD COLUMN sku text")
    tables.run("ALTER TABLE shipments ADD COLUMN units")
    tables.ship(1, 1)
    tables.run("UPDATE shipments SET sku = 'A', units = ?", (cell,))
    columns = {**SHIPMENTS["columns"], "sku": "sku", "quantity": "units"}  # type: ignore[dict-item]  # a mapping of names
    connector = tables.connector(fulfillments={**SHIPMENTS, "columns": columns})
    host = MemoryHost()
    await connector.open()
    await host.pull(connector)
    await tables.close()
    return answer_of(host)


async def from_a_page(cell: Any, folder: Path) -> int | str:
    office, host = Office(), MemoryHost()
    await office.plug_in()
    office.ship(1, lines=[{"sku": "A", "quantity": cell}])
    await host.pull(office.connector())
    await office.close()
    return answer_of(host)


async def from_a_scan(cell: Any, folder: Path) -> int | str:
    dock = Dock()
    answer = await dock.scan(mode="receive", code="A", quantity=cell)
    if answer.status == 422:
        return str(answer.body["what"])
    return answer_of(dock.host)


async def from_a_courier(cell: Any, folder: Path) -> int | str:
    lines = [{"sku": "A", "quantity": cell}]
    shipment, _ = courier_event(status="in_transit", order="1001", lines=lines)
    return said_of(shipment)


async def from_tryton(cell: Any, folder: Path) -> int | str:
    said = said_of(tryton_shipment(quantity=cell))
    # Its shipments have several products, so the reason names the product.
    return said if isinstance(said, int) else said.replace("quantity of A", "quantity")


def answer_of(host: MemoryHost) -> int | str:
    """Return the units of the only record, or what is wrong with it."""
    everything: list[Record | Bad] = [*host.records.values(), *host.bad.values()]
    assert len(everything) == 1
    return said_of(everything[0])


def said_of(found: Record | Bad) -> int | str:
    return found.reason if isinstance(found, Bad) else units_of(found)


def units_of(record: Record) -> int:
    if isinstance(record, StockAdjustment):
        return record.delta
    assert isinstance(record, Fulfillment)
    (line,) = record.lines
    return line.quantity


@pytest.mark.parametrize(
    "read",
    [
        *(from_a_file, from_a_table, from_a_page),
        *(from_a_scan, from_a_courier, from_tryton),
    ],
)
async def test_a_quantity_means_the_same_everywhere(
    read: Callable[[Any, Path], Awaitable[int | str]], tmp_path: Path
) -> None:
    found: list[tuple[Any, int | str]] = []
    for number, (cell, _) in enumerate(CELLS):
        folder = tmp_path / str(number)
        folder.mkdir()
        found.append((cell, await read(cell, folder)))
    assert found == CELLS
