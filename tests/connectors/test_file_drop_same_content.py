"""A file of stock changes whose content was imported before, under any name."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from backhaul_connectors.file_drop.already_imported import parsed_key
from backhaul_connectors.file_drop.files import (
    MOST_REMEMBERED,
    FileCursor,
    ImportedFile,
)
from backhaul_sdk import Rejection, StockAdjustment
from connectors.dropping import FULFILLMENTS, STOCK_DELTAS, Drop
from scenes.sshd import Sshd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backhaul_sdk import Batch

MONDAY, TUESDAY = "stock-deltas-mon.csv", "stock-deltas-tue.csv"
WRITE_OFF = f"{STOCK_DELTAS}A,-1,DAMAGED\nB,-2,DAMAGED\nC,-1,DAMAGED\n"


@pytest.fixture(
    params=["folder", pytest.param("sftp", marks=pytest.mark.programs)], name="drop"
)
def drop_here_or_there(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Drop]:
    if request.param == "folder":
        yield Drop(tmp_path)
        return
    server = Sshd(tmp_path_factory.mktemp("sshd"))
    server.start()
    yield Drop(tmp_path, dict(server.settings()))
    server.kill()


def total(drop: Drop) -> int:
    return sum(r.delta for r in drop.records() if isinstance(r, StockAdjustment))


async def take(drop: Drop, name: str, content: str = WRITE_OFF) -> list[str]:
    """Take a file; return the notes of its batches."""
    path = drop.put(name, content)
    # Servers tell times in whole seconds.
    drop.seconds += 1
    os.utime(path, (drop.seconds, drop.seconds))
    connector = drop.connector()
    await connector.open()
    notes: list[str] = []
    async for batch in connector.pull(drop.host.cursor):
        drop.host.commit(batch)
        await batch.ack()
        notes += batch.notes
    await connector.close()
    return notes


async def apply(drop: Drop, key: str) -> None:
    connector = drop.connector()
    await connector.open()
    await drop.host.apply(connector, key)
    await connector.close()


async def test_the_same_content_under_another_name_is_held_for_an_operator(
    drop: Drop,
) -> None:
    await take(drop, MONDAY)
    await take(drop, TUESDAY)
    assert total(drop) == -4
    (bad,) = drop.host.bad.values()
    assert bad.can_apply
    assert f"{TUESDAY} was moved to held/: its content equals that of" in bad.reason
    assert f"{MONDAY}, taken at 20" in bad.reason
    assert "backhaul quarantine retry" in bad.reason
    assert f"held/{TUESDAY}" in drop.files()


async def test_an_applied_file_counts_once_however_often_it_is_tried(
    drop: Drop,
) -> None:
    drop.options["batch_rows"] = 1
    await take(drop, MONDAY)
    await take(drop, TUESDAY)
    (key,) = drop.host.bad
    cursor = drop.host.cursor
    killed = drop.connector()
    await killed.open()
    bad = drop.host.bad[key]
    batches = await batches_of(drop, key)
    drop.host.commit(batches[0])
    assert total(drop) == -5
    await killed.close()
    await apply(drop, key)
    assert (total(drop), len(drop.records())) == (-8, 6)
    assert f"archive/{TUESDAY}" in drop.files()
    assert not any(name.startswith("held/") for name in drop.files())
    drop.host.cursor = cursor  # as after a kill between the last commit and the mark
    drop.host.bad[key] = bad
    await apply(drop, key)
    assert (total(drop), len(drop.records())) == (-8, 6)


async def batches_of(drop: Drop, key: str) -> list[Batch]:
    """Return what would be applied, without storing or acknowledging it."""
    bad = drop.host.bad[key]
    connector = drop.connector()
    await connector.open()
    wanted = Rejection(bad.key, bad.raw, bad.reason, bad.locator)
    found = [batch async for batch in connector.apply(wanted, drop.host.cursor)]
    await connector.close()
    return found


async def test_a_third_name_after_an_applied_one_is_held_too(drop: Drop) -> None:
    await take(drop, MONDAY)
    await take(drop, TUESDAY)
    await apply(drop, next(iter(drop.host.bad)))
    await take(drop, "stock-deltas-wed.csv")
    assert (total(drop), len(drop.host.bad)) == (-8, 2)


async def test_a_file_removed_from_held_is_reported(drop: Drop) -> None:
    await take(drop, MONDAY)
    await take(drop, TUESDAY)
    (drop.path / "held" / TUESDAY).unlink()
    await apply(drop, next(iter(drop.host.bad)))
    assert total(drop) == -4
    assert "no file in held/ has its content" in drop.reasons()[-1]


async def test_the_same_name_again_is_one_event_and_is_noted(drop: Drop) -> None:
    assert await take(drop, MONDAY) == []
    (note,) = await take(drop, MONDAY)
    assert f"{MONDAY} arrived again with the same content, taken at 20" in note
    assert "its 3 rows as the same event" in note
    assert (total(drop), drop.host.bad) == (-4, {})


async def test_a_file_that_a_kill_left_behind_is_not_said_to_come_again(
    tmp_path: Path,
) -> None:
    drop = Drop(tmp_path)
    drop.put(MONDAY, WRITE_OFF)
    (batch,) = await drop.batches()
    drop.host.commit(batch)  # and no `ack`
    (again,) = await drop.batches()
    assert (list(again.records), list(again.notes)) == ([], [])


@pytest.mark.parametrize(("same_content", "expected"), [("apply", -8), ("ignore", -4)])
async def test_a_setting_decides_for_all(
    drop: Drop, same_content: str, expected: int
) -> None:
    drop.options["same_content"] = same_content
    await take(drop, MONDAY)
    notes = await take(drop, TUESDAY)
    assert (total(drop), drop.host.bad) == (expected, {})
    assert f"archive/{TUESDAY}" in drop.files()
    assert ["is skipped" in note for note in notes] == [True][: expected == -4]
    await take(drop, TUESDAY)
    assert total(drop) == expected


async def test_key_columns_decide_where_there_are_any(tmp_path: Path) -> None:
    drop = Drop(tmp_path, {"key_columns": ["no"]})
    content = f"no,{STOCK_DELTAS}1,A,-1,\n2,B,-1,\n"
    await take(drop, MONDAY, content)
    await take(drop, TUESDAY, content)
    assert (total(drop), drop.host.bad) == (-2, {})


async def test_shipments_are_recognized_by_their_rows(tmp_path: Path) -> None:
    drop = Drop(tmp_path)
    for name in ("fulfillments-1.csv", "fulfillments-2.csv"):
        await take(drop, name, f"{FULFILLMENTS}1001,DHL,A\n")
    assert (len(drop.records()), drop.host.bad) == (1, {})


async def test_content_is_known_long_after_its_name_is_removed(
    tmp_path: Path,
) -> None:
    drop = Drop(tmp_path)
    await take(drop, MONDAY)
    for number in range(MOST_REMEMBERED + 5):
        drop.put(f"stock-deltas-{number}.csv", f"{STOCK_DELTAS}N{number},1,\n")
    await drop.pull()
    before = total(drop)
    await take(drop, TUESDAY)
    await take(drop, MONDAY)
    assert total(drop) == before
    assert ["a file that was imported earlier" in r for r in drop.reasons()] == [
        True
    ] * 2


async def test_a_name_that_alternates_between_contents_is_held(tmp_path: Path) -> None:
    drop = Drop(tmp_path)
    await take(drop, MONDAY)
    await take(drop, MONDAY, f"{STOCK_DELTAS}D,-1,\n")
    await take(drop, MONDAY)
    assert total(drop) == -5
    assert len(drop.host.bad) == 1


def test_a_cursor_keeps_the_contents_it_knows() -> None:
    cursor = FileCursor().followed_by(ImportedFile(name="a", sha256="ab" * 32))
    cursor = cursor.followed_by(ImportedFile(name="b", sha256="cd" * 32))
    back = FileCursor.from_text(cursor.to_text())
    assert back == cursor
    assert back.has_content("ab" * 32)
    assert not back.has_content("ba" * 32)  # not at another place


def test_a_key_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="bad:1"):
        parsed_key("bad:1:2:3")


ROWS = [line.split(",") for line in WRITE_OFF.splitlines()]
WRITTEN = {
    "line ends": WRITE_OFF.replace("\n", "\r\n"),
    "mark": f"\ufeff{WRITE_OFF}",
    "no last line end": WRITE_OFF.rstrip("\n"),
    "blank rows": WRITE_OFF.replace("\nB", "\n\n,,\nB") + "\n",
    "delimiter": WRITE_OFF.replace(",", ";"),
    "sep": "sep=;\n" + WRITE_OFF.replace(",", ";"),
    "quotation marks": "".join(
        ",".join(f'"{cell}"' for cell in row) + "\n" for row in ROWS
    ),
    "blanks": WRITE_OFF.replace(",", " , "),
    "empty cells": WRITE_OFF.replace("\n", ",,\n"),
    "title": f"Write-offs\n{WRITE_OFF}",
    "names": WRITE_OFF.replace("sku", "SKU").replace("reason", "Reason"),
}
"""The same rows as programs save them again."""


@pytest.mark.parametrize("content", WRITTEN.values(), ids=list(WRITTEN))
async def test_the_same_rows_written_in_another_way_are_the_same(
    content: str, tmp_path: Path
) -> None:
    drop = Drop(tmp_path)
    await take(drop, MONDAY)
    await take(drop, MONDAY, content)
    assert (total(drop), drop.reasons()) == (-4, [])
    await take(drop, TUESDAY, content)
    assert total(drop) == -4
    (reason,) = drop.reasons()
    assert f"{TUESDAY} was moved to held/: its content equals that of" in reason
    (key,) = drop.host.bad
    await apply(drop, key)
    assert total(drop) == -8


async def test_the_same_rows_in_another_format_are_the_same(tmp_path: Path) -> None:
    drop = Drop(tmp_path)
    await take(drop, MONDAY)
    names = ROWS[0]
    objects = [dict(zip(names, row, strict=True)) for row in ROWS[1:]]
    lines = "".join(json.dumps(each) + "\n" for each in objects)
    await take(drop, "stock-deltas-tue.jsonl", lines)
    assert (total(drop), len(drop.reasons())) == (-4, 1)


@pytest.mark.parametrize(
    "content",
    [
        WRITE_OFF.replace("C,-1", "C,-2"),
        WRITE_OFF.replace("reason", "reason,at").replace("DAMAGED", "DAMAGED,10:01"),
    ],
    ids=["another number", "a column that tells them apart"],
)
async def test_other_rows_of_another_name_are_another_event(
    content: str, tmp_path: Path
) -> None:
    drop = Drop(tmp_path)
    await take(drop, MONDAY)
    await take(drop, TUESDAY, content)
    assert (len(drop.records()), drop.reasons()) == (6, [])


async def test_files_without_rows_are_no_question(tmp_path: Path) -> None:
    drop = Drop(tmp_path)
    for name in (MONDAY, TUESDAY):
        await take(drop, name, STOCK_DELTAS)
    assert drop.reasons() == []
