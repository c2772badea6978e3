"""Totals rows of a stock list are omitted, and no other rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul_connectors.file_drop.totals import is_label
from backhaul_sdk import FullList, StockLevel
from connectors.dropping import Drop
from connectors.layouts import text
from connectors.spreadsheets import workbook

if TYPE_CHECKING:
    from pathlib import Path

    from backhaul_sdk import Batch


@pytest.fixture
def drop(tmp_path: Path) -> Drop:
    return Drop(tmp_path)


async def notes(drop: Drop) -> list[str]:
    """Import everything; return the notes for the log."""
    connector = drop.connector()
    await connector.open()
    found: list[Batch] = []
    async for batch in connector.pull(drop.host.cursor):
        drop.host.commit(batch)
        await batch.ack()
        found.append(batch)
    return [note for batch in found for note in batch.notes]


def levels(drop: Drop) -> list[tuple[str, int]]:
    records = [r for r in drop.records() if isinstance(r, StockLevel)]
    return [(record.sku, record.quantity) for record in records]


@pytest.mark.parametrize(
    "label",
    [
        *(
            "Total",
            "TOTAL:",
            "Grand total",
            "Subtotal",
            "Summe",
            "Gesamt:",
            "Summe: 15",
        ),
        *("Zwischensumme", "Totaal", "Sous-total", "Suma total", "Totale", "Somma"),
        *("Total (12 items)", "Gesamt 15 Stück", "Total 1,204.50 EUR", " Insgesamt "),
    ],
)
def test_labels_of_totals(label: str) -> None:
    assert is_label(label)


@pytest.mark.parametrize(
    "text",
    ["", "Total Care Shampoo", "Summertime", "Totalstation", "Sum Oil", "Sommer 2026"],
)
def test_other_texts_are_no_labels(text: str) -> None:
    assert not is_label(text)


async def test_a_total_is_left_out_counted_and_logged(drop: Drop) -> None:
    drop.put(
        "stock-levels.csv",
        text(
            "sku;title;quantity",
            "A1;Shirt;12",
            ";Subtotal;12",
            "A2;Lamp;3",
            ";Total;15",
        ),
    )
    assert await notes(drop) == [
        "stock-levels.csv: 2 rows are totals and are left out (lines 3, 5)"
    ]
    assert levels(drop) == [("A1", 12), ("A2", 3)]
    assert drop.reasons() == []


async def test_a_total_with_fewer_cells_is_left_out(drop: Drop) -> None:
    drop.put("stock-levels.csv", text("title;sku;quantity", "Shirt;A1;12", "Summe:"))
    assert await notes(drop) == ["stock-levels.csv: line 3 is a total and is left out"]


async def test_a_total_of_a_spreadsheet_is_left_out(drop: Drop) -> None:
    header, row = ["sku", "title", "quantity"], ["A1", "Shirt", 12]
    drop.put("stock-levels.xlsx", workbook(header, row, [None, "Gesamt", 12]))
    assert await notes(drop) == ["stock-levels.xlsx: line 3 is a total and is left out"]
    assert levels(drop) == [("A1", 12)]


@pytest.mark.parametrize("title", ["Total", "Summe:", "Gesamt"])
async def test_a_row_with_a_sku_is_never_a_total(drop: Drop, title: str) -> None:
    drop.put("stock-levels.csv", text("sku;title;quantity", f"A1;{title};12"))
    assert await notes(drop) == []
    assert levels(drop) == [("A1", 12)]


async def test_a_sku_that_is_called_total_is_a_sku(drop: Drop) -> None:
    drop.put("stock-levels.csv", text("sku;quantity", "A1;12", "TOTAL;12"))
    assert await notes(drop) == []
    assert levels(drop) == [("A1", 12), ("TOTAL", 12)]


async def test_a_row_that_lacks_its_sku_is_refused(drop: Drop) -> None:
    drop.put(
        "stock-levels.csv", text("sku;title;quantity", "A1;Shirt;1", ";Total Care;12")
    )
    assert await notes(drop) == []
    assert ["the sku is empty" in reason for reason in drop.reasons()] == [True]


@pytest.mark.parametrize(
    "row",
    ["1001;;;;Total", ";DHL;T1;;Total", ";;;A1;Total"],
    ids=["order", "parcel", "sku"],
)
async def test_a_row_that_names_something_is_no_total(drop: Drop, row: str) -> None:
    drop.put(
        "fulfillments.csv",
        text("order;tracking_company;tracking_number;sku;remark", "1;DHL;T;A;", row),
    )
    assert await notes(drop) == []
    assert len(drop.records()) + len(drop.reasons()) == 2


async def test_a_row_with_a_key_is_no_total(drop: Drop) -> None:
    drop.options["key_columns"] = ["document"]
    drop.put(
        "stock-deltas.csv",
        text("document;sku;title;adjustment", "D1;A1;Shirt;1", "D2;;Total;1"),
    )
    assert await notes(drop) == []
    assert len(drop.reasons()) == 1


async def test_a_list_with_a_total_is_still_a_full_list(drop: Drop) -> None:
    """A total is no row that cannot be used, and no row of the list."""
    drop.options["absent"] = "zero"
    drop.put("stock-levels.csv", text("sku;title;quantity", "A1;Shirt;12", ";Total;12"))
    await drop.pull()
    (end,) = [r for r in drop.records() if isinstance(r, FullList)]
    assert (end.rows, end.absent_limit) == (1, 0.1)
