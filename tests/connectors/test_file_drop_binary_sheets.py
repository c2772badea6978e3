"""XLS, XLSB and ODS files: rows, damaged numbers, hidden errors, and limits."""

from __future__ import annotations

import subprocess
import sys
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import pytest

from backhaul_connectors.file_drop import binary_sheet, spreadsheet_process
from backhaul_sdk import Fulfillment, StockLevel
from connectors.binary_sheets import CellError, Unsaved, ods, xls, xlsb
from connectors.dropping import Drop
from connectors.layouts import CASES
from connectors.spreadsheets import workbook

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WRITERS: dict[str, Callable[..., bytes]] = {"xls": xls, "ods": ods, "xlsb": xlsb}
LEVELS = ["sku", "quantity"]
PARCELS = ["order", "tracking_company", "tracking_number", "sku", "quantity"]


@pytest.fixture
def drop(tmp_path: Path) -> Drop:
    return Drop(tmp_path)


def levels(drop: Drop) -> list[tuple[str, int]]:
    records = [r for r in drop.records() if isinstance(r, StockLevel)]
    return [(record.sku, record.quantity) for record in records]


@pytest.mark.parametrize("ending", WRITERS)
async def test_rows_below_titles_are_read(drop: Drop, ending: str) -> None:
    content = WRITERS[ending](
        ["Stock list"],
        [None, None],
        ["Title", "sku", "quantity"],
        ["Shirt", "00012", 12],
        ["Lamp", 4006381333931.0, 3.0],
        ["Summe", None, 15],
    )
    drop.put(f"stock-levels.{ending}", content)
    await drop.pull()
    assert drop.reasons() == []
    assert levels(drop) == [("00012", 12), ("4006381333931", 3)]
    assert drop.records()[0].locator == f"stock-levels.{ending}:4"


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize("sku", [4.0123456789e17, "4.01E+12"])
async def test_damaged_numbers_are_refused(
    drop: Drop, ending: str, sku: float | str
) -> None:
    drop.put(f"stock-levels.{ending}", WRITERS[ending](LEVELS, ["A1", 1], [sku, 2]))
    await drop.pull()
    assert levels(drop) == [("A1", 1)]
    (reason,) = drop.reasons()
    assert "digits are lost" in reason


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize("place", [2, 3, 4], ids=["tracking number", "sku", "quantity"])
async def test_an_empty_cell_may_be_an_error_and_is_refused(
    drop: Drop, ending: str, place: int
) -> None:
    """Without its SKU the row would ship the whole order."""
    row: list[Any] = ["1001", "DHL", "T1", "A1", 1]
    row[place] = None
    good = ["1002", "DHL", "T2", "A1", 1]
    drop.put(f"fulfillments.{ending}", WRITERS[ending](PARCELS, row, good))
    await drop.pull()
    assert [r.order for r in drop.records() if isinstance(r, Fulfillment)] == ["1002"]
    (reason,) = drop.reasons()
    assert f"the {PARCELS[place].replace('_', ' ')} is empty" in reason
    assert "an error such as #N/A" in reason


@pytest.mark.parametrize(
    "cell", [CellError(), Unsaved('"A"&"1"')], ids=["error", "formula"]
)
async def test_an_error_in_the_sku_never_ships_the_order(drop: Drop, cell: Any) -> None:
    drop.put("fulfillments.xls", xls(PARCELS, ["1001", "DHL", "T1", cell, 1]))
    await drop.pull()
    assert drop.records() == []
    assert ["the sku is empty" in reason for reason in drop.reasons()] == [True]


async def test_an_error_of_xlsb_never_ships_the_order(drop: Drop) -> None:
    drop.put("fulfillments.xlsb", xlsb(PARCELS, ["1001", "DHL", "T1", CellError(), 1]))
    await drop.pull()
    assert drop.records() == []
    assert len(drop.reasons()) == 1


async def test_a_column_without_a_name_may_be_empty(drop: Drop) -> None:
    drop.options["fulfillment_columns"] = {"sku": "", "quantity": ""}
    drop.options["fulfillment_values"] = {"tracking_company": "DHL"}
    header = ["order", "tracking_company", "tracking_number", "sku"]
    drop.put("fulfillments.xls", xls(header, ["1001", None, "T1", None]))
    await drop.pull()
    (record,) = drop.records()
    assert isinstance(record, Fulfillment)
    assert (record.everything, record.tracking_company) == (True, "DHL")


@pytest.mark.parametrize("ending", ["xls", "ods"])
async def test_dates_are_dates(drop: Drop, ending: str) -> None:
    counted = [date(2026, 3, 30), datetime(2026, 3, 31, 14, 5)]  # noqa: DTZ001 - cells have no zone
    rows = [[f"A{number}", 1, at] for number, at in enumerate(counted)]
    content = WRITERS[ending]([*LEVELS, "as_of"], *rows)
    drop.put(f"stock-levels.{ending}", content)
    await drop.pull()
    assert drop.reasons() == []
    assert [r.as_of for r in drop.records() if isinstance(r, StockLevel)] == [
        "2026-03-30T00:00:00Z",
        "2026-03-31T14:05:00Z",
    ]


async def test_the_first_visible_sheet_counts(drop: Drop) -> None:
    sheets = {"Notes": False, "Stock": True}
    drop.put("stock-levels.xls", xls(LEVELS, ["A1", 1], sheets=sheets))
    await drop.pull()
    assert levels(drop) == [("A1", 1)]


async def test_a_sheet_is_chosen_by_its_name(drop: Drop) -> None:
    drop.options["sheet"] = "Missing"
    drop.put("stock-levels.xls", xls(LEVELS, ["A1", 1]))
    await drop.pull()
    (reason,) = drop.reasons()
    assert "it has no sheet 'Missing'; it has: One" in reason


async def test_a_file_that_another_program_wrote_is_read(drop: Drop) -> None:
    """The file in `cases` was written by odfpy 1.4.1."""
    drop.put("stock-levels.ods", (CASES / "22-odfpy.ods").read_bytes())
    await drop.pull()
    assert levels(drop) == [("4006381333931", 12), ("4006381333948", 3)]
    assert ["the quantity is empty" in reason for reason in drop.reasons()] == [True]


async def test_the_content_decides_which_reader_is_used(drop: Drop) -> None:
    """Programs write the old format under the new name, and text under the old one."""
    drop.put("stock-levels.xlsx", xls(LEVELS, ["A1", 1]))
    drop.put("stock-levels-new.xls", workbook(LEVELS, ["A2", 2]))
    drop.put("stock-levels-text.xls", "sku\tquantity\nA3\t3\n")
    await drop.pull()
    assert drop.reasons() == []
    assert sorted(levels(drop)) == [("A1", 1), ("A2", 2), ("A3", 3)]


@pytest.mark.parametrize("ending", WRITERS)
async def test_a_spreadsheet_under_a_csv_name_is_held(drop: Drop, ending: str) -> None:
    drop.put("stock-levels.csv", WRITERS[ending](LEVELS, ["A1", 1]))
    await drop.pull()
    (reason,) = drop.reasons()
    assert f"give the file a name that ends in .{ending}" in reason


@pytest.mark.parametrize("ending", WRITERS)
async def test_a_damaged_file_is_held(drop: Drop, ending: str) -> None:
    content = WRITERS[ending](LEVELS, ["A1", 1])
    drop.put(f"stock-levels.{ending}", content[: len(content) // 2])
    await drop.pull()
    assert drop.records() == []
    (reason,) = drop.reasons()
    assert "was moved to held/" in reason


async def test_a_file_that_unpacks_to_too_much_is_held(drop: Drop) -> None:
    drop.put("stock-levels.ods", ods(LEVELS, ["A" * 20_000_000, 1]))
    await drop.pull()
    (reason,) = drop.reasons()
    assert "unpacks to more than 100 times its size" in reason


async def test_a_small_file_with_a_huge_sheet_is_held(drop: Drop) -> None:
    """A few bytes of ODS can repeat a row a million times."""
    drop.options["max_unzipped_mb"] = 1
    drop.put("stock-levels.ods", ods(LEVELS, ["A1", 1], repeated=400_000))
    await drop.pull()
    (reason,) = drop.reasons()
    assert "the spreadsheet has more than 1 MB of text" in reason
    assert "max_unzipped_mb" in reason


def limited(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process with the limits of the reader."""
    start = "import resource; from backhaul_connectors.file_drop import binary_sheet"
    return subprocess.run(
        [sys.executable, "-c", f"{start}\nbinary_sheet.limit(1000)\n{code}"],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_process_has_limits_of_memory_time_and_size() -> None:
    assert "MemoryError" in limited("bytearray(2_000_000_000)").stderr
    kinds = ("CPU", "FSIZE", "CORE")
    shown = ", ".join(f"resource.getrlimit(resource.RLIMIT_{kind})" for kind in kinds)
    said = limited(f"print({shown})").stdout.strip()
    seconds = binary_sheet.LIMIT_CPU_SECONDS
    assert said == f"({seconds}, {seconds}) (1000, 1000) (0, 0)"


async def test_a_file_that_needs_too_much_memory_is_held(drop: Drop) -> None:
    """The library ends the process when it gets no memory; the daemon goes on."""
    wide = ods(["sku", "quantity", *("x" * 60)], repeated=1_000_000)
    drop.put("stock-levels.ods", wide)
    drop.put("stock-levels-good.csv", "sku,quantity\nA1,1\n")
    await drop.pull()
    assert levels(drop) == [("A1", 1)]
    (reason,) = drop.reasons()
    assert "needs more than 1,000 MB of memory" in reason


def test_the_process_gets_no_variables_of_the_daemon() -> None:
    assert spreadsheet_process.ENVIRONMENT == {"LANG": "C.UTF-8"}


def test_a_cancelled_reading_ends_the_process(tmp_path: Path) -> None:
    source = tmp_path / "list.ods"
    source.write_bytes(ods(LEVELS, ["A1", 1], repeated=400_000))
    with source.open("rb") as stream, (tmp_path / "lines").open("w+b") as lines:
        work = spreadsheet_process.spread_binary(
            stream, lines, sheet="", max_bytes=50_000_000
        )
        next(work)
        work.close()
    assert (tmp_path / "lines").stat().st_size == 0
