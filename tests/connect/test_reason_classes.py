"""Each reason for quarantine has a class, and names the object that it is about."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backhaul import connect
from backhaul.connect.record_matching import Matcher
from backhaul.store.records import NewRecord, ReasonClass
from backhaul_sdk import (
    Cancellation,
    Fulfillment,
    Line,
    StockAdjustment,
    StockLevel,
    Tracking,
)
from scenes.commands import new
from scenes.stored import rows_of

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul_sdk import Record
    from scenes.clock import VirtualClock

WAIT_SECONDS = 600.0
AT = "2026-03-01T10:00:00Z"


def shipment(order: str, *lines: Line, **members: object) -> Fulfillment:
    members = {"everything": not lines, "tracking_number": "T1", **members}
    return Fulfillment(key="k", order=order, lines=lines, **members)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("record", "reason_class", "subject"),
    [
        (shipment("777"), "unknown_order", "777"),
        (Cancellation(key="k", order="777", restock=False), "unknown_order", "777"),
        (shipment("1001", Line(sku="NOPE", quantity=1)), "unknown_sku", "NOPE"),
        (shipment("1001", Line(sku="LS-S", quantity=0)), "value", ""),
        (shipment("1001", Line(sku="LS-S", quantity=99)), "value", "LS-S"),
        (shipment("1001", question="Is it one parcel?"), "needs_decision", "#1001"),
        (StockAdjustment(key="k", sku="NOPE", delta=1), "unknown_sku", "NOPE"),
        (StockLevel(key="k", sku="NOPE", quantity=1, as_of=AT), "unknown_sku", "NOPE"),
        (StockLevel(key="k", sku="LS-S", quantity=1, as_of="noon"), "value", ""),
        (
            Tracking(key="k", tracking_number="T9", status="delivered"),
            "unknown_parcel",
            "T9",
        ),
        (Tracking(key="k", tracking_number="T9", status="lost"), "value", ""),
    ],
)
async def test_a_record_in_quarantine_has_a_class(
    record: Record,
    reason_class: str,
    subject: str,
    store: Store,
    clock: VirtualClock,
) -> None:
    matcher = Matcher(clock, WAIT_SECONDS)
    await store.records.accept("courier", "main", [new(record)], None, matcher)
    await clock.advance(WAIT_SECONDS + 1)
    await store.records.match(matcher, 9)
    (found,) = rows_of(store.place, "quarantine", "reason_class", "subject", "reason")
    assert found[:2] == (reason_class, subject), found[2]


async def test_bad_rows_and_other_content_have_a_class(
    store: Store, clock: VirtualClock
) -> None:
    matcher = Matcher(clock, WAIT_SECONDS)
    rows = [
        NewRecord("bad", None, "a;b", "no number", "f:1"),
        NewRecord("held", None, "b.csv", "same content", "b.csv", can_apply=True),
        new(StockAdjustment(key="k", sku="LS-S", delta=1)),
        new(StockAdjustment(key="k", sku="LS-S", delta=2)),
    ]
    await store.records.accept("courier", "main", rows, None, matcher)
    found = rows_of(store.place, "quarantine", "reason_class")
    assert [row[0] for row in found] == ["value", "needs_decision", "duplicate"]


async def test_an_unexpected_error_is_of_no_other_class(store: Store) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    row = new(StockAdjustment(key="k", sku="LS-S", delta=1))
    await store.records.accept("courier", "main", [row], None, fail)  # type: ignore[arg-type]
    assert rows_of(store.place, "quarantine", "reason_class") == [(ReasonClass.OTHER,)]


def test_no_reason_of_the_matcher_is_left_without_a_class() -> None:
    """`other` is for unexpected reasons, so every named reason needs a class."""
    without = [
        f"{path.name}:{call.lineno}"
        for path in sorted(Path(connect.__file__).parent.glob("*.py"))
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "Unmatched"
        and "reason_class" not in {each.arg for each in call.keywords}
    ]
    assert without == []


def test_a_class_has_a_readable_name() -> None:
    assert ReasonClass.UNKNOWN_SKU.in_words("LAMP-2") == "unknown SKU LAMP-2"
    assert ReasonClass.RATE_LIMIT.in_words() == "rate limit"
