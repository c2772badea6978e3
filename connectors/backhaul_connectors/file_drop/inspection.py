"""Inspects a whole file before its first row is imported."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from msgspec import Struct

from backhaul_connectors.file_drop.completeness import check_end
from backhaul_connectors.file_drop.files import FileIncomplete, FileUnreadable
from backhaul_connectors.file_drop.format_detection import FileDigest
from backhaul_connectors.file_drop.layout import layout_of
from backhaul_connectors.file_drop.parsing import ArticleIndex
from backhaul_connectors.file_drop.table import Table
from backhaul_connectors.file_drop.totals import totals_note
from backhaul_sdk import Bad
from backhaul_sdk.files import in_thread, run_in_steps

if TYPE_CHECKING:
    from backhaul_connectors.file_drop.csv_reader import Position
    from backhaul_connectors.file_drop.files import (
        ImportedFile,
        ReadableFile,
        TemporaryCopies,
    )
    from backhaul_connectors.file_drop.settings import Settings


STEP_ROWS = 1_000
FEWEST_ROWS = 5
"""With fewer rows a share means little: one mistake in three rows is no broken
export."""
MOST_SHOWN = 20
NO_DATE = (
    "the file's modification time is not a valid date, so the time of the count is"
    " unknown; save the file again"
)


class UsableFile(Struct, frozen=True):
    """A file to import, from `start` to the last of its `rows`.

    `content` is the sha256 of its bytes alone. `notes` are for the log, and `bad` are
    messages about the file besides its rows.
    """

    table: Table
    content: str
    start: Position
    rows: int
    cells: str = ""
    notes: tuple[str, ...] = ()
    bad: tuple[Bad, ...] = ()
    left_out: int = 0
    """Rows that the filters leave out, and totals."""
    is_whole: bool = False
    """Whether every row of the file is usable, and is submitted now."""


class UnusableFile(Struct, frozen=True):
    """A file of which nothing is imported, with a short reason and `details`."""

    sha256: str
    reason: str
    details: tuple[str, ...] = ()
    known: ImportedFile | None = None
    """What was imported of it before it was changed."""
    can_apply: bool = False
    """Whether an operator may apply the file as it is."""


class InspectedFile(Struct, frozen=True):
    """A file that was read and understood, before anything of it is imported."""

    table: Table
    content: str
    cells: str = ""
    """The rows' content (`Table.cells_digest`), if rows have no key of their own."""

    @property
    def identity(self) -> str:
        return self.table.sha256


async def read_whole(
    file: ReadableFile, settings: Settings, copies: TemporaryCopies, *, is_sure: bool
) -> InspectedFile | UnusableFile:
    """Read the file and its header.

    If it cannot be read in place, one of `copies` is read. Raises FileChanged if the
    file is written to meanwhile, and FileIncomplete if it looks cut, unless `is_sure`.
    """
    if file.fingerprint.size > settings.max_file_mb * 1_000_000:
        return _too_large(file, settings)
    digest = FileDigest()
    while await in_thread(digest.step, file):
        pass
    if not is_sure:
        await in_thread(check_end, file)
    identity = identity_of(file, digest)
    try:
        readable, layout = await layout_of(file, digest, settings, copies)
    except FileUnreadable as error:
        return UnusableFile(identity, str(error))
    # The messages of an EDI file decide its kind.
    form, identity = readable.form, identity_of(readable, digest)
    dated = file.fingerprint.dated
    if dated is None and form.dated_by_file:
        return UnusableFile(identity, NO_DATE)
    is_list = form.article is not None
    table = Table(
        readable,
        identity,
        dated or "",
        layout,
        articles=ArticleIndex(adds_up=form.adds_up) if is_list else None,
        orders=copies.index_orders() if form.joins_rows else None,
    )
    by_place = not form.follows_content
    cells = await in_thread(table.cells_digest) if by_place else ""
    return InspectedFile(table, digest.sha256, cells)


def identity_of(file: ReadableFile, digest: FileDigest) -> str:
    """Return the identity of this content.

    If the file's time is part of the content, the same bytes with another time differ.
    """
    if not file.form.dated_by_file:
        return digest.sha256
    said = f"{digest.sha256} {file.fingerprint.modified_ns}"
    return hashlib.sha256(said.encode()).hexdigest()


def _too_large(file: ReadableFile, settings: Settings) -> UnusableFile:
    said = f"{file.name} {file.fingerprint.size} {file.fingerprint.modified_ns}"
    return UnusableFile(
        hashlib.sha256(said.encode()).hexdigest(),
        f"the file has more than {settings.max_file_mb} MB; see max_file_mb",
    )


class RowCounts(Struct):
    """Counts of usable and unusable rows so far."""

    bad: int = 0
    shown: list[Bad] = []
    ends_open: bool = False
    left_out: int = 0
    totals: list[int] = []
    """The lines of totals, which are among the rows left out."""


async def count(
    read: InspectedFile, row: int, settings: Settings, *, is_sure: bool
) -> UsableFile | UnusableFile:
    """Find where row number `row` begins, and how many rows can be used."""
    table = read.table
    position = start = table.layout.start
    tally = RowCounts()
    if table.orders is not None:
        table.orders.begin = row
    more = True
    while more:
        left = row - position.row
        step = min(left, STEP_ROWS) if left > 0 else STEP_ROWS
        judged = await in_thread(table.judge, position, step)
        position = judged.position
        verdicts = judged.verdicts
        unusable = [each.problem for each in verdicts if each.problem is not None]
        tally.left_out += sum(each.is_left_out for each in verdicts)
        tally.totals += [each.total_at for each in verdicts if each.total_at]
        tally.bad += len(unusable)
        tally.shown += unusable[: MOST_SHOWN - len(tally.shown)]
        tally.ends_open = judged.ends_open or tally.ends_open
        start = position if position.row <= row else start
        more = bool(verdicts)
    if table.orders is not None:
        await run_in_steps(table.orders.sort())
    wanted = position.row - tally.left_out
    if table.articles is not None:
        table.articles.begin = row
        await in_thread(_judge_articles, table, table.articles, tally, wanted)
    if not is_sure:
        _check_rows(tally, position.row)
    if _is_too_bad(tally.bad, wanted, settings.max_bad_share):
        return _too_bad(table, tally, wanted, row)
    notes = table.articles.notes() if table.articles else ()
    notes = (*_notes(table, tally, position.row), *notes)
    is_whole = tally.bad == 0 and start.row == 0
    is_whole = is_whole and not (table.layout.edi and table.layout.edi.unread)
    return UsableFile(
        table,
        read.content,
        start,
        position.row,
        read.cells,
        notes=notes,
        bad=table.layout.edi.unread if table.layout.edi else (),
        left_out=tally.left_out,
        is_whole=is_whole,
    )


def _notes(table: Table, tally: RowCounts, rows: int) -> tuple[str, ...]:
    notes = [totals_note(table.file.name, tally.totals)] if tally.totals else []
    if filtered := tally.left_out - len(tally.totals):
        left = f"{filtered} of {rows} rows are left out"
        notes.append(f"{table.file.name}: {left} by {table.file.form.rows_setting}")
    if table.layout.edi is not None:
        notes += table.layout.edi.notes
    return tuple(notes)


def _judge_articles(
    table: Table, articles: ArticleIndex, tally: RowCounts, rows: int
) -> None:
    """Count contradicting rows, and those below 0 if most rows are."""
    articles.finish()
    refused = articles.refused()
    tally.bad += len(refused)
    for each in refused[: MOST_SHOWN - len(tally.shown)]:
        locator = f"{table.file.name}:{each.line}"
        tally.shown.append(Bad(key="", raw="", reason=each.reason, locator=locator))
    if articles.below_zero * 2 > rows:
        tally.bad += articles.below_zero
        said = (
            f"{articles.below_zero} of {rows} rows are below 0, as in a file of changes"
        )
        told = Bad(key="", raw="", reason=said, locator=table.file.name)
        tally.shown.insert(0, told)
    tally.bad = min(tally.bad, rows)


def _check_rows(tally: RowCounts, rows: int) -> None:
    """Raise FileIncomplete if the writer may have stopped within the rows."""
    if tally.ends_open:
        raise FileIncomplete(
            "the file ends inside a quoted text: a closing quotation mark is missing"
        )
    if rows == 0:
        raise FileIncomplete("the file has no rows yet")


def _is_too_bad(bad: int, rows: int, most: float) -> bool:
    return rows >= FEWEST_ROWS and bad > most * rows


def _too_bad(table: Table, tally: RowCounts, rows: int, taken: int) -> UnusableFile:
    before = f"; its first {taken} rows were taken earlier" if taken else ""
    details = tuple(f"{each.locator} {each.reason}" for each in tally.shown)
    reason = (
        f"{tally.bad} of {rows} rows cannot be used, so Backhaul took none of"
        f" them{before}. The first problem: {details[0]}"
    )
    return UnusableFile(table.sha256, reason, details)
