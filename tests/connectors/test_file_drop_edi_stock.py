"""EDI stock reports: which quantities are stock, and of which location and time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from connectors.dropping import Drop
from connectors.interchanges import edifact, x12
from connectors.test_file_drop_edi import counted, report

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def drop(tmp_path: Path) -> Drop:
    return Drop(tmp_path, {"stock_levels": "*.edi"})


@pytest.mark.parametrize("code", ["156", "33"])
async def test_a_movement_is_not_stock_unless_the_settings_say_so(
    drop: Drop, code: str
) -> None:
    """156 is an inventory movement, 33 the largest batch of a delivery."""
    assert await counted(drop, edifact(report(f"QTY+{code}:3"))) == {}
    assert drop.reasons()[0].endswith(f"it has {code}. Set edi.stock_codes")
    drop.options["edi"] = {"stock_codes": [code]}
    again = edifact(report(f"QTY+{code}:3"), reference="8")
    assert list((await counted(drop, again)).values()) == [3]


async def test_equal_stock_of_two_warehouses_is_not_a_total_and_its_part(
    drop: Drop,
) -> None:
    drop.options["same_sku"] = "sum"
    lines = ["QTY+145:4", "NAD+WH+A", "QTY+145:4", "NAD+WH+B"]
    assert list((await counted(drop, edifact(report(*lines)))).values()) == [8]


async def test_a_location_says_more_than_its_warehouse(drop: Drop) -> None:
    drop.options["stock_level_rows"] = {"only": {"location": "BIN2"}}
    lines = ["QTY+145:4", "NAD+WH+A", "LOC+18+BIN1"]
    lines += ["QTY+145:5", "LOC+18+BIN2", "NAD+WH+A"]
    assert list((await counted(drop, edifact(report(*lines)))).values()) == [5]


PLACED = ["QTY+145:4", "NAD+WH+A", "QTY+145:5", "NAD+WH+B"]


@pytest.mark.parametrize("place", [[], ["NAD+WH+ALL"]], ids=["no place", "header"])
async def test_a_total_beside_the_stock_of_each_place_is_left_out_with_a_note(
    drop: Drop, place: list[str]
) -> None:
    drop.options["same_sku"] = "sum"
    message = report("QTY+145:9", *PLACED)
    message[3:3] = place
    drop.put("a.edi", edifact(message))
    (batch,) = await drop.batches()
    assert "UNH 1, LIN 1 has the quantity 9 without a place" in " ".join(batch.notes)
    assert list((await counted(drop, edifact(message))).values()) == [9]


@pytest.mark.parametrize("total", [["8"], ["9", "9"], ["9", "1"], ["many"]])
async def test_stock_without_a_place_that_is_no_total_goes_to_quarantine(
    drop: Drop, total: list[str]
) -> None:
    drop.options |= {"same_sku": "sum", "max_bad_share": 1}
    lines = [f"QTY+145:{each}" for each in total]
    assert await counted(drop, edifact(report(*lines, *PLACED))) == {}
    reasons = drop.reasons()
    assert len(reasons) == 2
    said = f"a quantity without a place ({', '.join(total)}) beside quantities with"
    assert all(f"{said} a place (4, 5)" in reason for reason in reasons)


EMPTY = {
    "INVRPT": edifact(report("QTY+145:3"), report()[:-2]),
    "846": x12(
        ["846", "BIA*00*DD*I1*20260331*0600", "LIN**SK*A", "QTY*33*3*EA"],
        ["846", "BIA*00*DD*I1*20260331*0600"],
    ),
}


@pytest.mark.parametrize("content", EMPTY.values(), ids=EMPTY)
async def test_a_report_without_a_line_goes_to_quarantine(
    drop: Drop, content: bytes
) -> None:
    assert list((await counted(drop, content)).values()) == [3]
    (reason,) = drop.reasons()
    assert "the message has no line, so nothing was counted" in reason


async def test_each_empty_warehouse_of_a_report_goes_to_quarantine(drop: Drop) -> None:
    drop.options["max_bad_share"] = 1
    head = ["INVRPT:D:96A:UN", "BGM+35+I1+9"]
    await counted(drop, edifact(*([*head, f"NAD+WH+{name}"] for name in "AAB")))
    assert len(drop.reasons()) == 2


@pytest.mark.parametrize("number", ["4", "0"])
async def test_two_equal_quantities_without_a_place_are_refused(
    drop: Drop, number: str
) -> None:
    """Perhaps a total and its only part, perhaps two parts: nobody can tell."""
    content = edifact(report(f"QTY+145:{number}", f"QTY+145:{number}"))
    assert await counted(drop, content) == {}
    (reason,) = drop.reasons()
    assert f"several quantities ({number}, {number}) without a place" in reason


async def test_the_time_of_a_line_is_that_of_its_quantities(drop: Drop) -> None:
    lines = ["DTM+366:202603010600:203", "QTY+145:3"]
    found = await counted(drop, edifact(report(*lines)))
    assert found == {("A", "2026-03-01T06:00:00Z"): 3}
    lines = ["DTM+366:202603010600:203", "QTY+145:3", "DTM+366:202603020600:203"]
    found = await counted(drop, edifact(report(*lines), reference="8"))
    assert ("A", "2026-03-02T06:00:00Z") in found


async def test_the_place_of_a_line_is_that_of_its_quantities(drop: Drop) -> None:
    drop.options["stock_level_rows"] = {"only": {"location": "WH2"}}
    lines = ["LOC+18+WH2", "QTY+145:3", "LIN+2", "PIA+1+B:SA", "QTY+145:4"]
    found = await counted(drop, edifact(report(*lines)))
    assert list(found.values()) == [3]


async def test_the_time_of_the_inventory_counts_before_that_of_the_booking(
    drop: Drop,
) -> None:
    times = ["DTM+366:202603010600:203", "DTM+179:202603050600:203"]
    found = await counted(drop, edifact(report(*times, "QTY+145:3")))
    assert found == {("A", "2026-03-01T06:00:00Z"): 3}


CANCELLED = {
    "INVRPT": edifact(
        ["INVRPT:D:96A:UN", "BGM+35+I1+1", *report("QTY+145:3")[2:]],
    ),
    "INVRPT that is deleted": edifact(
        ["INVRPT:D:96A:UN", "BGM+35+I1+3", *report("QTY+145:3")[2:]],
    ),
    "846": x12(["846", "BIA*01*DD*I1*20260331*0600", "LIN**SK*A", "QTY*33*3*EA"]),
}


@pytest.mark.parametrize("content", CANCELLED.values(), ids=CANCELLED)
async def test_a_report_that_is_cancelled_counts_nothing(
    drop: Drop, content: bytes
) -> None:
    assert await counted(drop, content) == {}
    (reason,) = drop.reasons()
    assert "the message cancels stock report I1" in reason
