"""The code computes the worked examples of docs/stock-from-an-erp.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from backhaul.core.stock import (
    Count,
    Movement,
    PendingMove,
    Policy,
    Reservation,
    StockSnapshot,
    compute,
)

PAGE = Path(__file__).resolve().parents[2] / "docs/stock-from-an-erp.md"
BEFORE, COUNTED, SINCE = (
    f"2026-03-31T{at}:00.000Z" for at in ("09:50", "10:00", "10:02")
)
CELL = r" ([+-]?\d+) \|"
ROW = re.compile(rf"^\| ([^|]+) \|{CELL * 8}$", re.MULTILINE)
ROWS = [
    (case, [int(number) for number in numbers])
    for case, *numbers in ROW.findall(PAGE.read_text("utf-8"))
]


def test_the_page_has_examples() -> None:
    assert len(ROWS) >= 6


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_an_example_is_computed_as_shown(row: tuple[str, list[int]]) -> None:
    case, (count, moved, open_units, buffer, target, level, pending, adjustment) = row
    shelf = StockSnapshot(
        level,
        level,
        movements=(Movement(SINCE, moved, None, "sale"),),
        promises=(PendingMove("c1", pending, BEFORE),),
        reserved=(Reservation("1001", open_units),),
    )
    policy = Policy("on_hand" if "on_hand" in case else "available", buffer)
    found = compute(Count(count, COUNTED), shelf, policy)
    assert (found.target, found.delta) == (target, adjustment)
