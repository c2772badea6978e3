"""X12 shipping advices (945): which tracking numbers belong to which items."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from connectors.dropping import Drop
from connectors.interchanges import x12
from connectors.test_file_drop_edi import shipped

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def drop(tmp_path: Path) -> Drop:
    return Drop(tmp_path, {"fulfillments": "*.edi"})


def unit(sku: str) -> str:
    return f"W12*CC*1*1**EA**VN*{sku}"


async def numbers_of(drop: Drop, *segments: str) -> list[tuple[str, list[str]]]:
    """Drop a 945; return the number and the SKUs of each shipment."""
    message = ["945", "W06*F*1001*20260331*SH-1", *segments]
    found = await shipped(drop, x12(message))
    return [(number or "", list(units)) for _, _, number, units in found]


async def test_a_number_after_an_item_is_that_of_the_item_before(drop: Drop) -> None:
    segments = ["LX*1", unit("A"), "N9*2I*T1", "LX*2", unit("B"), "W03*2"]
    assert await numbers_of(drop, *segments) == [("T1", ["A"]), ("", ["B"])]


@pytest.mark.parametrize(("code", "what"), [("C", "a return"), ("K", "a simulation")])
async def test_an_advice_that_reports_no_shipment_goes_to_quarantine(
    drop: Drop, code: str, what: str
) -> None:
    content = x12(["945", f"W06*{code}*1001*20260331*SH-1", "LX*1", unit("A")])
    assert await shipped(drop, content) == []
    (reason,) = drop.reasons()
    assert f"W0601 {code} reports {what}" in reason


async def test_the_last_item_of_a_shipping_advice_is_shipped(drop: Drop) -> None:
    assert await numbers_of(drop, "LX*1", unit("A")) == [("", ["A"])]


async def test_a_package_before_the_items_is_that_of_all_of_them(drop: Drop) -> None:
    segments = ["LX*1", "MAN*CP*T1", unit("A"), "N9*LT*L1", unit("B")]
    assert await numbers_of(drop, *segments) == [("T1", ["A", "B"])]


async def test_a_lot_number_does_not_make_a_parcel(drop: Drop) -> None:
    segments = ["LX*1", "N9*LT*L1", unit("A"), "LX*2", unit("B"), "N9*LT*L2"]
    assert await numbers_of(drop, *segments) == [("", ["A", "B"])]


@pytest.mark.parametrize(
    ("action", "shipments"), [("", 1), ("1", 1), ("2", 1), ("3", 0)]
)
async def test_an_advice_that_deletes_another_one_ships_nothing(
    drop: Drop, action: str, shipments: int
) -> None:
    head = f"W06*F*1001*20260331*SH-1********{action}".rstrip("*")
    found = await shipped(drop, x12(["945", head, "LX*1", unit("A")]))
    assert len(found) == shipments
    said = "cancels shipment SH-1 of the order 1001"
    assert [said in reason for reason in drop.reasons()] == [True] * (1 - shipments)
