"""Parcels of EDI files have a key each, which stays the same in a repeated file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul_sdk import Fulfillment
from connectors.dropping import Drop
from connectors.interchanges import edifact, shirt, x12
from connectors.test_file_drop_edi import shipped
from connectors.test_file_drop_edi_x12 import item, notice

if TYPE_CHECKING:
    from pathlib import Path

DESADV = ("DESADV:D:96A:UN", "BGM+351+LS-1+9", "RFF+ON:1001")
ADVICE = ("945", "W06*F*1001*20260331*SH-1")


@pytest.fixture
def drop(tmp_path: Path) -> Drop:
    return Drop(tmp_path, {"fulfillments": "*.edi"})


def unit(sku: str) -> str:
    return f"W12*CC*1*1**EA**VN*{sku}"


def advice(*segments: str) -> bytes:
    return x12([*ADVICE, *segments])


def with_own_numbers(*numbers: str) -> bytes:
    """Return an 856 whose items have tracking numbers, without packs."""
    segments: list[str] = []
    for at, number in enumerate(numbers, 3):
        segments += [*item(at, 2, f"S{at}", "1*EA"), f"REF*2I*{number}"]
    return x12(notice(*segments))


TWO_PARCELS = {
    "856 with a number of each item": with_own_numbers("T1", "T2"),
    "856 with a level number twice": x12(
        notice(
            *["HL*3*2*P", "MAN*CP*T1", *item(4, 3, "S3", "1*EA")],
            *["HL*3*2*P", "MAN*CP*T2", *item(5, 3, "S4", "1*EA")],
        )
    ),
    "945 with a line number twice": advice(
        *("LX*1", "MAN*CP*T1", unit("S3"), "LX*1", "MAN*CP*T2", unit("S4"))
    ),
    "945 with a number after each item": advice(
        *("LX*1", unit("S3"), "MAN*CP*T1", unit("S4"), "MAN*CP*T2")
    ),
    "DESADV with a level number twice": edifact(
        [
            *DESADV,
            *("CPS+1", "GIN+BJ+T1", "LIN+1", *shirt("1", "S3")),
            *("CPS+1", "GIN+BJ+T2", "LIN+2", *shirt("1", "S4")),
        ]
    ),
    "DESADV with a level and a line number twice": edifact(
        [
            *DESADV,
            *("CPS+1", "LIN+1", *shirt("1", "S3"), "RFF+CN:T1"),
            *("CPS+1", "LIN+1", *shirt("1", "S4"), "RFF+CN:T2"),
        ]
    ),
}


@pytest.mark.parametrize("content", TWO_PARCELS.values(), ids=TWO_PARCELS)
async def test_two_tracking_numbers_are_two_shipments(
    drop: Drop, content: bytes
) -> None:
    found = await shipped(drop, content)
    assert [(number, units) for _, _, number, units in found] == [
        ("T1", {"S3": 1}),
        ("T2", {"S4": 1}),
    ]


@pytest.mark.parametrize("content", TWO_PARCELS.values(), ids=TWO_PARCELS)
async def test_the_same_file_again_has_the_same_keys(
    drop: Drop, content: bytes
) -> None:
    await shipped(drop, content)
    keys = list(drop.host.records)
    await shipped(drop, content, "b.edi")
    await shipped(drop, content + b"\n", "c.edi")
    assert list(drop.host.records) == keys


async def test_a_corrected_tracking_number_is_the_same_parcel(drop: Drop) -> None:
    """Then an operator decides; with another key the parcel would ship twice."""
    await shipped(drop, with_own_numbers("T1", "T2"))
    keys = list(drop.host.records)
    await shipped(drop, with_own_numbers("T1", "T9"), "b.edi")
    assert list(drop.host.records) == keys


async def test_lines_of_one_number_are_one_shipment(drop: Drop) -> None:
    found = await shipped(drop, with_own_numbers("T1", "T1"))
    assert [units for *_, units in found] == [{"S3": 1, "S4": 1}]


async def test_a_level_number_twice_without_tracking_numbers_is_one_parcel(
    drop: Drop,
) -> None:
    lines = ("CPS+1", "LIN+1", *shirt("1", "A"), "CPS+1", "LIN+2", *shirt("1", "B"))
    found = await shipped(drop, edifact([*DESADV, *lines]))
    assert [units for *_, units in found] == [{"A": 1, "B": 1}]


async def test_packages_of_an_item_are_noted(drop: Drop) -> None:
    segments = [*item(3, 2), "HL*4*3*P", "MAN*CP*T1", "HL*5*3*P", "MAN*CP*T2"]
    drop.put("a.edi", x12(notice(*segments)))
    (batch,) = await drop.batches()
    (record,) = (each for each in batch.records if isinstance(each, Fulfillment))
    assert record.tracking_number == "T1"
    assert "HL 3 has 2 package numbers" in " ".join(batch.notes)
