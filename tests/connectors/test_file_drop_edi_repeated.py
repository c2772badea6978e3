"""Documents that a file has twice: none counts twice, and none is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul_connectors.file_drop.edi import (
    interchange,
    repetitions,
    shipment_rows,
)
from backhaul_sdk import Bad
from connectors.dropping import Drop
from connectors.interchanges import despatch, edifact, shirt, x12
from connectors.test_file_drop_edi import counted, held, shipped
from connectors.test_file_drop_edi_x12 import item, notice

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@pytest.fixture
def drop(tmp_path: Path) -> Drop:
    options = {"same_sku": "sum", "max_bad_share": 1}
    return Drop(tmp_path, {"fulfillments": "*.edi", "stock_levels": "*.edi", **options})


def report(number: str = "I1", quantity: int = 5) -> Sequence[str]:
    at = "DTM+366:202603310600:203"
    lines = ["LIN+1", "PIA+1+A:SA", f"QTY+145:{quantity}"]
    return ["INVRPT:D:96A:UN", f"BGM+35+{number}+9", at, *lines]


def inventory(number: str = "I1", quantity: int = 5) -> Sequence[str]:
    head = f"BIA*00*DD*{number}*20260331*0600"
    return ["846", head, "LIN**SK*A", f"QTY*33*{quantity}*EA"]


def advice(sku: str = "A", shipment: str = "SH-1") -> Sequence[str]:
    head = f"W06*F*1001*20260331*{shipment}"
    return ["945", head, "LX*1", f"W12*CC*1*1**EA**VN*{sku}"]


SHIPMENTS = {
    "DESADV": edifact(despatch(shirt()), despatch(shirt())),
    "DESADV in two interchanges": edifact(despatch(shirt()))
    + edifact(despatch(shirt()), advice="", reference="8"),
    "856": x12(notice(*item(3, 2)), notice(*item(3, 2))),
    "945": x12(advice("LS-S"), advice("LS-S")),
}
STOCK = {
    "INVRPT": edifact(report(), report()),
    "846": x12(inventory(), inventory()),
    "INVRPT without a number": edifact(report(""), report("")),
}


async def notes_of(drop: Drop) -> str:
    return " ".join(note for batch in await drop.batches() for note in batch.notes)


@pytest.mark.parametrize("content", SHIPMENTS.values(), ids=SHIPMENTS)
async def test_a_repeated_shipment_is_left_out(drop: Drop, content: bytes) -> None:
    drop.put("a.edi", content)
    assert "so it is left out" in await notes_of(drop)
    ((*_, units),) = await shipped(drop, content)
    assert sum(units.values()) == (1 if b"945" in content else 2)
    assert drop.reasons() == []


@pytest.mark.parametrize("content", STOCK.values(), ids=STOCK)
async def test_repeated_stock_is_left_out(drop: Drop, content: bytes) -> None:
    assert list((await counted(drop, content)).values()) == [5]
    assert drop.reasons() == []


async def test_a_message_after_a_repeated_one_is_read(drop: Drop) -> None:
    third = despatch(shirt(), order="1002", document="LS-2")
    content = edifact(despatch(shirt()), despatch(shirt()), third)
    assert [order for order, *_ in await shipped(drop, content)] == ["1001", "1002"]


OTHER = {
    "DESADV": edifact(
        despatch(shirt()), despatch(shirt("3")), despatch(shirt("4")), reference="9"
    ),
    "945": x12(advice("LS-S"), advice("LS-M"), advice("LS-L")),
}


@pytest.mark.parametrize("content", OTHER.values(), ids=OTHER)
async def test_a_document_with_other_content_is_reported(
    drop: Drop, content: bytes
) -> None:
    assert len(await shipped(drop, content)) == 1
    reasons = drop.reasons()
    assert len(reasons) == 2
    for reason in reasons:
        assert "is not read: an earlier message of this file has the document" in reason
        assert "with other content" in reason


async def test_each_other_content_is_reported_although_all_references_are_equal(
    drop: Drop,
) -> None:
    """With one key for both, one of them would be lost."""
    parts = [edifact(despatch(shirt(str(n))), advice="") for n in (1, 2, 3)]
    await shipped(drop, b"".join(parts))
    assert len(drop.records()) == 1
    assert len(drop.reasons()) == 2


async def test_stock_with_other_content_is_reported(drop: Drop) -> None:
    content = edifact(report(), report(quantity=7))
    assert list((await counted(drop, content)).values()) == [5]
    assert "INVRPT, and is not read: an earlier message" in drop.reasons()[0]


async def test_two_reports_without_a_number_are_both_read(drop: Drop) -> None:
    content = edifact(report(""), report("", quantity=7))
    assert list((await counted(drop, content)).values()) == [12]


async def test_a_number_of_another_type_or_sender_is_another_document(
    drop: Drop,
) -> None:
    other = edifact(despatch(shirt(), order="1002"), advice="", reference="8")
    content = edifact(despatch(shirt())) + other.replace(b"4012345", b"4099999")
    assert [order for order, *_ in await shipped(drop, content)] == ["1001", "1002"]


async def test_several_orders_of_one_shipment_are_no_repetition(drop: Drop) -> None:
    """A 945 is about one order; a truck has the orders of several of them."""
    other = [each.replace("*1001*", "*1002*") for each in advice()]
    found = await shipped(drop, x12(advice(), other))
    assert [order for order, *_ in found] == ["1001", "1002"]
    assert drop.reasons() == []


async def test_the_cancellation_of_a_document_keeps_its_reason(drop: Drop) -> None:
    cancelling = despatch(shirt())
    cancelling[1] = "BGM+351+LS-1+1"
    await shipped(drop, edifact(despatch(shirt()), cancelling))
    assert "cancels despatch advice LS-1" in drop.reasons()[0]


async def test_the_same_file_again_changes_nothing(drop: Drop) -> None:
    for name in ("a.edi", "b.edi"):
        await shipped(drop, OTHER["DESADV"], name)
    assert len(drop.host.records) == 1
    assert len(drop.host.bad) == 2


async def test_a_file_with_too_many_messages_is_held(
    drop: Drop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory must not grow with the file."""
    monkeypatch.setattr(repetitions, "MOST_DOCUMENTS", 2)
    numbers = (1, 2, 3)
    content = edifact(*(despatch(shirt(), document=f"LS-{n}") for n in numbers))
    assert "more than 2 documents" in await held(drop, content)


async def test_a_file_with_too_many_messages_that_are_not_read_is_held(
    drop: Drop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interchange, "MOST_UNREAD", 2)
    messages = [despatch(shirt(str(n))) for n in (1, 2, 3, 4)]
    reason = await held(drop, edifact(*messages))
    assert "more than 2 messages that cannot be read" in reason
    assert "UNH 4 is DESADV" in reason


async def test_a_message_with_too_many_parcels_is_held(
    drop: Drop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipment_rows, "MOST_PARCELS", 2)
    lines = [[*shirt(), f"RFF+CN:T{n}"] for n in (1, 2, 3)]
    assert "more than 2 parcels" in await held(drop, edifact(despatch(*lines)))


async def test_a_message_that_is_left_out_is_no_row(drop: Drop) -> None:
    drop.put("a.edi", OTHER["DESADV"])
    batches = await drop.batches()
    found = [each for batch in batches for each in batch.records]
    assert [isinstance(each, Bad) for each in found].count(False) == 1
