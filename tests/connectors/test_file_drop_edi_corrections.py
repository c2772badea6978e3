"""Rejected lines of EDI files are corrected and submitted again as CSV files."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import pytest

from backhaul_sdk import Fulfillment, StockLevel
from connectors.dropping import Drop
from connectors.interchanges import despatch, edifact, shirt
from connectors.test_file_drop_edi import report

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def drop(tmp_path: Path) -> Drop:
    """Return a folder with the patterns that the page recommends."""
    patterns = {
        "fulfillments": "{*.edi,shipments-*.csv}",
        "stock_levels": "{*.edi,stock-*.csv}",
    }
    return Drop(tmp_path, patterns)


async def corrected(drop: Drop, content: bytes, sku: str) -> str:
    """Drop a file with one bad line; return its rejected row with a SKU."""
    drop.put("a.edi", content)
    await drop.pull()
    await drop.report()
    text = (drop.path / "rejected" / "a.rejected.csv").read_text("utf-8-sig")
    (row,) = csv.DictReader(io.StringIO(text))
    written = io.StringIO()
    writer = csv.DictWriter(written, row)
    writer.writeheader()
    writer.writerow({**row, "sku": sku})
    return written.getvalue()


async def test_a_corrected_line_is_shipped(drop: Drop) -> None:
    content = edifact(despatch(shirt(), ["QTY+12:1:PCE"]))
    drop.put("shipments-1.csv", await corrected(drop, content, "LS-M"))
    await drop.pull()
    found = [each for each in drop.records() if isinstance(each, Fulfillment)]
    assert [[line.sku for line in each.lines] for each in found] == [["LS-S"], ["LS-M"]]
    assert [each.tracking_number for each in found] == ["JJD1", "JJD1"]
    assert len(drop.host.bad) == 1


async def test_corrected_stock_is_counted(drop: Drop) -> None:
    content = edifact([*report("QTY+145:5"), "LIN+2", "QTY+145:7"])
    drop.put("stock-1.csv", await corrected(drop, content, "B"))
    await drop.pull()
    found = [each for each in drop.records() if isinstance(each, StockLevel)]
    assert {each.sku: each.quantity for each in found} == {"A": 5, "B": 7}
    assert {each.as_of for each in found} == {"2026-03-31T06:15:00Z"}


async def test_a_csv_file_without_a_pattern_is_not_read(drop: Drop) -> None:
    """The pattern of the EDI files alone does not match the corrected file."""
    drop.options |= {"fulfillments": "*.edi", "stock_levels": "*.edi"}
    content = edifact(despatch(shirt(), ["QTY+12:1:PCE"]))
    drop.put("a.rejected.csv", await corrected(drop, content, "LS-M"))
    await drop.pull()
    assert len(drop.records()) == 1
    assert "a.rejected.csv" in drop.files()
