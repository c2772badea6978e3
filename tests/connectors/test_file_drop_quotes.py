"""A quotation mark that is plain text does not swallow the following rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul_sdk import StockLevel
from connectors.dropping import Drop

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "sku\ttitle\tquantity\n"
UNQUOTED = f'{HEADER}TB-1\tDesk\t3\nTB-2\t"19 inch rack\t5\nTB-3\tScreen 24"\t7\n'


@pytest.fixture
def drop(tmp_path: Path) -> Drop:
    return Drop(tmp_path)


def levels(drop: Drop) -> dict[str, int]:
    return {r.sku: r.quantity for r in drop.records() if isinstance(r, StockLevel)}


async def test_a_mark_that_swallows_a_row_is_refused_and_the_next_row_is_read(
    drop: Drop,
) -> None:
    drop.put("stock-levels.tsv", UNQUOTED)
    await drop.pull()
    assert levels(drop) == {"TB-1": 3, "TB-3": 7}
    (reason,) = drop.reasons()
    assert "opened in this row and closed in a later row" in reason
    assert 'set quote = ""' in reason


async def test_marks_can_be_plain_text(drop: Drop) -> None:
    drop.options["quote"] = ""
    drop.put("stock-levels.tsv", UNQUOTED)
    await drop.pull()
    assert levels(drop) == {"TB-1": 3, "TB-2": 5, "TB-3": 7}
    assert drop.reasons() == []


@pytest.mark.parametrize("delimiter", ["\t", ";", "|", ","])
@pytest.mark.parametrize("between", [0, 1, 3])
async def test_rows_between_two_stray_marks_are_read(
    drop: Drop, delimiter: str, between: int
) -> None:
    rows = "".join(f"B-{n}\tBox\t1\n" for n in range(between))
    content = f'{HEADER}A\t"x\t5\n{rows}C\ty"\t7\nD\tz\t2\n'
    drop.options["max_bad_share"] = 1
    drop.put("stock-levels.csv", content.replace("\t", delimiter))
    await drop.pull()
    assert levels(drop) == {f"B-{n}": 1 for n in range(between)} | {"C": 7, "D": 2}
    assert len(drop.reasons()) == 1


@pytest.mark.parametrize("delimiter", ["\t", ";", "|", ","])
async def test_a_text_with_line_ends_is_still_one_cell(
    drop: Drop, delimiter: str
) -> None:
    content = f'{HEADER}A\t"two\nlines, ""quoted"""\t5\nB\tx\t7\n'
    drop.put("stock-levels.csv", content.replace("\t", delimiter))
    await drop.pull()
    assert levels(drop) == {"A": 5, "B": 7}


async def test_a_text_with_commas_and_line_ends_is_still_one_cell(drop: Drop) -> None:
    text = "big, red\nand, in all, 3 parts\nnew"
    drop.put("stock-levels.csv", f'sku,title,quantity\nA,"{text}",5\nB,x,7\n')
    await drop.pull()
    assert levels(drop) == {"A": 5, "B": 7}


@pytest.mark.parametrize("number", ['JD1"', 'J"D1', '""JD1"'])
async def test_a_tracking_number_with_a_mark_inside_reaches_no_buyer(
    drop: Drop, number: str
) -> None:
    drop.options["quote"] = ""
    content = (
        f"order,tracking_company,tracking_number\n1001,DHL,{number}\n1002,DHL,J2\n"
    )
    drop.put("fulfillments.csv", content)
    await drop.pull()
    assert len(drop.records()) == 1
    assert "the tracking number has a quotation mark inside" in drop.reasons()[0]


async def test_an_apostrophe_can_be_the_mark(drop: Drop) -> None:
    drop.options["quote"] = "'"
    drop.put("stock-levels.csv", "sku,title,quantity\nA,'19\" rack, black',5\n")
    await drop.pull()
    assert levels(drop) == {"A": 5}


async def test_an_inch_mark_inside_a_cell_is_text(drop: Drop) -> None:
    drop.put("stock-levels.tsv", f'{HEADER}A\t19" rack\t5\nB\t24" screen\t7\n')
    await drop.pull()
    assert levels(drop) == {"A": 5, "B": 7}
