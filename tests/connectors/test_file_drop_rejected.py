"""Rejected rows and files, and the reasons that are written beside them."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul_connectors.file_drop.output_files import (
    MARK,
    merge,
    read_sheet,
    sheet_of,
    to_csv,
)
from backhaul_sdk import Fulfillment, Rejection
from backhaul_sdk.files import formula_safe
from connectors.dropping import (
    CANCELLATIONS,
    FULFILLMENTS,
    STOCK_DELTAS,
    Drop,
    rejection_of,
)

if TYPE_CHECKING:
    from pathlib import Path

GOOD = "1001,yes,OTHER\n"
BAD = "1002,maybe,OTHER\n"


@pytest.fixture
def drop(tmp_path: Path) -> Drop:
    return Drop(tmp_path)


def rejected(drop: Drop, name: str, delimiter: str = ",") -> list[dict[str, str]]:
    path = drop.path / "rejected" / name
    with path.open(encoding="utf-8-sig", newline="") as stream:
        return list(csv.DictReader(stream, delimiter=delimiter))


async def test_bad_rows_come_back_with_their_reason(drop: Drop) -> None:
    drop.put("fulfillments.csv", f"{FULFILLMENTS},BlueDart,BD1\n1002,,\n")
    await drop.pull()
    await drop.report()
    (row,) = rejected(drop, "fulfillments.rejected.csv")
    mark = row.pop(MARK)
    assert row == {
        "order": "",
        "tracking_company": "BlueDart",
        "tracking_number": "BD1",
        "reason": "the order is empty",
    }
    assert mark.startswith("2-")


async def test_a_files_own_reason_keeps_its_column(drop: Drop) -> None:
    drop.put("cancellations.csv", f"{CANCELLATIONS}1002,maybe,fraud\n")
    await drop.pull()
    await drop.report()
    (row,) = rejected(drop, "cancellations.rejected.csv")
    assert row["reason"] == "fraud"
    assert row["rejection_reason"] == "restock must be yes or no, not 'maybe'"


async def test_reporting_again_adds_nothing(drop: Drop) -> None:
    drop.put("cancellations.csv", CANCELLATIONS + GOOD + BAD + BAD)
    await drop.pull()
    await drop.report()
    path = drop.path / "rejected" / "cancellations.rejected.csv"
    before = path.stat()
    await drop.report()
    assert path.stat() == before
    assert len(rejected(drop, path.name)) == 2, "equal rows at two places are two"


async def test_a_row_rejected_much_later_is_added(drop: Drop) -> None:
    drop.put("stock-deltas.csv", f"{STOCK_DELTAS}LS-S,-5,OTHER\nLS-M,x,OTHER\n")
    await drop.pull()
    await drop.report()
    (record,) = drop.records()
    await drop.report(rejection_of(record, "nobody knows LS-S"))
    first, second = rejected(drop, "stock-deltas.rejected.csv")
    assert first["sku"] == "LS-M"
    assert (second["sku"], second["adjustment"]) == ("LS-S", "-5")
    assert second["rejection_reason"] == "nobody knows LS-S"
    assert not list((drop.path / "rejected").glob(".*"))


async def test_another_file_of_the_same_name_adds_its_rows(drop: Drop) -> None:
    drop.put("cancellations.csv", CANCELLATIONS + BAD)
    await drop.pull()
    await drop.report()
    drop.put("cancellations.csv", f"note;{CANCELLATIONS.replace(',', ';')}é;;yes;\n")
    await drop.pull()
    await drop.report()
    first, second = rejected(drop, "cancellations.rejected.csv")
    original = ["order", "restock", "reason", "note"]
    assert list(first) == [*original, "rejection_reason", MARK]
    assert (first["order"], second["note"]) == ("1002", "é")


async def test_rows_that_cannot_be_split_come_back_as_they_came(drop: Drop) -> None:
    drop.put("cancellations.csv", f'{CANCELLATIONS}1,"yes,OTHER\n2,yes\n3,1,,x,y\n')
    await drop.pull()
    await drop.report()
    found = rejected(drop, "cancellations.rejected.csv")
    first_cells = [row["order"] for row in found]
    assert first_cells == ['1,"yes,OTHER', "2", "3,1,,x,y"]


async def test_corrected_rows_can_be_dropped_as_they_are(drop: Drop) -> None:
    drop.put("fulfillments.csv", f"{FULFILLMENTS},-DHL,=BD1\n")
    await drop.pull()
    await drop.report()
    path = drop.path / "rejected" / "fulfillments.rejected.csv"
    text = path.read_text(encoding="utf-8-sig")
    assert ",'-DHL,'=BD1," in text
    path.unlink()
    drop.put("fulfillments-corrected.csv", text.replace(",'-DHL", "1001,'-DHL"))
    await drop.pull()
    (record,) = drop.records()
    assert isinstance(record, Fulfillment)
    assert (record.tracking_company, record.tracking_number) == ("-DHL", "=BD1")


async def test_a_rejected_file_saved_by_a_spreadsheet_is_added_to(drop: Drop) -> None:
    drop.put("cancellations.csv", f"{CANCELLATIONS}é,maybe,\n")
    await drop.pull()
    await drop.report()
    path = drop.path / "rejected" / "cancellations.rejected.csv"
    text = path.read_text(encoding="utf-8-sig").replace(",", ";")
    path.write_bytes(text.encode("cp1252"))
    late = Rejection("k", f"{CANCELLATIONS}9,?,", "no", "cancellations.csv:9")
    await drop.report(late)
    found = rejected(drop, path.name, ";")
    assert [row["order"] for row in found] == ["é", "9"]


@pytest.mark.parametrize(
    "locator",
    ["../../escape.csv:2", "/etc/escape.csv:2", "archive/escape.csv:2", "escape.csv:2"],
)
async def test_a_locator_leads_nowhere_else(drop: Drop, locator: str) -> None:
    await drop.pull()
    await drop.report(Rejection("k", CANCELLATIONS + BAD, "no", locator))
    assert drop.files() == {"rejected/escape.rejected.csv"}


async def test_a_whole_file_is_not_listed_among_rows(drop: Drop) -> None:
    drop.put("cancellations.csv", "order\n1001\n")
    await drop.pull()
    await drop.report()
    assert not [name for name in drop.files() if name.startswith("rejected/")]


@pytest.mark.parametrize(
    ("cell", "safe"),
    [
        ("=1+1", "'=1+1"),
        ("+49 30 123", "'+49 30 123"),
        ("-5", "-5"),
        ("+5", "+5"),
        ("-5,5", "-5,5"),
        ("-A1", "'-A1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("LS-S", "LS-S"),
        ("", ""),
        ("-5\n", "'-5\n"),
    ],
)
def test_text_that_would_run_is_made_safe(cell: str, safe: str) -> None:
    assert formula_safe(cell) == safe
    assert formula_safe(safe) == safe


@given(
    raws=st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
        min_size=1,
        max_size=4,
    )
)
def test_any_rejection_can_be_written_and_read_again(raws: list[str]) -> None:
    sheets = [
        sheet_of(Rejection(f"k{n}", raw, "no", f"x.csv:{n}"), {"order"})
        for n, raw in enumerate(raws)
    ]
    content = to_csv(merge(sheets))
    again = read_sheet(content, {"order"})
    assert len(again.rows) == len(raws)
    assert to_csv(merge([again])) == content


async def test_too_many_bad_rows_hold_the_file_untouched(drop: Drop) -> None:
    content = CANCELLATIONS + GOOD * 7 + BAD * 3
    drop.put("cancellations.csv", content)
    (batch,) = await drop.batches()
    assert drop.files() == {"cancellations.csv"}
    await batch.ack()
    await drop.pull()
    held = drop.path / "held" / "cancellations.csv"
    assert held.read_text("utf-8") == content
    reason = held.with_name("cancellations.csv.reason.txt").read_text("utf-8")
    assert reason.startswith(
        "3 of 10 rows cannot be used, so Backhaul took none of them"
    )
    assert "cancellations.csv:9 restock must be yes or no" in reason
    assert drop.files() == {f"held/{held.name}", f"held/{held.name}.reason.txt"}


async def test_a_held_file_is_a_single_bad_value_however_often_it_comes(
    drop: Drop,
) -> None:
    for _ in range(2):
        drop.put("cancellations.csv", CANCELLATIONS + BAD * 5)
        await drop.pull()
    assert drop.records() == []
    (bad,) = drop.host.bad.values()
    assert bad.reason.startswith("cancellations.csv was moved to held/: 5 of 5 rows")
    assert {"held/cancellations.csv", "held/cancellations-2.csv"} < drop.files()


@pytest.mark.parametrize(
    ("good", "bad", "held"), [(8, 2, False), (7, 2, True), (2, 2, False), (3, 2, True)]
)
async def test_the_share_counts_above_a_fifth_of_five_rows(
    drop: Drop, good: int, bad: int, held: bool
) -> None:
    rows = "".join(f"{n},yes,\n" for n in range(good))
    drop.put("cancellations.csv", CANCELLATIONS + rows + BAD * bad)
    await drop.pull()
    assert len(drop.records()) == (0 if held else good)
    assert len(drop.host.bad) == (1 if held else bad)
