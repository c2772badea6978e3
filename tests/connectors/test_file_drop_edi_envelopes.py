"""Damaged, unfinished and unusual envelopes of EDI files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from connectors.dropping import Drop
from connectors.interchanges import FILES, despatch, edifact, shirt, x12
from connectors.test_file_drop_edi import held, shipped, tampered
from connectors.test_file_drop_edi_x12 import item, notice

if TYPE_CHECKING:
    from pathlib import Path

GOOD = edifact(despatch(shirt(), order="1002", document="LS-2"), reference="8")


@pytest.fixture
def drop(tmp_path: Path) -> Drop:
    return Drop(tmp_path, {"fulfillments": "*.edi", "stock_levels": "*.edi"})


@pytest.mark.parametrize("count", ["²", "9" * 5_000, "-10", "+10", "0xa", ""])
async def test_a_damaged_count_holds_its_file_and_no_other(
    drop: Drop, count: str
) -> None:
    """A count that is not a number raised: then no other file was read either."""
    content = edifact(despatch(shirt()))
    trailer = f"UNT+{count}+1'".encode("latin-1")
    drop.put("a.edi", content.replace(b"UNT+10+1'", trailer))
    assert [order for order, *_ in await shipped(drop, GOOD, "b.edi")] == ["1002"]
    assert {"held/a.edi", "archive/b.edi"} <= drop.files()


@pytest.mark.parametrize("reference", ["²", "9" * 5_000])
async def test_a_reference_that_is_not_a_number_is_compared_as_text(
    drop: Drop, reference: str
) -> None:
    content = edifact(despatch(shirt()), reference=reference)
    assert len(await shipped(drop, content)) == 1
    other = edifact(despatch(shirt()), reference=reference)
    other = other.replace(b"UNZ+1+", b"UNZ+1+1")
    drop.put("b.edi", other)
    await drop.pull()
    assert "held/b.edi" in drop.files()


@pytest.mark.parametrize("reference", ["00000000000123", "0000000123", "0123"])
async def test_zeros_before_a_reference_mean_nothing(
    drop: Drop, reference: str
) -> None:
    """Programs fill a reference with zeros, up to the 14 characters of UNB."""
    content = edifact(despatch(shirt()), reference=reference)
    content = tampered(content, f"UNZ+1+{reference}'", "UNZ+1+123'")
    assert len(await shipped(drop, content)) == 1


async def test_zeros_after_a_reference_are_a_part_of_it(drop: Drop) -> None:
    content = edifact(despatch(shirt()), reference="1230")
    assert "UNZ has the reference '123'" in await held(
        drop, tampered(content, "UNZ+1+1230'", "UNZ+1+123'")
    )


@pytest.mark.parametrize(
    ("start", "end"), [(167, 172), (165, 167)], ids=["reference", "type"]
)
async def test_bytes_that_are_not_text_in_an_envelope_hold_only_its_file(
    drop: Drop, start: int, end: int
) -> None:
    content = (FILES / "x12-846.edi").read_bytes()
    drop.put("a.edi", content[:start] + b"\x80" + content[end:])
    assert len(await shipped(drop, GOOD, "b.edi")) == 1
    assert "held/a.edi" in drop.files()


async def test_bytes_that_are_not_text_in_a_type_are_reported(drop: Drop) -> None:
    message = despatch(shirt())
    content = edifact(message, ["DESA\x80:D:96A:UN", "BGM+351+L"], charset="UNOA")
    assert len(await shipped(drop, content)) == 1
    (reason,) = drop.reasons()
    assert reason.startswith(r"UNH 2 is DESA\x80, and is not read")


ADVICE = ["945", "W06*F*1001*20260331*SH-1", "LX*1", "W12*CC*1*1**EA**VN*A"]
TA1 = b"TA1*000000001*260331*1405*A*000~\n"


async def test_an_acknowledgement_of_an_interchange_leaves_a_note(drop: Drop) -> None:
    content = tampered(
        x12(ADVICE), "GS*SH*", "TA1*000000001*260331*1405*A*000~\nGS*SH*"
    )
    drop.put("a.edi", content)
    notes = [note for batch in await drop.batches() for note in batch.notes]
    assert notes == ["a.edi: TA1 000000001 is an acknowledgement, and is not read"]
    await drop.pull()
    assert len(drop.records()) == 1


async def test_an_interchange_of_acknowledgements_only_says_so(drop: Drop) -> None:
    header = x12(ADVICE).partition(b"\n")[0]
    content = header + b"\n" + TA1 + b"IEA*0*000000905~\n"
    assert "it has TA1 (1)" in await held(drop, content)


async def test_a_file_with_an_interchange_of_acknowledgements_is_read(
    drop: Drop,
) -> None:
    content = x12(ADVICE)
    header = content.partition(b"\n")[0]
    only = header + b"\n" + TA1 + b"IEA*0*000000905~\n"
    assert len(await shipped(drop, only + content)) == 1


@pytest.mark.parametrize("mark", ["1", "2", "3", "4", "x"])
async def test_any_test_indicator_of_edifact_is_a_test(drop: Drop, mark: str) -> None:
    content = edifact(despatch(shirt()), mark=f"++++++{mark}")
    assert "is marked as a test" in await held(drop, content)


async def test_a_test_indicator_of_0_is_no_test(drop: Drop) -> None:
    assert len(await shipped(drop, edifact(despatch(shirt()), mark="++++++0"))) == 1


@pytest.mark.parametrize("usage", ["T", "I", "D", ""])
async def test_only_the_usage_p_of_x12_is_production(drop: Drop, usage: str) -> None:
    content = x12(notice(*item(3, 2)), usage=usage)
    assert "is marked as a test" in await held(drop, content)
