"""EDIFACT files in a drop folder: despatch advices and inventory reports."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from backhaul_connectors.file_drop.settings import Settings
from backhaul_sdk import Bad, Fulfillment, StockLevel
from connectors.dropping import Drop
from connectors.interchanges import FILES, despatch, edifact, shirt

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def drop(tmp_path: Path) -> Drop:
    return Drop(tmp_path, {"fulfillments": "*.edi", "stock_levels": "*.edi"})


async def shipped(drop: Drop, content: bytes, name: str = "a.edi") -> list[Any]:
    """Drop a file; return order, carrier, number and units of each shipment."""
    drop.put(name, content)
    await drop.pull()
    return [
        (
            record.order,
            record.tracking_company,
            record.tracking_number,
            units_by_sku(record),
        )
        for record in drop.records()
        if isinstance(record, Fulfillment)
    ]


def units_by_sku(shipment: Fulfillment) -> dict[str, int]:
    """Return the sum of all lines of each SKU, so that a repeated line shows."""
    units = Counter[str]()
    for line in shipment.lines:
        units[line.sku] += line.quantity
    return dict(units)


async def counted(drop: Drop, content: bytes) -> dict[tuple[str, str], int]:
    """Drop a file; return the stock by SKU and time."""
    drop.put("a.edi", content)
    await drop.pull()
    levels = [record for record in drop.records() if isinstance(record, StockLevel)]
    return {(level.sku, level.as_of): level.quantity for level in levels}


async def held(drop: Drop, content: bytes, name: str = "a.edi") -> str:
    """Drop a file that is held; return the reason."""
    drop.put(name, content)
    await drop.pull()
    assert drop.records() == []
    (path,) = (drop.path / "held").glob("*.reason.txt")
    return path.read_text()


async def refused(drop: Drop, *lines: list[str]) -> str:
    """Drop a message with these lines; return why the only bad row is refused."""
    await shipped(drop, edifact(despatch(*lines)))
    (reason,) = drop.reasons()
    return reason


async def test_each_parcel_of_a_despatch_advice_is_shipped(drop: Drop) -> None:
    content = (FILES / "desadv-d96a.edi").read_bytes()
    assert await shipped(drop, content) == [
        ("1001", "DHL Paket", "340123450000000017", {"4006381333931": 2}),
        ("1001", "DHL Paket", "340123450000000024", {"4006381333948": 1}),
        ("1002", "DHL Express", "JJD0099000000002", {"4006381333931": 3}),
    ]
    first, _, last = drop.records()
    assert isinstance(first, Fulfillment)
    assert isinstance(last, Fulfillment)
    assert first.shipped_at == "2026-03-31T13:30:00Z"
    assert last.shipped_at == "2026-03-31T00:00:00Z"
    assert drop.reasons() == []
    assert drop.files() == {"archive/a.edi"}


async def test_a_line_without_units_is_left_out_with_a_note(drop: Drop) -> None:
    drop.put("a.edi", (FILES / "desadv-d96a.edi").read_bytes())
    notes = [note for batch in await drop.batches() for note in batch.notes]
    assert notes == [
        "a.edi: UNH 1, LIN 3 ships 0 units, so it is left out",
    ]


@pytest.mark.parametrize(("lines", "said"), [(21, "1 more note"), (22, "2 more notes")])
async def test_only_the_first_notes_of_a_file_are_logged(
    drop: Drop, lines: int, said: str
) -> None:
    none = ["PIA+1+LS-S:SA", "QTY+12:0"]
    drop.put("a.edi", edifact(despatch(shirt(), *[none] * lines)))
    notes = [note for batch in await drop.batches() for note in batch.notes]
    assert len(notes) == 21
    assert notes[-1] == f"a.edi: {said} of this kind"


async def test_the_same_despatch_advice_again_changes_nothing(drop: Drop) -> None:
    """A retransmission has another interchange reference and the same document."""
    message = despatch(shirt())
    await shipped(drop, edifact(message, reference="1"), "a.edi")
    await shipped(drop, edifact(message, reference="2"), "b.edi")
    assert len(drop.host.records) == 1


async def test_equal_parcels_of_two_documents_are_two_shipments(drop: Drop) -> None:
    """By content alone the second one would be lost."""
    lines = ["BGM+351+{}+9", "RFF+ON:1001", "CPS+1", "LIN+1", *shirt()]
    for document in ("LS-1", "LS-2"):
        message = [line.format(document) for line in lines]
        await shipped(drop, edifact(["DESADV:D:96A:UN", *message]), f"{document}.edi")
    assert len(drop.host.records) == 2


async def test_two_orders_of_one_parcel_are_two_shipments(drop: Drop) -> None:
    lines = [[*shirt(), f"RFF+ON:{order}"] for order in (2001, 2002)]
    found = await shipped(drop, edifact(despatch(*lines)))
    assert [order for order, *_ in found] == ["2001", "2002"]


async def test_lines_of_one_parcel_are_one_shipment(drop: Drop) -> None:
    content = edifact(despatch(shirt("2"), shirt("1", "LS-M")))
    assert await shipped(drop, content) == [
        ("1001", "DHL", "JJD1", {"LS-S": 2, "LS-M": 1})
    ]


async def test_a_parcel_inside_of_a_pallet_has_the_number_of_the_pallet(
    drop: Drop,
) -> None:
    message = ["DESADV:D:96A:UN", "BGM+351+L+9", "RFF+ON:1", "CPS+1", "PAC+1"]
    message += ["GIN+BJ+340123450000000017", "CPS+2+1", "LIN+1", *shirt()]
    ((_, _, number, _),) = await shipped(drop, edifact(message))
    assert number == "340123450000000017"


async def test_several_packages_of_a_line_are_noted(drop: Drop) -> None:
    message = ["DESADV:D:96A:UN", "BGM+351+L+9", "RFF+ON:1", "CPS+1"]
    message += ["GIN+BJ+340123450000000017+340123450000000024", "LIN+1", *shirt()]
    drop.put("a.edi", edifact(message))
    (batch,) = await drop.batches()
    assert "has 2 package numbers; the tracking number is the first one" in " ".join(
        batch.notes
    )


async def test_released_characters_and_the_letters_of_the_charset_are_read(
    drop: Drop,
) -> None:
    message = despatch(shirt(sku="A?+B?:C??D?'E"), order="N?'1")
    message[4] = "TDT+20++30+31+:::Müller ?+ Söhne"
    assert await shipped(drop, edifact(message)) == [
        ("N'1", "Müller + Söhne", "JJD1", {"A+B:C?D'E": 2})
    ]


async def test_letters_that_are_not_of_the_charset_are_refused(drop: Drop) -> None:
    """UNOA has no umlauts: nobody knows which letters these bytes are."""
    message = despatch(shirt())
    message[4] = "TDT+20++30+31+:::Müller"
    assert await shipped(drop, edifact(message, charset="UNOA")) == []
    assert "bytes that are not valid text" in drop.reasons()[0]
    drop.options["encoding"] = "iso8859_1"
    again = edifact(message, charset="UNOA", reference="8")
    ((_, company, *_),) = await shipped(drop, again, "b.edi")
    assert company == "Müller"


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
@pytest.mark.parametrize("advice", ["", "UNA:+.? '", "UNA:+,? '", "UNA:+.  '"])
async def test_any_form_of_lines_is_read(drop: Drop, advice: str, ending: str) -> None:
    content = edifact(despatch(shirt()), advice=advice, ending=ending)
    assert len(await shipped(drop, content)) == 1


async def test_lines_that_are_broken_at_80_characters_are_joined(drop: Drop) -> None:
    plain = edifact(despatch(shirt(sku="A" * 90)), ending="")
    broken = b"\r\n".join(plain[at : at + 80] for at in range(0, len(plain), 80))
    ((_, _, _, units),) = await shipped(drop, broken)
    assert units == {"A" * 90: 2}


async def test_without_a_release_character_a_question_mark_is_a_letter(
    drop: Drop,
) -> None:
    content = edifact(despatch(shirt(sku="A?")), advice="UNA:+.  '")
    ((_, _, _, units),) = await shipped(drop, content)
    assert units == {"A?": 2}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (["PIA+1+LS-S:SA"], "no despatched quantity (QTY+12)"),
        ([*shirt(), "QTY+12:3:PCE"], "several despatched quantities (QTY+12): 2, 3"),
        (["QTY+12:2"], "no article number with one of the codes EN, SRV"),
        (shirt("2:CT"), "the unit CT, and Backhaul does not know how many pieces"),
        (shirt("1.5"), "quantity must be a whole number"),
        (shirt("-1"), "quantity"),
    ],
)
async def test_a_line_that_cannot_be_used_is_refused_and_the_others_go_on(
    drop: Drop, line: list[str], reason: str
) -> None:
    assert reason in await refused(drop, line, shirt())
    assert drop.reasons()[0].startswith("UNH 1, LIN 1: ")
    assert len(drop.records()) == 1
    (bad,) = drop.host.bad.values()
    await drop.report()
    rejected = (drop.path / "rejected" / "a.rejected.csv").read_text()
    assert bad.reason[:40] in rejected


async def test_an_article_without_its_number_does_not_count(drop: Drop) -> None:
    line = ["PIA+1+:SA", "PIA+1+LS-S:SA", "QTY+12:2"]
    ((*_, units),) = await shipped(drop, edifact(despatch(line)))
    assert units == {"LS-S": 2}


async def test_a_reason_names_no_article_without_its_number(drop: Drop) -> None:
    reason = await refused(drop, ["PIA+1+:SA+7:XX", "QTY+12:2"])
    assert "it has XX (7). Set edi.article_codes" in reason


async def test_an_order_that_nothing_names_is_refused(drop: Drop) -> None:
    message = despatch(shirt())
    message.remove("RFF+ON:1001")
    await shipped(drop, edifact(message))
    (reason,) = drop.reasons()
    assert reason == (
        "UNH 1, LIN 1: nothing names the order: expected one of the codes ON, CO"
    )


@pytest.mark.parametrize("code", ["1", "3"], ids=["cancellation", "deletion"])
async def test_a_message_that_cancels_ships_nothing(drop: Drop, code: str) -> None:
    message = despatch(shirt())
    message[1] = f"BGM+351+LS-1+{code}"
    assert await shipped(drop, edifact(message)) == []
    assert "cancels despatch advice LS-1" in drop.reasons()[0]


async def test_a_message_without_a_line_never_ships_the_whole_order(drop: Drop) -> None:
    assert await shipped(drop, edifact(despatch())) == []
    assert "has no line or item" in drop.reasons()[0]


async def test_codes_of_the_settings_choose_article_order_and_number(
    drop: Drop,
) -> None:
    drop.options["edi"] = {
        "article_codes": ["BP"],
        "order_codes": ["CR"],
        "tracking_codes": ["AAS"],
        "units": ["CT"],
    }
    line = ["PIA+1+X:SA+LS-S:BP", "QTY+12:2:CT", "RFF+CR:77", "RFF+AAS:T9"]
    found = await shipped(drop, edifact(despatch(line)))
    assert found == [("77", "DHL", "T9", {"LS-S": 2})]


async def test_other_messages_are_reported_and_acknowledgements_noted(
    drop: Drop,
) -> None:
    content = edifact(
        ["CONTRL:D:3:UN", "UCI+1+A+B+7"],
        despatch(shirt()),
        ["INVOIC:D:96A:UN", "BGM+380+R1+9"],
        ["INVRPT:D:96A:UN", "BGM+35+I1+9"],
    )
    drop.put("a.edi", content)
    batches = await drop.batches()
    bad = [each for batch in batches for each in batch.records if isinstance(each, Bad)]
    assert [each.reason for each in bad] == [
        "UNH 3 is INVOIC, and is not read: Backhaul reads only DESADV, INVRPT, 856,"
        " 945, 846",
        "UNH 4 is INVRPT, and is not read: the file is read as fulfillments because of"
        " UNH 2 (DESADV). Ask the sender for a file of its own",
    ]
    notes = [note for batch in batches for note in batch.notes]
    assert notes == ["a.edi: UNH 1 is an acknowledgement, and is not read"]
    assert sum(len(batch.records) for batch in batches) == 3


def tampered(content: bytes, old: str, new: str) -> bytes:
    assert content.count(old.encode()) == 1
    return content.replace(old.encode(), new.encode())


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("UNT+10+1'", "UNT+11+1'", "UNT counts 11 segments, but UNH 1 has 10"),
        ("UNT+10+1'", "UNT+10+2'", "UNT has the reference '2', but UNH has '1'"),
        ("UNT+10+1'", "UNT+1+1'", "UNT counts 1 segment, but UNH 1 has 10"),
        ("UNZ+2+7'", "UNZ+1+7'", "UNZ counts 1 part, but UNB 7 has 2"),
        ("UNZ+2+7'", "UNZ+3+7'", "UNZ counts 3 parts, but UNB 7 has 2"),
        ("UNZ+2+7'", "UNZ+2+8'", "UNZ has the reference '8', but UNB has '7'"),
        ("UNT+10+1'\n", "", "UNT is missing before UNH"),
        ("UNZ+2+7'\n", "", "the interchange is cut: its UNZ is missing"),
        ("UNZ+2+7'", "UNZ+2+7", "has no end"),
        ("UNH+2+", "LIN+2+", "LIN is outside of a message"),
        ("BGM+351+LS-2+9'", "\0\1'", "is not the name of a segment"),
        ("RFF+ON:1002'\n", "", "UNT counts 10 segments, but UNH 2 has 9"),
    ],
)
async def test_an_envelope_that_disagrees_holds_the_file(
    drop: Drop, old: str, new: str, reason: str
) -> None:
    second = despatch(shirt(), order="1002", document="LS-2")
    content = edifact(despatch(shirt()), second)
    assert reason in await held(drop, tampered(content, old, new))


async def test_a_file_without_its_end_waits_for_the_rest(drop: Drop) -> None:
    """Its last line has a line end, as a CSV file that is complete."""
    drop.options["incomplete_seconds"] = 60
    content = edifact(despatch(shirt()))
    drop.put("a.edi", content[: content.index(b"UNT")])
    connector = drop.connector()
    await connector.open()
    await drop.host.pull(connector)
    assert (drop.host.records, drop.files()) == ({}, {"a.edi"})
    drop.put("a.edi", content)
    await drop.host.pull(connector)
    assert len(drop.host.records) == 1


@pytest.mark.parametrize("mark", ["++++++1"])
async def test_a_test_is_held_unless_the_settings_allow_it(
    drop: Drop, mark: str
) -> None:
    content = edifact(despatch(shirt()), mark=mark)
    assert "is marked as a test" in await held(drop, content)
    drop.options["edi"] = {"test": True}
    assert len(await shipped(drop, content, "b.edi")) == 1


@pytest.mark.parametrize(
    ("setting", "whose"), [("own_id", "recipient"), ("partner_id", "sender")]
)
async def test_a_file_for_another_receiver_is_held(
    drop: Drop, setting: str, whose: str
) -> None:
    drop.options["edi"] = {setting: "4011111000009"}
    reason = await held(drop, edifact(despatch(shirt())))
    assert f"the {whose} of the interchange 7 is" in reason
    assert f"edi.{setting}" in reason


async def test_messages_of_a_kind_that_the_name_excludes_hold_the_file(
    drop: Drop,
) -> None:
    drop.options["stock_levels"] = "stock*.edi"
    content = (FILES / "invrpt-d01b.edi").read_bytes()
    reason = await held(drop, content)
    assert "does not match the pattern stock_levels; set stock_levels" in reason


async def test_most_lines_unusable_hold_the_file(drop: Drop) -> None:
    lines = [shirt(), shirt(sku="LS-M"), *([["QTY+12:1"]] * 3)]
    reason = await held(drop, edifact(despatch(*lines)))
    assert "3 of 5 rows cannot be used" in reason
    assert "UNH 1, LIN 3" in reason


async def test_an_unknown_charset_holds_the_file_and_names_the_setting(
    drop: Drop,
) -> None:
    content = edifact(despatch(shirt()), charset="UNOZ")
    assert "set encoding" in await held(drop, content)


async def test_stock_is_the_actual_one_at_the_time_of_the_report(drop: Drop) -> None:
    drop.options["same_sku"] = "sum"
    at = "2026-03-31T06:00:00Z"
    assert await counted(drop, (FILES / "invrpt-d01b.edi").read_bytes()) == {
        ("4006381333931", at): 300,
        ("4006381333948", at): 12,
    }
    (reason,) = drop.reasons()
    assert reason.startswith("UNH 1, LIN 3: the line has no quantity with one of")


def report(*lines: str, dates: tuple[str, ...] = ("DTM+137:202603310615:203",)) -> Any:
    return ["INVRPT:D:96A:UN", "BGM+35+I1+9", *dates, "LIN+1", "PIA+1+A:SA", *lines]


async def test_the_first_quantity_is_the_total_of_the_others(drop: Drop) -> None:
    lines = ["QTY+145:300", "QTY+145:150", "QTY+145:150"]
    assert list((await counted(drop, edifact(report(*lines)))).values()) == [300]


async def test_several_quantities_that_do_not_add_up_are_refused(drop: Drop) -> None:
    lines = ["QTY+145:300", "QTY+145:150"]
    assert await counted(drop, edifact(report(*lines))) == {}
    assert "several quantities (300, 150) without a place" in drop.reasons()[0]


async def test_a_filter_accepts_one_place(drop: Drop) -> None:
    drop.options["stock_level_rows"] = {"only": {"location": "WH2"}}
    lines = ["QTY+145:5", "LOC+18+WH1", "QTY+145:7", "LOC+18+WH2"]
    assert list((await counted(drop, edifact(report(*lines)))).values()) == [7]


@pytest.mark.parametrize(
    ("date", "at"),
    [
        ("DTM+366:20260331:102", "2026-03-30T22:00:00Z"),
        ("DTM+366:202603310600:203", "2026-03-31T04:00:00Z"),
        ("DTM+366:20260331060030:204", "2026-03-31T04:00:30Z"),
        ("DTM+366:202603310600?+01:303", "2026-03-31T05:00:00Z"),
        ("DTM+366:202603310600UTC:303", "2026-03-31T06:00:00Z"),
        ("DTM+366:260331:101", "2026-03-30T22:00:00Z"),
        ("DTM+179:202603310600:203", "2026-03-31T04:00:00Z"),
    ],
)
async def test_times_of_any_format_are_read_in_the_zone_of_the_settings(
    drop: Drop, date: str, at: str
) -> None:
    drop.options["timezone"] = "Europe/Berlin"
    content = edifact(report("QTY+145:5", dates=("DTM+137:202603310615:203", date)))
    assert list(await counted(drop, content)) == [("A", at)]


async def test_an_invalid_time_is_refused(drop: Drop) -> None:
    content = edifact(report("QTY+145:5", dates=("DTM+366:20261331:102",)))
    assert await counted(drop, content) == {}
    assert "as of" in drop.reasons()[0]


def test_a_marker_cannot_have_the_ending_of_an_edi_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must contain"):
        Settings.model_validate({"path": tmp_path, "done_file": "{name}.edi"})
