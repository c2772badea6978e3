"""A parcel that several sources report, or whose rows have keys, is shipped once."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from backhaul_sdk import Line
from scenes import payloads
from scenes.back_office import ScriptedConnector, fulfillment_record, host_of
from scenes.databases import append_and_fold
from scenes.drop_folder import CASES, HEADER
from scenes.payloads import envelope
from scenes.stored import rows_of

if TYPE_CHECKING:
    from scenes.drop_folder import Folder


KEYED = "order,tracking_company,tracking_number,sku,quantity,note,line\n"


@pytest.fixture
def keyed(folder: Folder) -> Folder:
    folder.options["key_columns"] = ["note", "line"]
    return folder


@pytest.mark.parametrize(
    "corrected",
    [
        "2001,DHL,JD2,A1,1,LS1,1",
        "2001,DHL,,A1,1,LS1,1",
        "2001,UPS,JD1,A1,1,LS1,1",
        "2001,DHL,JD1,A1,2,LS1,1",
        "2001,DHL,JD1,KK-L,1,LS1,1",
        "2002,DHL,JD1,A1,1,LS1,1",
    ],
)
async def test_a_key_of_the_source_is_shipped_once(
    corrected: str, keyed: Folder
) -> None:
    await keyed.drop(f"{KEYED}2001,DHL,JD1,A1,1,LS1,1\n")
    for content in (corrected, f"2001,DHL,JD1,A1,1,LS1,1\n{corrected}", corrected):
        await keyed.drop(f"{KEYED}{content}\n")
        assert [number for _, number, _ in keyed.left()] == ["JD1"]
        reasons = keyed.reasons()
        assert reasons
        for reason in reasons:
            assert reason.startswith(
                "an earlier record with the same key has other content"
            )
            assert "retry ships that parcel too" in reason


async def test_another_key_of_the_source_is_another_parcel(keyed: Folder) -> None:
    await keyed.drop(f"{KEYED}2001,DHL,JD1,A1,1,LS1,1\n")
    await keyed.drop(f"{KEYED}2001,DHL,JD2,A1,1,LS2,1\n")
    assert (len(keyed.left()), keyed.reasons()) == (2, [])


async def test_lines_of_one_note_are_one_shipment(keyed: Folder) -> None:
    lines = "2001,DHL,JD1,A1,1,LS1,1\n2001,DHL,JD1,KK-L,1,LS1,2\n"
    await keyed.drop(f"{KEYED}{lines}")
    await keyed.drop(f"{KEYED}{lines}2001,DHL,JD1,LS-L,1,LS1,3\n")
    assert keyed.left() == [
        ("2001", "JD1", {"A1": 1, "KK-L": 1}),
        ("2001", "JD1", {"LS-L": 1}),
    ]
    assert keyed.reasons() == []


async def test_a_note_without_line_numbers_is_one_shipment(folder: Folder) -> None:
    folder.options["key_columns"] = ["note"]
    lines = "2001,DHL,,A1,1,LS1,\n2001,DHL,,KK-L,1,LS1,\n"
    await folder.drop(f"{KEYED}{lines}")
    await folder.drop(f"{KEYED}{lines}")
    assert folder.left() == [("2001", None, {"A1": 1, "KK-L": 1})]
    await folder.drop(f"{KEYED}{lines.replace('DHL,', 'DHL,JD1')}")
    assert (len(folder.left()), len(folder.reasons())) == (1, 1)


async def test_a_row_with_an_empty_key_is_identified_by_its_content(
    keyed: Folder,
) -> None:
    content = f"{KEYED}2001,DHL,JD1,A1,1,,\n2002,DHL,JD2,A1,1,,\n"
    await keyed.drop(content)
    await keyed.drop(content)
    assert (len(keyed.left()), keyed.reasons()) == (2, [])


TWO_SOURCES = (CASES / "16-one-parcel-two-sources.txt").read_text()


def packed(line: str, key: str, instance_order: str = "2001") -> Any:
    """Return the scanner's record for a line of the test file."""
    scan = json.loads(line.removeprefix("scanner:"))
    is_whole = scan["code"] == scan["order"]
    return fulfillment_record(
        key,
        instance_order,
        tracking_company=scan["trackingCompany"],
        tracking_number=scan["trackingNumber"],
        lines=() if is_whole else (Line(sku=scan["code"], quantity=1),),
    )


@pytest.mark.parametrize("which", [0, 1], ids=["an article", "the whole order"])
@pytest.mark.parametrize("first", ["scanner", "manifest"])
async def test_a_parcel_that_two_sources_report_is_shipped_once(
    which: int, first: str, folder: Folder
) -> None:
    scan = packed(TWO_SOURCES.splitlines()[which], "scan:1")
    manifest = HEADER + "2001,DHL,S200,LS-XL,1\n"
    scanner = host_of(ScriptedConnector("scanner"), folder.store)
    if first == "scanner":
        await scanner.emit(scan)
        await folder.drop(manifest)
    else:
        await folder.drop(manifest)
        await scanner.emit(scan)
    units = [units for _, _, units in folder.left()]
    if which == 1 and first == "manifest":
        # the scan has more than the manifest: also the rest of the order
        assert units == [{"LS-XL": 1}, {}]
    else:
        assert units == [{"LS-XL": 1} if which == 0 else {}]
    assert folder.reasons() == []
    await folder.drop(manifest)
    assert len(folder.left()) == len(units)


async def test_a_duplicate_names_the_source_that_was_first(folder: Folder) -> None:
    await host_of(ScriptedConnector("scanner"), folder.store).emit(
        packed(TWO_SOURCES.splitlines()[0], "scan:1")
    )
    await folder.drop(HEADER + "2001,DHL,S200,LS-XL,1\n")
    assert rows_of(
        folder.store.place, "records", "state", "reason", instance="courier"
    ) == [("accepted", "known from scanner file.csv:scan:1: parcel S200")]


async def test_two_sources_may_report_a_parcel_in_pieces(folder: Folder) -> None:
    """The scanner reports each unit, the manifest the parcel, in any order."""
    scanner = host_of(ScriptedConnector("scanner"), folder.store)
    unit = {"tracking_number": "S200", "lines": (Line(sku="LS-XL", quantity=1),)}
    await scanner.emit(fulfillment_record("scan:1", "2001", **unit))
    await folder.drop(HEADER + "2001,DHL,s 200,LS-XL,2\n2001,DHL,s 200,KK-L,1\n")
    await scanner.emit(fulfillment_record("scan:2", "2001", **unit))
    await scanner.emit(fulfillment_record("scan:3", "2001", **unit))
    assert [units for _, _, units in folder.left()] == [
        {"LS-XL": 1},
        {"LS-XL": 1, "KK-L": 1},
        {"LS-XL": 1},
    ]


async def test_two_sources_that_name_no_number_need_an_operator(folder: Folder) -> None:
    scanner = host_of(ScriptedConnector("scanner"), folder.store)
    unit = {"tracking_number": None, "lines": (Line(sku="LS-XL", quantity=1),)}
    await scanner.emit(fulfillment_record("scan:1", "2001", **unit))
    await folder.drop(HEADER + "2001,DHL,S200,LS-XL,1\n2001,DHL,S200,A1,2\n")
    assert len(folder.left()) == 1
    assert (
        "without a tracking number it is unknown whether this is the same parcel"
        in (folder.reasons()[0])
    )


async def test_a_parcel_that_the_store_shows_already_is_not_shipped_again(
    folder: Folder,
) -> None:
    """The merchant entered it in the store's dashboard."""
    line = payloads.item("2009:A1", sku="A1", quantity=3, fulfilledQuantity=1)
    held = [{"lineItemId": "2009:A1", "quantity": 1}]
    parcel = payloads.shipment(trackingNumber="S9", items=held)
    order = payloads.order("ord_2009", number=2009, items=[line], shipments=[parcel])
    await append_and_fold(folder.store, envelope("orders/create", order))
    await folder.drop(HEADER + "2009,DHL,S9,A1,1\n")
    assert (folder.left(), folder.reasons()) == ([], [])
    await folder.drop(HEADER + "2009,DHL,S9,A1,1\n2009,DHL,S10,A1,1\n")
    assert [number for _, number, _ in folder.left()] == ["S10"]


async def test_rows_that_an_older_version_accepted_are_not_shipped_again(
    folder: Folder,
) -> None:
    """That version took each row of a parcel alone, and hashed key columns with it."""
    folder.options["key_columns"] = ["note", "line"]
    first, second = "2001,DHL,JD1,A1,1,LS1,1", "2001,DHL,JD1,KK-L,1,LS1,2"
    old = "fulfillment:" + old_key(first)
    await host_of(ScriptedConnector("courier"), folder.store).emit(
        fulfillment_record(
            old,
            "2001",
            tracking_company="DHL",
            tracking_number="JD1",
            lines=(Line(sku="A1", quantity=1),),
        )
    )
    await folder.drop(f"{KEYED}{first}\n{second}\n")
    assert [units for _, _, units in folder.left()] == [{"A1": 1}, {"KK-L": 1}]
    await folder.drop(f"{KEYED}{first.replace('JD1', 'JD2')}\n{second}\n")
    assert len(folder.left()) == 2
    assert "correction or a further parcel" in folder.reasons()[0]


def old_key(row: str) -> str:
    """Return an older version's digest of a row with key columns."""
    order, company, number, sku, quantity, *named = row.casefold().split(",")
    content = [order, company, number, [[sku, int(quantity)]], None, named]
    text = json.dumps(["fulfillment", content])
    return hashlib.sha256(text.encode()).hexdigest()[:40]
