"""JSON lines, UTF-16, stock levels, and the numbers and dates of other countries."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul_sdk import Cancellation, Fulfillment, StockAdjustment, StockLevel
from backhaul_sdk.fields import Unusable, whole_number
from connectors.dropping import CANCELLATIONS, FULFILLMENTS, STOCK_DELTAS, Drop

if TYPE_CHECKING:
    from pathlib import Path

LEVELS = "sku,quantity,as_of\n"
MIDNIGHT = "2026-01-01T00:00"
JANUARY_NS = 1_767_225_600 * 10**9


@pytest.fixture
def drop(tmp_path: Path) -> Drop:
    return Drop(tmp_path)


def json_lines(*rows: Any) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def dated(path: Path, moment_ns: int) -> None:
    os.utime(path, ns=(moment_ns, moment_ns))


async def test_json_lines_are_rows(drop: Drop) -> None:
    content = json_lines(
        {"Order": 1001, "tracking_company": "DHL", "tracking number": "JJD1", "x": [1]},
        {"order": "#1002", "sku": "A", "quantity": 2, "shipped_at": None},
    )
    drop.put("fulfillments.jsonl", content)
    await drop.pull()
    assert drop.reasons() == []
    first, second = drop.records()
    assert isinstance(first, Fulfillment)
    assert isinstance(second, Fulfillment)
    assert (first.order, first.tracking_number) == ("1001", "JJD1")
    assert (second.lines[0].quantity, second.tracking_number) == (2, None)
    assert second.locator == "fulfillments.jsonl:2"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "not valid JSON, at character"),
        ("[1]", "must be a JSON object"),
        ('{"order": "1", "order": "2"}', "more than once"),
        ('{"order": {"id": 1}, "restock": true, "reason": ""}', "order must be a text"),
        ('{"order": NaN}', "NaN is not a number"),
        ("[" * 30_000, "nested too deeply"),
        ('{"restock": true}', "the order is empty"),
        ('{"order": "4.01E+12", "restock": true}', "digits are lost"),
        ('{"order": 1e400, "restock": true}', "digits are lost"),
        ('{"order": "a\\u0000b", "restock": 1, "reason": null}', "NUL"),
        ('{"order": "\\ud800", "restock": 1}', "not valid text"),
    ],
)
async def test_a_bad_line_of_json_spoils_itself_only(
    drop: Drop, line: str, said: str
) -> None:
    good = json_lines(*({"order": n, "restock": False} for n in (1, 2)))
    drop.put("cancellations.jsonl", f"{line}\n{good}")
    await drop.pull()
    await drop.report()
    assert said in drop.reasons()[0]
    assert len(drop.records()) == 2
    assert "rejected/cancellations.rejected.csv" in drop.files()


async def test_true_and_numbers_are_words_of_a_cell(drop: Drop) -> None:
    drop.put("cancellations.jsonl", json_lines({"order": 1.0, "restock": True}))
    await drop.pull()
    (record,) = drop.records()
    assert isinstance(record, Cancellation)
    assert (record.order, record.restock, record.reason) == ("1", True, "OTHER")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
async def test_utf16_is_read_with_and_without_mark(drop: Drop, encoding: str) -> None:
    text = f"{CANCELLATIONS}1001,yes,OTHER\n\u0141\u00f3d\u017a,no,\n"
    drop.put("cancellations.csv", text.encode(encoding))
    await drop.pull()
    assert [r.order for r in drop.records() if isinstance(r, Cancellation)] == [
        "1001",
        "\u0141\u00f3d\u017a",
    ]


async def test_half_a_letter_of_utf16_spoils_its_row_only(drop: Drop) -> None:
    text = f"{CANCELLATIONS}1001,yes,OTHER\n1002,no,\n"
    drop.put("cancellations.csv", text.encode("utf-16-le")[:-2] + b"\x00\xd8\n\x00")
    await drop.pull()
    assert len(drop.records()) == 1
    assert len(drop.host.bad) == 1


async def test_a_stock_level_row(drop: Drop) -> None:
    drop.options |= {"timezone": "Asia/Kolkata", "date_format": "%d.%m.%Y %H:%M"}
    drop.put("stock-levels.csv", f'{LEVELS}LS-S,"1.200,00",31.03.2026 14:05\n')
    await drop.pull()
    (record,) = drop.records()
    assert isinstance(record, StockLevel)
    assert record == StockLevel(
        key=record.key,
        sku="LS-S",
        quantity=1200,
        as_of="2026-03-31T08:35:00Z",
        listed_at=record.listed_at,
        locator="stock-levels.csv:2",
        raw=f'{LEVELS}LS-S,"1.200,00",31.03.2026 14:05',
    )


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("LS-S,x,", "quantity must be a whole number, not 'x'"),
        ("LS-S,1000000001,", "quantity must be from 0 to 1000000000"),
        ("LS-S,,", "quantity must be a whole number"),
        (
            "LS-S,1.000,",
            'separates thousands, the number is 1000: set decimal = ","',
        ),
        ("LS-S,1,soon", "as of is not a time: 'soon'"),
        (",1,", "the sku is empty"),
    ],
)
async def test_a_bad_stock_level_row(drop: Drop, row: str, said: str) -> None:
    drop.put("stock-levels.csv", f"{LEVELS}{row}\n")
    await drop.pull()
    assert said in drop.reasons()[0]


async def test_a_level_without_date_is_of_the_file(drop: Drop) -> None:
    path = drop.put("stock-levels.csv", "sku,quantity\nLS-S,0\n")
    dated(path, JANUARY_NS)
    await drop.pull()
    (record,) = drop.records()
    assert isinstance(record, StockLevel)
    assert (record.quantity, record.as_of) == (0, "2026-01-01T00:00:00Z")


async def test_the_same_levels_counted_again_are_a_new_count(drop: Drop) -> None:
    for day in range(3):
        # Written anew each night, or the same file dropped again.
        path = drop.put("stock-levels.csv", "sku,quantity\nLS-S,7\n")
        dated(path, JANUARY_NS + (day // 2) * 10**9)
        await drop.pull()
    assert len(drop.records()) == 2


async def test_dated_levels_dropped_again_are_no_new_count(drop: Drop) -> None:
    drop.put("stock-levels.csv", f"{LEVELS}A,7,{MIDNIGHT}\nB,1,{MIDNIGHT}\n")
    await drop.pull()
    drop.put("stock-levels.csv", f"{LEVELS}A,7,{MIDNIGHT}\nB,2,{MIDNIGHT}\n")
    await drop.pull()
    assert len(drop.records()) == 3


KINDS = {
    "fulfillments.csv": f"{FULFILLMENTS}1,DHL,A\n2,DHL,B\n",
    "cancellations.csv": f"{CANCELLATIONS}1,yes,\n2,no,\n",
    "stock-deltas.csv": f"{STOCK_DELTAS}A,-1,\nA,-1,\n",
    "stock-levels.csv": f"{LEVELS}A,1,{MIDNIGHT}\nB,1,{MIDNIGHT}\n",
}


@pytest.mark.parametrize("name", KINDS)
async def test_the_same_file_again_brings_nothing(drop: Drop, name: str) -> None:
    for again in (name, f"{name[:-4]}-again.csv", name):
        drop.put(again, KINDS[name])
        await drop.pull()
        drop.put("fulfillments-between.csv", f"{FULFILLMENTS}3,DHL,C\n")
        await drop.pull()
    assert len(drop.records()) == 3


@pytest.mark.parametrize("name", KINDS)
async def test_key_columns_make_a_corrected_file_safe_for_every_kind(
    drop: Drop, name: str
) -> None:
    drop.options["key_columns"] = ["document"]
    header, *rows = KINDS[name].splitlines()
    for number in (2, 3):
        lines = [f"{row},D{n}" for n, row in enumerate([*rows, rows[0]][:number])]
        drop.put(name, "\n".join([f"{header},document", *lines, ""]))
        await drop.pull()
    # An article that a stock list counts twice is refused, whatever its document.
    assert len(drop.records()) == (2 if name == "stock-levels.csv" else 3)


async def test_key_columns_may_be_absent_where_content_is_the_key(drop: Drop) -> None:
    drop.options["key_columns"] = ["document"]
    drop.put("fulfillments.csv", KINDS["fulfillments.csv"])
    await drop.pull()
    assert len(drop.records()) == 2


async def test_a_file_that_is_too_large_is_held(drop: Drop) -> None:
    drop.options["max_file_mb"] = 1
    drop.put("fulfillments.csv", FULFILLMENTS + "1,DHL,A\n" * 130_000)
    await drop.pull()
    assert "more than 1 MB" in drop.reasons()[0]


async def test_a_name_matches_any_choice_of_its_pattern(drop: Drop) -> None:
    drop.options["stock_deltas"] = "{Bestand,Lager}-*.{txt,CSV}"
    for number, name in enumerate(["bestand-1.txt", "LAGER-2.csv", "lager-3.xls"]):
        drop.put(name, f"{STOCK_DELTAS}A,{number + 1},\n")
    await drop.pull()
    deltas = [r.delta for r in drop.records() if isinstance(r, StockAdjustment)]
    assert sorted(deltas) == [1, 2]


def read(text: str, decimal: Any) -> int | None:
    try:
        return whole_number(text, "quantity", decimal)
    except Unusable:
        return None


@given(number=st.integers(-(10**9), 10**9), decimals=st.integers(0, 4))
def test_numbers_are_read_as_their_country_writes_them(
    number: int, decimals: int
) -> None:
    english = f"{number:,}" + ("." + "0" * decimals if decimals else "")
    german = english.translate(str.maketrans(",.", ".,"))
    assert read(english, ".") == read(german, ",") == number
    assert read(english, "auto") in (number, None)
    assert read(german, "auto") in (number, None)


@pytest.mark.parametrize(
    ("text", "decimal", "number"),
    [
        ("5,0", "auto", 5),
        ("5-", "auto", -5),
        ("1.000", "auto", None),
        ("1.000", ",", 1000),
        ("1.000", ".", 1),
        ("1,5", ",", None),
        ("1.00.0", ",", None),
        ("", "auto", None),
        ("--5", "auto", None),
        ("-5-", "auto", None),
    ],
)
def test_a_file_that_could_be_either_is_refused(
    text: str, decimal: str, number: int | None
) -> None:
    assert read(text, decimal) == number
