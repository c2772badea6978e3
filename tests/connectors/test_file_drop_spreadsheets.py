"""XLSX files: which values cells have, and which cells are refused."""

from __future__ import annotations

import contextlib
import io
import tempfile
import zipfile
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openpyxl import Workbook

from backhaul_connectors.file_drop.csv_reader import number_text
from backhaul_connectors.file_drop.files import FileUnreadable
from backhaul_connectors.file_drop.xlsx import spread
from backhaul_sdk import Fulfillment, StockAdjustment, StockLevel
from connectors.dropping import Drop
from connectors.spreadsheets import NAMESPACE, archive, sheet_of, workbook

if TYPE_CHECKING:
    from pathlib import Path

LEVELS = ("sku", "quantity", "as_of")
GTIN = "4006381333931"


@pytest.fixture
def drop(tmp_path: Path) -> Drop:
    return Drop(tmp_path)


def lines_of(content: bytes, sheet: str = "", max_bytes: int = 50_000_000) -> list[str]:
    lines = io.BytesIO()
    with tempfile.TemporaryFile() as texts:
        steps = spread(
            io.BytesIO(content), lines, texts, sheet=sheet, max_bytes=max_bytes
        )
        for _ in steps:
            pass
    return lines.getvalue().decode().split("\n")[:-1]


async def levels(drop: Drop, content: bytes) -> list[StockLevel]:
    drop.put("stock-levels.xlsx", content)
    await drop.pull()
    return [record for record in drop.records() if isinstance(record, StockLevel)]


async def test_cells_become_the_intended_values(drop: Drop) -> None:
    drop.options["timezone"] = "Europe/Berlin"
    content = workbook(
        LEVELS,
        (int(GTIN), 5, date(2026, 3, 31)),
        (GTIN, 5.0, datetime(2026, 3, 31, 14, 5)),  # noqa: DTZ001 - as in a cell
        ("007", "12", "2026-03-31T14:05"),
        (7, 1, None),
        formats={"A5": "000"},
    )
    found = await levels(drop, content)
    assert drop.reasons() == []
    assert [(each.sku, each.quantity) for each in found] == [
        (GTIN, 5),
        (GTIN, 5),
        ("007", 12),
        ("007", 1),
    ]
    assert [each.as_of for each in found][:3] == [
        "2026-03-30T22:00:00Z",
        "2026-03-31T12:05:00Z",
        "2026-03-31T12:05:00Z",
    ]


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("4.01E+12", "the spreadsheet turned the sku into 4.01E+12"),
        (340123456789012345, "the spreadsheet turned the sku into 3.401235E+17"),
        ("#N/A", "the sku is #N/A, a formula without a result"),
        ("=A1&B1", "the sku is #FORMULA!, a formula without a result"),
        (None, "the sku is empty"),
    ],
)
async def test_ruined_cells_go_to_quarantine(drop: Drop, cell: Any, said: str) -> None:
    assert await levels(drop, workbook(LEVELS, (cell, 5, None))) == []
    assert said in drop.reasons()[0]


async def test_a_formula_has_its_last_shown_value(drop: Drop) -> None:
    sheet = (
        f'<worksheet xmlns="{NAMESPACE}"><sheetData><row r="1"><c r="A1" t="str"><v>sku'
        '</v></c><c r="B1" t="str"><v>quantity</v></c></row><row r="3"><c r="A3" '
        't="str"><f>"A"&amp;1</f><v>A1</v></c><c r="B3"><f>2+3</f><v>5</v></c></row>'
        "</sheetData></worksheet>"
    )
    (found,) = await levels(drop, archive(sheet))
    assert (found.sku, found.quantity) == ("A1", 5)
    assert found.locator == "stock-levels.xlsx:3"
    assert found.raw == "sku,quantity\nA1,5"


async def test_texts_are_found_by_number_and_joined(drop: Drop) -> None:
    content = workbook(
        ("order", "tracking_company", "tracking_number", "note"),
        ("1001", "Blue\nDart, \u0141\u00f3d\u017a", "BD1", 'a "b"'),
        ("1002", "Blue Dart", "BD1"),
    )
    drop.put("fulfillments.xlsx", content)
    await drop.pull()
    first, second = drop.records()
    assert isinstance(first, Fulfillment)
    assert isinstance(second, Fulfillment)
    assert first.tracking_company == "Blue Dart, \u0141\u00f3d\u017a"
    assert second.order == "1002"


async def test_a_corrected_spreadsheet_adds_the_changed_rows_only(drop: Drop) -> None:
    header = ("order", "tracking_company", "tracking_number")
    for second in (None, "BD2"):
        content = workbook(header, ("1001", "DHL", "BD1"), ("1002", "DHL", second))
        drop.put("fulfillments.xlsx", content)
        await drop.pull()
    assert len(drop.records()) == 3


async def test_negative_numbers_are_deltas(drop: Drop) -> None:
    content = workbook(("sku", "adjustment", "reason"), ("A", -5, ""))
    drop.put("stock-deltas.xlsx", content)
    await drop.pull()
    (record,) = drop.records()
    assert isinstance(record, StockAdjustment)
    assert record.delta == -5


def test_rows_and_cells_that_are_left_out_keep_their_place() -> None:
    sheet = (
        f'<worksheet xmlns="{NAMESPACE}"><sheetData><row r="2"><c r="B2"><v>1</v></c>'
        '<c r="D2"><v>2</v></c></row><row><c><v>3</v></c><c/><c><v>4</v></c></row>'
        "</sheetData></worksheet>"
    )
    assert lines_of(archive(sheet)) == ["", ",1,,2", "3,,4"]


def test_times_and_spans_are_written_out() -> None:
    content = workbook((time(8, 30), 1.5, True), formats={"B1": "[h]:mm"})
    assert lines_of(content) == ['08:30:00,"1 day, 12:00:00",true']


def test_a_sheet_is_found_by_name() -> None:
    assert lines_of(archive(sheet_of(["a,b"])), "One") == ["a,b"]
    with pytest.raises(FileUnreadable, match="no sheet 'Two'; it has: One"):
        lines_of(archive(sheet_of(["a,b"])), "Two")


def test_a_hidden_sheet_is_passed_over() -> None:
    book, out = Workbook(), io.BytesIO()
    book.active.append(["hidden"])
    book.active.sheet_state = "hidden"
    book.create_sheet("Shown").append(["shown"])
    book.save(out)
    assert lines_of(out.getvalue()) == ["shown"]


BILLION_LAUGHS = (
    '<!DOCTYPE lolz [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;&a;">]>'
    f'<worksheet xmlns="{NAMESPACE}"><sheetData><row><c t="str"><v>&b;</v></c></row>'
    "</sheetData></worksheet>"
)
OUTSIDE = (
    '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>'
    f'<worksheet xmlns="{NAMESPACE}"><sheetData><row><c t="str"><v>&e;</v></c></row>'
    "</sheetData></worksheet>"
)
HARMFUL = {
    "billion laughs": (archive(BILLION_LAUGHS), "entities"),
    "external entity": (archive(OUTSIDE), "entities"),
    "a DTD alone": (archive("<!DOCTYPE worksheet><worksheet/>"), "entities"),
    "in another part": (
        archive(
            sheet_of(["a"]),
            {"xl/workbook.xml": '<!DOCTYPE x [<!ENTITY a "b">]><workbook/>'},
        ),
        "entities",
    ),
    "dense": (archive(" " * 20_000_000), "more than 100 times"),
    "long text": (archive(sheet_of(["x" * 40_000])), "more than 32,767 letters"),
    "far column": (
        archive("<worksheet><row><c r='ZZZ1'><v>1</v></c></row></worksheet>"),
        "out of order",
    ),
    "far row": (archive("<worksheet><row r='9999999'/></worksheet>"), "row 9999999"),
    "rows going back": (
        archive("<worksheet><row r='5'/><row r='4'/></worksheet>"),
        "row 4 follows row 5",
    ),
    "missing text": (
        archive("<worksheet><row><c t='s'><v>7</v></c></row></worksheet>"),
        "text 7 is missing",
    ),
    "no number": (
        archive("<worksheet><row><c><v>many</v></c></row></worksheet>"),
        "not a number",
    ),
    "no XML": (archive("nothing"), "damaged"),
    "cut": (archive(sheet_of(["a"]))[:-30], "damaged"),
    "many parts": (
        archive(sheet_of(["a"]), {f"{n:0200}": "" for n in range(5_000)}),
        "too many internal parts",
    ),
    "unusual packing": (
        archive(sheet_of(["a"]), compression=zipfile.ZIP_LZMA),
        "unusual compression",
    ),
}


@pytest.mark.parametrize("name", HARMFUL)
def test_a_malicious_spreadsheet_is_refused(name: str) -> None:
    content, said = HARMFUL[name]
    with pytest.raises(FileUnreadable, match=said):
        lines_of(content)


def test_a_spreadsheet_that_unpacks_to_too_much_is_refused() -> None:
    content = archive(sheet_of(str(n * n) for n in range(5_000)))
    with pytest.raises(FileUnreadable, match="max_unzipped_mb allows"):
        lines_of(content, max_bytes=10_000)


async def test_a_refused_spreadsheet_is_held_and_the_next_is_read(drop: Drop) -> None:
    drop.put("stock-levels-1.xlsx", HARMFUL["billion laughs"][0])
    drop.put("stock-levels-2.xlsx", workbook(LEVELS, ("A", 1, None)))
    await drop.pull()
    assert len(drop.records()) == 1
    assert "held/stock-levels-1.xlsx" in drop.files()


GOOD = workbook(LEVELS, ("A", 1, None), ("B", 2.5, datetime(2026, 1, 1)))  # noqa: DTZ001


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(
    flips=st.lists(
        st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1
    )
)
def test_no_damage_is_worse_than_a_sentence(flips: list[tuple[int, int]]) -> None:
    content = bytearray(GOOD)
    for place, byte in flips:
        content[place] = byte
    with contextlib.suppress(FileUnreadable):
        lines_of(bytes(content))


@given(text=st.text("<>/&;=\"'c rvtsf0123456789-", max_size=60))
def test_no_sheet_is_worse_than_a_sentence(text: str) -> None:
    sheet = f"<worksheet><row><c {text}</c></row></worksheet>"
    with contextlib.suppress(FileUnreadable):
        lines_of(archive(sheet))


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("5", "5"),
        ("5.0", "5"),
        ("-5", "-5"),
        ("4.006381333931E12", GTIN),
        ("4006381333931.0", GTIN),
        ("0.30000000000000004", "\u20600.3"),
        ("2.5", "\u20602.5"),
        ("123456789012345678", "1.234568E+17"),
    ],
)
def test_a_number_is_written_in_plain_notation(raw: str, text: str) -> None:
    assert number_text(raw) == text
