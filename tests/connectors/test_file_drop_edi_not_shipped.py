"""Lines and messages of EDI files by which nothing was shipped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from connectors.dropping import Drop
from connectors.interchanges import edifact, x12

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NUMBER = "373123400000000015"


@pytest.fixture
def drop(tmp_path: Path) -> Drop:
    patterns = {"fulfillments": "*.edi", "stock_levels": "*.edi", "max_bad_share": 1}
    return Drop(tmp_path, patterns)


def despatch(*lines: str, function: str = "9") -> Sequence[str]:
    head = [f"BGM+351+80+{function}", "RFF+ON:45", "CPS+1", f"GIN+BJ+{NUMBER}"]
    return ["DESADV:D:96A:UN", *head, *lines]


async def reasons_of(drop: Drop, content: bytes) -> Sequence[str]:
    drop.put("a.edi", content)
    await drop.pull()
    return drop.reasons()


async def test_a_part_without_its_line_is_refused(drop: Drop) -> None:
    part = ["LIN+2++B:SA+1:1", "QTY+12:4"]
    (reason,) = await reasons_of(drop, edifact(despatch(*part)))
    assert "the line is a part of another one" in reason
    assert drop.host.records == {}


async def test_a_part_after_its_line_is_left_out(drop: Drop) -> None:
    lines = ["LIN+1++A:SA", "QTY+12:2", "LIN+2++B:SA+1:1", "QTY+12:4"]
    assert await reasons_of(drop, edifact(despatch(*lines))) == []
    assert len(drop.records()) == 1


@pytest.mark.parametrize("action", ["2", "7", "02"])
async def test_a_line_that_is_deleted_is_refused(drop: Drop, action: str) -> None:
    lines = ["LIN+1++A:SA", "QTY+12:2", f"LIN+2+{action}+B:SA", "QTY+12:4"]
    (reason,) = await reasons_of(drop, edifact(despatch(*lines)))
    assert f"its action (1229) is {action}" in reason
    assert len(drop.host.records) == 1


@pytest.mark.parametrize("action", ["", "1", "3", "5"])
async def test_a_line_that_is_added_or_changed_is_shipped(
    drop: Drop, action: str
) -> None:
    lines = [f"LIN+2+{action}+B:SA", "QTY+12:4"]
    assert await reasons_of(drop, edifact(despatch(*lines))) == []
    assert len(drop.records()) == 1


LINE = ("LIN+1++A:SA", "QTY+12:2")
X12_LINE = ("HL*1**S", "HL*2*1*O", "PRF*45", "HL*3*2*I", "LIN**VN*A", "SN1**2*EA")
CANCELLING = {
    "EDIFACT": edifact(despatch(*LINE, function="01")),
    "X12": x12(["856", "BSN*1*72*20261012*0715", *X12_LINE]),
}


@pytest.mark.parametrize("content", CANCELLING.values(), ids=CANCELLING)
async def test_a_zero_before_a_purpose_means_nothing(
    drop: Drop, content: bytes
) -> None:
    (reason,) = await reasons_of(drop, content)
    assert "the message cancels" in reason
    assert drop.host.records == {}
