"""Judges a file before any of its rows is taken: where to begin, or to hold it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from backhaul_connectors.file_drop.reading import (
    Digest,
    Table,
    Unreadable,
    layout_of,
)
from backhaul_connectors.file_drop.waiting import in_thread
from backhaul_sdk import Bad

if TYPE_CHECKING:
    from backhaul_connectors.file_drop.csv_rows import Position
    from backhaul_connectors.file_drop.cursor import Cursor
    from backhaul_connectors.file_drop.folder import Found
    from backhaul_connectors.file_drop.settings import Settings

STEP_ROWS = 1_000
FEWEST_ROWS = 5
"""Below this a share says little: one slip in three rows is no broken export."""
MOST_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Sound:
    """A file to take, from `start` to the last of its `rows`."""

    table: Table
    start: Position
    rows: int


@dataclass(frozen=True, slots=True)
class Unsound:
    """A file of which nothing is taken: `reason` is a line, `details` are more."""

    sha256: str
    reason: str
    details: tuple[str, ...] = ()


async def judge(file: Found, cursor: Cursor, settings: Settings) -> Sound | Unsound:
    """Read the whole file once. Raises Changed when it is written to meanwhile."""
    digest = Digest()
    while await in_thread(digest.step, file):
        pass
    try:
        layout = await in_thread(layout_of, file, digest, settings)
    except Unreadable as error:
        return Unsound(digest.sha256, str(error))
    table = Table(file, digest.sha256, layout)
    row = await in_thread(_first_row, file, digest.sha256, cursor)
    if row is None:
        return Unsound(digest.sha256, _changed(cursor))
    return await _count(table, row, settings)


def _first_row(file: Found, sha256: str, cursor: Cursor) -> int | None:
    """Return how many rows were taken before, or None if only a person can say."""
    if cursor.sha256 == sha256:
        return cursor.row
    if cursor.name != file.name:
        return 0
    beginning = _beginning(file, cursor.size)
    began_as = hashlib.sha256(beginning).hexdigest()
    has_grown = began_as == cursor.sha256
    # Without a line end the last row taken may have been half of one.
    if has_grown and beginning.endswith((b"\n", b"\r")):
        return cursor.row
    if file.form.follows_content:
        return 0
    return None if has_grown or cursor.is_partial else 0


def _beginning(file: Found, size: int) -> bytes:
    with file.open() as stream:
        return stream.read(size)


def _changed(cursor: Cursor) -> str:
    return (
        f"the file was changed after its first {cursor.row} rows were taken; drop a "
        "file with the missing stock changes only"
    )


async def _count(table: Table, row: int, settings: Settings) -> Sound | Unsound:
    """Find where row number `row` begins, and how many rows can be used."""
    position = start = table.layout.start
    bad: list[Bad] = []
    number_of_bad = 0
    more = True
    while more:
        left = row - position.row
        step = min(left, STEP_ROWS) if left > 0 else STEP_ROWS
        records, position = await in_thread(table.read, position, step)
        unusable = [record for record in records if isinstance(record, Bad)]
        number_of_bad += len(unusable)
        bad += unusable[: MOST_SHOWN - len(bad)]
        start = position if position.row <= row else start
        more = bool(records)
    if _is_too_bad(number_of_bad, position.row, settings.max_bad_share):
        return _too_bad(table, bad, number_of_bad, position.row, row)
    return Sound(table, start, position.row)


def _is_too_bad(bad: int, rows: int, most: float) -> bool:
    return rows >= FEWEST_ROWS and bad > most * rows


def _too_bad(
    table: Table, bad: list[Bad], count: int, rows: int, taken: int
) -> Unsound:
    before = f"; its first {taken} rows were taken earlier" if taken else ""
    details = tuple(f"{each.locator} {each.reason}" for each in bad)
    reason = (
        f"{count} of {rows} rows cannot be used, so none was taken{before}; the first: "
        f"{details[0]}"
    )
    return Unsound(table.sha256, reason, details)
