"""Judges a file before any of its rows is taken: where to begin, or to hold it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from msgspec import Struct

from backhaul_connectors.file_drop.found import Unreadable
from backhaul_connectors.file_drop.reading import Digest, Table
from backhaul_connectors.file_drop.understanding import understand
from backhaul_connectors.file_drop.waiting import in_thread

if TYPE_CHECKING:
    from backhaul_connectors.file_drop.copies import Copies
    from backhaul_connectors.file_drop.csv_rows import Position
    from backhaul_connectors.file_drop.cursor import Cursor, Taken
    from backhaul_connectors.file_drop.found import Source
    from backhaul_connectors.file_drop.settings import Settings
    from backhaul_sdk import Bad

STEP_ROWS = 1_000
FEWEST_ROWS = 5
"""Below this a share says little: one slip in three rows is no broken export."""
MOST_SHOWN = 20
NO_DATE = (
    "the file's own time lies outside of the calendar, so nobody can tell when this "
    "was counted: save the file again"
)


class Sound(Struct, frozen=True):
    """A file to take, from `start` to the last of its `rows`."""

    table: Table
    start: Position
    rows: int


class Unsound(Struct, frozen=True):
    """A file of which nothing is taken: `reason` is a line, `details` are more."""

    sha256: str
    reason: str
    details: tuple[str, ...] = ()
    known: Taken | None = None
    """What was taken of it before it was changed."""


async def judge(
    file: Source, cursor: Cursor, settings: Settings, copies: Copies
) -> Sound | Unsound:
    """Read the whole file once. Raises Changed when it is written to meanwhile.

    Where it cannot be read in place, what is read is one of `copies`.
    """
    if file.fingerprint.size > settings.max_file_mb * 1_000_000:
        return _too_large(file, settings)
    digest = Digest()
    while await in_thread(digest.step, file):
        pass
    identity = identity_of(file, digest)
    try:
        readable, layout = await understand(file, digest, settings, copies)
    except Unreadable as error:
        return Unsound(identity, str(error))
    dated = file.fingerprint.dated
    if dated is None and file.form.dated_by_file:
        return Unsound(identity, NO_DATE)
    table = Table(readable, identity, dated or "", layout)
    known = cursor.of(file.name, identity)
    row = await in_thread(_first_row, file, identity, known)
    if row is None:
        return Unsound(identity, _changed(known), known=known)
    return await _count(table, row, settings)


def identity_of(file: Source, digest: Digest) -> str:
    """Return what tells this content from another.

    Where the file's time is part of what it says, the same bytes written again say
    something else.
    """
    if not file.form.dated_by_file:
        return digest.sha256
    said = f"{digest.sha256} {file.fingerprint.modified_ns}"
    return hashlib.sha256(said.encode()).hexdigest()


def _too_large(file: Source, settings: Settings) -> Unsound:
    said = f"{file.name} {file.fingerprint.size} {file.fingerprint.modified_ns}"
    return Unsound(
        hashlib.sha256(said.encode()).hexdigest(),
        f"the file has more than {settings.max_file_mb} MB; see max_file_mb",
    )


def _first_row(file: Source, sha256: str, known: Taken) -> int | None:
    """Return how many rows were taken before, or None if only a person can say."""
    if known.sha256 == sha256 and not known.is_held:
        return known.row
    beginning = _beginning(file, known.size)
    began_as = hashlib.sha256(beginning).hexdigest()
    has_grown = began_as == known.sha256
    # Without a line end the last row taken may have been half of one.
    if has_grown and beginning.endswith((b"\n", b"\r")) and not known.is_held:
        return known.row
    if file.form.follows_content:
        return 0
    return None if has_grown or known.is_partial else 0


def _beginning(file: Source, size: int) -> bytes:
    with file.open() as stream:
        return stream.read(size)


def _changed(known: Taken) -> str:
    return (
        f"the file was changed after its first {known.row} rows were taken; drop a "
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
        judged, position = await in_thread(table.judge, position, step)
        unusable = [problem for problem in judged if problem is not None]
        number_of_bad += len(unusable)
        bad += unusable[: MOST_SHOWN - len(bad)]
        start = position if position.row <= row else start
        more = bool(judged)
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
