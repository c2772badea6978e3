"""How the end of an EDI file shows whether the file is complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul_connectors.file_drop.edi.syntax import has_trailer
from connectors.dropping import Drop
from connectors.interchanges import despatch, edifact, shirt
from connectors.test_file_drop_edi import shipped

if TYPE_CHECKING:
    from pathlib import Path

FIRST = edifact(despatch(shirt()))
SECOND = edifact(despatch(shirt(), order="1002", document="LS-2"), reference="8")
HEAD = b"UNB+UNOC:3+A+B+260331:1405+1'"


@pytest.fixture
def drop(tmp_path: Path) -> Drop:
    options = {"fulfillments": "*.edi", "incomplete_seconds": 60}
    return Drop(tmp_path, options)


@pytest.mark.parametrize(
    ("end", "is_whole"),
    [
        (b"UNZ+1+7'\nUNB+UNOC:3+40", False),
        (b"UNZ+1+7'UNB+UNOC:3+A+B+260331:1405+2'", False),
        (b"UNZ+1+7'UNZ", False),
        (b"UNZ+1+7'" + b" " * 70, True),
        (b"UNZ+1+7' \t\r\n\x1a", True),
    ],
)
def test_only_blanks_follow_the_last_segment(end: bytes, is_whole: bool) -> None:
    assert has_trailer(HEAD, end) is is_whole


async def test_a_second_interchange_that_is_being_written_waits(drop: Drop) -> None:
    drop.put("a.edi", FIRST + SECOND[:40])
    connector = drop.connector()
    await connector.open()
    await drop.host.pull(connector)
    assert (drop.host.records, drop.files()) == ({}, {"a.edi"})
    drop.put("a.edi", FIRST + SECOND)
    await drop.host.pull(connector)
    assert len(drop.host.records) == 2


@pytest.mark.parametrize("blank", [b" ", b"\n", b"\r\n"])
async def test_blanks_at_the_end_are_no_reason_to_wait(
    drop: Drop, blank: bytes
) -> None:
    assert len(await shipped(drop, FIRST + blank * 1_000)) == 1
