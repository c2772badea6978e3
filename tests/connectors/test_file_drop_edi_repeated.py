"""Documents that a file contains twice count once, and none is lost."""

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


def report(
    number: str = "I1",
    quantity: int = 5,
    *,
    sku: str = "A",
    place: str = "W1",
    at: str = "DTM+366:202603310600:203",
) -> Sequence[str]:
    lines = ["LIN+1", f"PIA+1+{sku}:SA", f"QTY+145:{quantity}"]
    header = [f"BGM+35+{number}+9", at, f"NAD+WH+{place}"]
    return ["INVRPT:D:96A:UN", *header, *lines]


def inventory(
    number: str = "I1",
    quantity: int = 5,
    *,
    sku: str = "A",
    place: str = "W1",
    at: str = "0600",
) -> Sequence[str]:
    header = [f"BIA*00*DD*{number}*20260331*{at}", f"N1*WH**92*{place}"]
    return ["846", *header, f"LIN**SK*{sku}", f"QTY*33*{quantity}*EA"]


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


SEVERAL_ORDERS = {
    "945": x12(advice(), [each.replace("*1001*", "*1002*") for each in advice()]),
    "856": x12(notice(*item(3, 2)), notice(*item(3, 2), order="1002")),
    "DESADV": edifact(despatch(shirt()), despatch(shirt(), order="1002")),
}


@pytest.mark.parametrize("content", SEVERAL_ORDERS.values(), ids=SEVERAL_ORDERS)
async def test_several_orders_of_one_shipment_are_no_repetition(
    drop: Drop, content: bytes
) -> None:
    """A truck has the orders of several messages."""
    found = await shipped(drop, content)
    assert [order for order, *_ in found] == ["1001", "1002"]
    assert drop.reasons() == []


async def test_an_order_that_comes_again_with_another_one_is_reported(
    drop: Drop,
) -> None:
    lines = [[*shirt(), f"RFF+ON:{order}"] for order in (1001, 1002)]
    content = edifact(despatch(lines[0]), despatch(*lines))
    assert [order for order, *_ in await shipped(drop, content)] == ["1001"]
    (reason,) = drop.reasons()
    assert "for an order or a SKU that this message has too" in reason


async def test_an_unusable_line_is_reported_beside_a_repeated_one(drop: Drop) -> None:
    """It names no order, so it can be about the order that is new."""
    lines = [[*shirt(), f"RFF+ON:{order}"] for order in (1001, 1002)]
    messages = [despatch(line, shirt(), order="") for line in lines]
    await shipped(drop, edifact(*messages))
    assert len(drop.records()) == 2
    assert len(drop.reasons()) == 2


def placed_stock(*places: str) -> Sequence[str]:
    head = ["BGM+35+1+9", "DTM+366:202610120700:203"]
    return ["INVRPT:D:96A:UN", *head, *places, "LIN+1", "PIA+1+A:SA", "QTY+145:5"]


def x12_stock(warehouse: str) -> Sequence[str]:
    head = ["BIA*00*DD*1*20261012*0700", f"N1*WH**92*{warehouse}", "N1*SF*ACME*92*9"]
    return ["846", *head, "LIN**SK*A", "QTY*33*5*EA"]


SEVERAL_STOCKS = {
    "INVRPT after its owner": edifact(
        *(placed_stock("NAD+GY+OWNER", f"NAD+WH+{each}") for each in ("W1", "W2"))
    ),
    "INVRPT with the name of a warehouse": edifact(
        *(placed_stock(f"NAD+WH+++{each}") for each in ("EAST", "WEST"))
    ),
    "846 before its owner": x12(*map(x12_stock, ("01", "02"))),
    "INVRPT of each warehouse": edifact(report(), report(place="W2")),
    "846 of each warehouse": x12(inventory(), inventory(place="W2")),
    "INVRPT of each article": edifact(report(), report(sku="B")),
    "846 of each article": x12(inventory(), inventory(sku="B")),
}


@pytest.mark.parametrize("content", SEVERAL_STOCKS.values(), ids=SEVERAL_STOCKS)
async def test_several_messages_of_one_stock_report_are_counted(
    drop: Drop, content: bytes
) -> None:
    found = await counted(drop, content)
    assert sum(found.values()) == 10
    assert drop.reasons() == []


async def test_stock_that_comes_again_with_other_articles_is_reported(
    drop: Drop,
) -> None:
    both = [*report(), "LIN+2", "PIA+1+B:SA", "QTY+145:3"]
    found = await counted(drop, edifact(report(), both, both))
    assert {sku: units for (sku, _), units in found.items()} == {"A": 5}
    assert len(drop.reasons()) == 2


def carton(sscc: str, carrier: Sequence[str] = ("RFF+CN:JJ1",)) -> Sequence[str]:
    lines = ["CPS+1", f"GIN+BJ+{sscc}", "LIN+1++A:SA", "QTY+12:2"]
    return ["DESADV:D:96A:UN", "BGM+351+80+9", "RFF+ON:45", *carrier, *lines]


def x12_carton(sscc: str) -> Sequence[str]:
    head = ["BSN*00*71*20261012*0715", "HL*1**S", "REF*CN*1Z9", "HL*2*1*O", "PRF*45"]
    pack = ["HL*3*2*P", f"MAN*GM*{sscc}", "HL*4*3*I", "LIN**VN*A", "SN1**2*EA"]
    return ["856", *head, *pack]


def advice_of_carton(sscc: str) -> Sequence[str]:
    head = ["W06*F*45*20261012*881", "N9*2I*1ZSHIP", "LX*1", f"MAN*GM*{sscc}"]
    return ["945", *head, "W12*CC*2*2**EA**VN*A"]


ALIKE = {
    "DESADV of each carton": edifact(*map(carton, ("37312340015", "37312340022"))),
    "856 of each carton": x12(*map(x12_carton, ("00006141411", "00006141412"))),
    "945 of each carton": x12(*map(advice_of_carton, ("0000611", "0000612"))),
    "INVRPT of each bin": edifact(
        *([*placed_stock(f"NAD+WH+{each}"), "LOC+18+BIN1"] for each in ("W1", "W2"))
    ),
    "INVRPT with a place of the report": edifact(
        *(placed_stock(f"LOC+18+{each}") for each in ("W1", "W2"))
    ),
    "INVRPT of each batch": edifact(
        *([*placed_stock(), f"PIA+1+{each}:NB"] for each in ("LOT1", "LOT2"))
    ),
}


@pytest.mark.parametrize("content", ALIKE.values(), ids=ALIKE)
async def test_messages_with_equal_rows_but_other_segments_are_not_lost(
    drop: Drop, content: bytes
) -> None:
    drop.put("a.edi", content)
    await drop.pull()
    assert len(drop.records()) + len(drop.reasons()) == 2
    assert "so it is left out" not in await notes_of(drop)


CARTONS = {"DESADV": carton, "856": x12_carton, "945": advice_of_carton}


@pytest.mark.parametrize("message", CARTONS)
async def test_cartons_in_files_of_their_own_are_different_parcels(
    drop: Drop, message: str
) -> None:
    make = edifact if message == "DESADV" else x12
    for sscc in ("00006141411", "00006141412"):
        await shipped(drop, make(CARTONS[message](sscc)), f"{sscc}.edi")
    assert len(drop.host.records) == 2


async def test_a_carton_that_gets_a_number_of_its_carrier_is_the_same_parcel(
    drop: Drop,
) -> None:
    for name, carrier in (("a", []), ("b", ["RFF+CN:JJ1"])):
        await shipped(drop, edifact(carton("37312340015", carrier)), f"{name}.edi")
    assert len(drop.host.records) == 1


LATER = {
    "INVRPT": edifact(
        *(report(at=f"DTM+137:2026033106{minute}:203") for minute in ("00", "05"))
    ),
    "846": x12(inventory(), inventory(at="0605")),
}


@pytest.mark.parametrize("content", LATER.values(), ids=LATER)
async def test_a_repetition_that_was_written_later_is_left_out(
    drop: Drop, content: bytes
) -> None:
    assert await counted(drop, content) == {("A", "2026-03-31T06:00:00Z"): 5}
    assert drop.reasons() == []


async def test_a_shipment_that_was_written_later_is_a_repetition(drop: Drop) -> None:
    later = [each.replace("*1405", "*1406") for each in notice(*item(3, 2))]
    ((*_, units),) = await shipped(drop, x12(notice(*item(3, 2)), later))
    assert units == {"LS-S": 2}
    assert drop.reasons() == []


async def test_stock_that_was_counted_again_is_reported(drop: Drop) -> None:
    again = report(at="DTM+366:202603310700:203")
    assert len(await counted(drop, edifact(report(), again))) == 1
    assert "with other content" in drop.reasons()[0]


async def test_a_sender_without_its_qualifier_is_the_same_one(drop: Drop) -> None:
    other = edifact(despatch(shirt()), advice="", reference="8")
    content = edifact(despatch(shirt())) + other.replace(
        b"4012345000009:14", b"4012345000009"
    )
    ((*_, units),) = await shipped(drop, content)
    assert units == {"LS-S": 2}
    assert drop.reasons() == []


async def test_each_order_of_a_cancelled_document_is_named(drop: Drop) -> None:
    cancelling = [despatch(shirt(), order=order) for order in ("1001", "1002", "1001")]
    for message in cancelling:
        message[1] = "BGM+351+LS-1+1"
    await shipped(drop, edifact(*cancelling))
    first, second = drop.reasons()
    assert "cancels despatch advice LS-1 of the order 1001" in first
    assert "cancels despatch advice LS-1 of the order 1002" in second


async def test_an_order_can_be_shipped_after_a_message_without_a_line(
    drop: Drop,
) -> None:
    content = edifact(despatch(), despatch(shirt()))
    assert [order for order, *_ in await shipped(drop, content)] == ["1001"]
    (reason,) = drop.reasons()
    assert "no line or item, so nothing of the order 1001 was shipped" in reason


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


async def test_a_file_with_too_many_articles_of_one_report_is_held(
    drop: Drop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repetitions, "MOST_PARTS", 2)
    messages = [report(sku=sku) for sku in "ABC"]
    reason = await held(drop, edifact(*messages))
    assert (
        "more than 2 orders or SKUs in documents that have several messages" in reason
    )


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
