"""X12 files in a drop folder: ship notices, shipping advices and inventory advices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from connectors.dropping import Drop
from connectors.interchanges import FILES, x12
from connectors.test_file_drop_edi import counted, held, shipped

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def drop(tmp_path: Path) -> Drop:
    return Drop(tmp_path, {"fulfillments": "*.edi", "stock_levels": "*.edi"})


def notice(*segments: str, order: str = "1001") -> list[str]:
    """Return an 856 with a shipment and an order; `segments` follow."""
    shipment = ["BSN*00*SH-1*20260331*1405", "HL*1**S", "TD5**2*UPSN**UPS Ground"]
    return ["856", *shipment, "HL*2*1*O", f"PRF*{order}", *segments]


def item(number: int, parent: int, sku: str = "LS-S", units: str = "2*EA") -> list[str]:
    return [f"HL*{number}*{parent}*I", f"LIN**SK*{sku}", f"SN1**{units}"]


async def test_each_pack_of_a_ship_notice_is_shipped(drop: Drop) -> None:
    content = (FILES / "x12-856.edi").read_bytes()
    assert await shipped(drop, content) == [
        ("1001", "UPS Ground", "1Z999AA10000000001", {"LS-S": 2}),
        ("1001", "UPS Ground", "1Z999AA10000000002", {"LS-M": 1}),
    ]
    # The line without units is left out, not refused.
    assert drop.reasons() == []
    (record, _) = drop.records()
    assert getattr(record, "shipped_at", "") == "2026-03-31T13:30:00Z"


async def test_packs_inside_of_an_item_are_its_parcel(drop: Drop) -> None:
    """The structure SOIP: pick and pack has it the other way round."""
    segments = [*item(3, 2), "HL*4*3*P", "MAN*CP*1Z1", *item(5, 2, "LS-M", "1*EA")]
    assert await shipped(drop, x12(notice(*segments, "HL*6*5*P", "MAN*CP*1Z2"))) == [
        ("1001", "UPS Ground", "1Z1", {"LS-S": 2}),
        ("1001", "UPS Ground", "1Z2", {"LS-M": 1}),
    ]


async def test_items_without_a_pack_are_one_parcel_of_the_shipment(drop: Drop) -> None:
    segments = [*item(3, 2), *item(4, 2, "LS-M", "1*EA")]
    message = notice(*segments)
    message.insert(4, "REF*2I*1Z9")
    assert await shipped(drop, x12(message)) == [
        ("1001", "UPS Ground", "1Z9", {"LS-S": 2, "LS-M": 1})
    ]


async def test_several_orders_of_a_shipment_are_shipped_each(drop: Drop) -> None:
    segments = [*item(3, 2), "HL*4*1*O", "PRF*1002", *item(5, 4, "LS-M", "1*EA")]
    found = await shipped(drop, x12(notice(*segments)))
    assert [(order, units) for order, _, _, units in found] == [
        ("1001", {"LS-S": 2}),
        ("1002", {"LS-M": 1}),
    ]


async def test_a_pallet_has_the_number_of_its_packs(drop: Drop) -> None:
    tare = ["HL*3*2*T", "MAN*GM*00340123450000000017", "HL*4*3*P", *item(5, 4)]
    ((_, _, number, _),) = await shipped(drop, x12(notice(*tare)))
    assert number == "00340123450000000017"


async def test_a_shipping_advice_ships_the_depositors_order(drop: Drop) -> None:
    content = (FILES / "x12-945.edi").read_bytes()
    assert await shipped(drop, content) == [
        ("1001", "UPS Ground", "1Z999AA10000000009", {"LS-S": 2, "123456789012": 1})
    ]


async def test_an_inventory_advice_counts_units_for_sale(drop: Drop) -> None:
    at = "2026-03-31T06:00:00Z"
    content = (FILES / "x12-846.edi").read_bytes()
    assert await counted(drop, content) == {("LS-S", at): 120, ("LS-M", at): 0}


async def test_the_settings_choose_the_quantity(drop: Drop) -> None:
    drop.options["edi"] = {"stock_codes": ["17"]}
    content = (FILES / "x12-846.edi").read_bytes()
    at = "2026-03-31T06:00:00Z"
    assert await counted(drop, content) == {("LS-S", at): 130}
    assert drop.reasons()[0].startswith("ST 0001, LIN 2: the item has no quantity")


@pytest.mark.parametrize(
    ("segments", "reason"),
    [
        (item(3, 2, units="2*CA"), "ST 0001, HL 3: the quantity 2 is in the unit CA"),
        (item(3, 2, units="two*EA"), "quantity must be a whole number"),
        (["HL*3*2*I", "SN1**2*EA"], "no article number with one of the codes SK"),
        (["HL*3*2*I", "LIN**SK*A", "SN1"], "no number of shipped units"),
    ],
)
async def test_an_item_that_cannot_be_used_is_refused_and_the_others_go_on(
    drop: Drop, segments: list[str], reason: str
) -> None:
    message = notice(*segments, *item(4, 2, "LS-M"))
    assert [units for *_, units in await shipped(drop, x12(message))] == [{"LS-M": 2}]
    assert reason in drop.reasons()[0]


async def test_an_item_of_an_order_without_a_number_is_refused(drop: Drop) -> None:
    message = notice(*item(3, 2))
    message.remove("PRF*1001")
    assert await shipped(drop, x12(message)) == []
    assert "nothing names the order: expected one of the codes PRF" in drop.reasons()[0]


NESTED = {
    "item": item(4, 3, "PART", "4*EA"),
    "item of an item": ["HL*4*3*I", "LIN**SK*B", *item(5, 4, "PART")],
    "item in a pack of an item": ["HL*4*3*P", "MAN*CP*T1", *item(5, 4, "PART")],
}


@pytest.mark.parametrize("segments", NESTED.values(), ids=NESTED)
async def test_an_item_inside_of_an_item_is_refused_and_the_others_go_on(
    drop: Drop, segments: list[str]
) -> None:
    """It can be a part of a set, which is shipped as one item."""
    message = notice(*item(3, 2), *segments, *item(6, 2, "LS-M"))
    found = [units for *_, units in await shipped(drop, x12(message))]
    assert sorted(sku for units in found for sku in units) == ["LS-M", "LS-S"]
    (reason,) = drop.reasons()
    assert "the item is inside of the item HL 3, so Backhaul does not know" in reason
    (bad,) = drop.host.bad.values()
    assert "1001" in bad.raw


@pytest.mark.parametrize(
    ("level", "reason"),
    [
        ("HL*4**I", "HL 4 has no HL02, so Backhaul does not know which level"),
        ("HL*4*9*I", "HL 4 is inside of HL 9 by its HL02, and this is not an earlier"),
        ("HL*4*4*I", "HL 4 is inside of HL 4 by its HL02, and this is not an earlier"),
    ],
)
async def test_an_item_of_no_level_is_refused_with_the_place_of_the_fault(
    drop: Drop, level: str, reason: str
) -> None:
    inside = ["HL*5*4*P", "MAN*CP*T1", *item(6, 2, "LS-M")]
    message = notice(*item(3, 2), level, "LIN**SK*A", "SN1**1*EA", *inside)
    found = [units for *_, units in await shipped(drop, x12(message))]
    assert found == [{"LS-S": 2, "LS-M": 2}]
    assert f"ST 0001, HL 4: nothing names the order: {reason}" in drop.reasons()[0]


async def test_a_pack_of_no_level_is_named_in_the_reason_of_its_items(
    drop: Drop,
) -> None:
    message = notice("HL*3**P", *item(4, 3), *item(5, 2, "LS-M"))
    assert len(await shipped(drop, x12(message))) == 1
    assert "HL 4: nothing names the order: HL 3 has no HL02" in drop.reasons()[0]


async def test_an_item_without_the_number_of_a_level_contains_no_pack(
    drop: Drop,
) -> None:
    segments = ["HL**2*I", "LIN**SK*LS-S", "SN1**2*EA", "HL*4**P", "MAN*CP*T9"]
    found = await shipped(drop, x12(notice(*segments)))
    assert [(number, units) for _, _, number, units in found] == [(None, {"LS-S": 2})]


async def test_a_notice_that_cancels_ships_nothing(drop: Drop) -> None:
    message = notice(*item(3, 2))
    message[1] = "BSN*01*SH-1*20260331*1405"
    assert await shipped(drop, x12(message)) == []
    assert "cancels shipment SH-1" in drop.reasons()[0]


async def test_a_notice_without_an_item_never_ships_the_whole_order(
    drop: Drop,
) -> None:
    assert await shipped(drop, x12(notice())) == []
    assert "the message has no line or item" in drop.reasons()[0]


FORMS: list[dict[str, Any]] = [
    {"ending": ""},
    {"ending": "\r\n"},
    {"terminator": "\n", "ending": ""},
    {"terminator": "\r", "ending": "\n"},
    {"terminator": "\x1c", "element": "\x1d", "component": "\x1f", "ending": ""},
    {"terminator": "'", "element": "|", "component": ":", "ending": ""},
]


@pytest.mark.parametrize("form", FORMS, ids=repr)
async def test_the_header_declares_the_delimiters(
    drop: Drop, form: dict[str, Any]
) -> None:
    content = x12(notice(*item(3, 2)), **form)
    assert [units for *_, units in await shipped(drop, content)] == [{"LS-S": 2}]


async def test_lines_that_are_broken_at_80_characters_are_joined(drop: Drop) -> None:
    plain = x12(notice(*item(3, 2, sku="A" * 90)), ending="")
    broken = b"\n".join(plain[at : at + 80] for at in range(0, len(plain), 80))
    ((*_, units),) = await shipped(drop, broken)
    assert units == {"A" * 90: 2}


async def test_a_header_without_its_blanks_is_read(drop: Drop) -> None:
    content = x12(notice(*item(3, 2)))
    short = b"*".join(part.strip(b" ") for part in content.split(b"*"))
    assert len(await shipped(drop, short)) == 1


async def test_two_interchanges_of_one_file_are_read(drop: Drop) -> None:
    first = x12(notice(*item(3, 2)))
    second = x12(notice(*item(3, 2), order="1002"))
    second = second.replace(b"SH-1", b"SH-2")
    assert [order for order, *_ in await shipped(drop, first + second)] == [
        "1001",
        "1002",
    ]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("SE*10*", "SE*11*", "SE counts 11 segments, but ST 0001 has 10"),
        ("SE*10*0001", "SE*10*0002", "SE has the reference '0002', but ST has '0001'"),
        ("GE*1*905", "GE*2*905", "GE counts 2 parts, but GS 905 has 1"),
        ("GE*1*905", "GE*1*906", "GE has the reference '906', but GS has '905'"),
        ("IEA*1*", "IEA*2*", "IEA counts 2 parts, but ISA 000000905 has 1"),
        ("000000905~\n", "000000906~\n", "IEA has the reference '000000906'"),
        ("IEA*1*000000905~\n", "", "the interchange is cut: its IEA is missing"),
        ("GE*1*905~\n", "", "IEA is outside of a message"),
    ],
)
async def test_an_envelope_that_disagrees_holds_the_file(
    drop: Drop, old: str, new: str, reason: str
) -> None:
    content = x12(notice(*item(3, 2)))
    assert old.encode() in content
    assert reason in await held(drop, content.replace(old.encode(), new.encode()))


async def test_a_test_is_held(drop: Drop) -> None:
    content = x12(notice(*item(3, 2)), usage="T")
    assert "is marked as a test" in await held(drop, content)


async def test_a_file_with_no_message_that_is_read_is_held(drop: Drop) -> None:
    content = x12(["850", "BEG*00*NE*1"])
    assert "has no message that Backhaul reads" in await held(drop, content)


@pytest.mark.parametrize("mark", ["MAN*UC*10012345678902", "REF*IA*4711"])
async def test_the_article_number_of_a_carton_is_no_tracking_number(
    drop: Drop, mark: str
) -> None:
    """UC is the article number of a carton, IA the number of the vendor."""
    segments = ["HL*3*2*P", mark, *item(4, 3)]
    ((_, _, number, _),) = await shipped(drop, x12(notice(*segments)))
    assert number is None


async def test_the_number_of_the_vendor_is_not_the_order(drop: Drop) -> None:
    message = notice("REF*IA*4711", *item(3, 2))
    message.remove("PRF*1001")
    assert await shipped(drop, x12(message)) == []
    assert "nothing names the order" in drop.reasons()[0]
