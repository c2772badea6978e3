"""Inspects a whole file before its first row is imported."""

from __future__ import annotations

import codecs
import hashlib
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from backhaul_connectors.file_drop.completeness import JSON, check_end
from backhaul_connectors.file_drop.files import FileCopy, FileIncomplete, FileUnreadable
from backhaul_connectors.file_drop.format_detection import (
    READ_IN_PLACE,
    check_format,
    encoding_of,
)
from backhaul_connectors.file_drop.header import json_layout_of, layout_of
from backhaul_connectors.file_drop.json_reader import is_array, spread_array
from backhaul_connectors.file_drop.stock_list import ArticleIndex
from backhaul_connectors.file_drop.table_reader import FileDigest, Table
from backhaul_sdk import Bad
from backhaul_sdk.files import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import BinaryIO

    from backhaul_connectors.file_drop.csv_reader import Position
    from backhaul_connectors.file_drop.cursor import ImportedFile
    from backhaul_connectors.file_drop.files import ReadableFile, TemporaryCopies
    from backhaul_connectors.file_drop.header import Layout
    from backhaul_connectors.file_drop.settings import Settings


SPREADSHEET = (".xlsx", ".xlsm")
CHUNK_BYTES = 1_000_000
STEP_ROWS = 1_000
FEWEST_ROWS = 5
"""With fewer rows a share means little: one mistake in three rows is no broken
export."""
MOST_SHOWN = 20
NO_DATE = (
    "the file's modification time is not a valid date, so the time of the count is"
    " unknown; save the file again"
)


async def understand(
    file: ReadableFile, digest: FileDigest, settings: Settings, copies: TemporaryCopies
) -> tuple[ReadableFile, Layout]:
    """Return the layout of a file. Raises FileUnreadable or FileChanged."""
    name = file.name.lower()
    is_sheet = name.endswith(SPREADSHEET)
    await in_thread(_check, file, is_sheet)
    if is_sheet:
        lines, texts = copies.make(), copies.make()
        await _run(_spread(file, lines, texts, settings))
        sheet = FileCopy(file.name, file.form, file.fingerprint, lines)
        layout = await in_thread(layout_of, sheet, "utf-8", settings, delimiter=",")
        return sheet, replace(layout, pads_rows=True)
    encoding, doubt = await in_thread(encoding_of, digest, settings)
    if encoding not in READ_IN_PLACE:
        file = await _copied(file, copies, partial(_decode, encoding=encoding))
        encoding = "utf-8"
    rows, layout = await _layout(file, encoding, settings, copies)
    return rows, replace(layout, doubt=doubt)


async def _layout(
    file: ReadableFile, encoding: str, settings: Settings, copies: TemporaryCopies
) -> tuple[ReadableFile, Layout]:
    """Return the layout of a text file."""
    if not file.name.lower().endswith(JSON):
        return file, await in_thread(layout_of, file, encoding, settings)
    if await in_thread(_is_array, file):
        file = await _copied(file, copies, _spread_array)
    return file, json_layout_of(file)


async def _copied(
    file: ReadableFile,
    copies: TemporaryCopies,
    write: Callable[[ReadableFile, BinaryIO], Generator[None]],
) -> FileCopy:
    """Return a copy of the file that `write` writes in short steps."""
    lines = copies.make()
    await _run(write(file, lines))
    return FileCopy(file.name, file.form, file.fingerprint, lines)


def _check(file: ReadableFile, is_sheet: bool) -> None:
    with file.open() as stream:
        check_format(stream, is_sheet=is_sheet)


def _is_array(file: ReadableFile) -> bool:
    with file.open() as stream:
        is_lines = not file.name.lower().endswith(".json")
        return is_array(stream, is_lines=is_lines)


def _spread_array(file: ReadableFile, lines: BinaryIO) -> Generator[None]:
    with file.open() as stream:
        yield from spread_array(stream, lines)


async def _run(work: Generator[None]) -> None:
    """Do the work in a thread, in short steps."""
    with closing(work):
        while await in_thread(next, work, True) is None:
            pass


def _spread(
    file: ReadableFile, lines: BinaryIO, texts: BinaryIO, settings: Settings
) -> Generator[None]:
    # The XLSX reader takes a third of a second to import.
    from backhaul_connectors.file_drop.xlsx import spread

    max_bytes = settings.max_unzipped_mb * 1_000_000
    with file.open() as stream:
        yield from spread(
            stream, lines, texts, sheet=settings.sheet, max_bytes=max_bytes
        )


def _decode(file: ReadableFile, lines: BinaryIO, encoding: str) -> Generator[None]:
    """Write the file as UTF-8.

    Undecodable bytes become a character that rows refuse.
    """
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    with file.open() as stream:
        while content := stream.read(CHUNK_BYTES):
            lines.write(_text(decoder.decode(content)))
            yield
        lines.write(_text(decoder.decode(b"", final=True)))


def _text(letters: str) -> bytes:
    return letters.replace("\N{REPLACEMENT CHARACTER}", "\0").encode()


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
    """Rows that the filters leave out."""
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
        readable, layout = await understand(file, digest, settings, copies)
    except FileUnreadable as error:
        return UnusableFile(identity, str(error))
    dated = file.fingerprint.dated
    if dated is None and file.form.dated_by_file:
        return UnusableFile(identity, NO_DATE)
    is_list = file.form.article is not None
    table = Table(
        readable,
        identity,
        dated or "",
        layout,
        articles=ArticleIndex(adds_up=file.form.adds_up) if is_list else None,
        orders=copies.index_orders() if file.form.joins_rows else None,
    )
    by_place = not file.form.follows_content
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
        tally.bad += len(unusable)
        tally.shown += unusable[: MOST_SHOWN - len(tally.shown)]
        tally.ends_open = judged.ends_open or tally.ends_open
        start = position if position.row <= row else start
        more = bool(verdicts)
    if table.orders is not None:
        await _run(table.orders.sort())
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
    return UsableFile(
        table,
        read.content,
        start,
        position.row,
        read.cells,
        notes=notes,
        left_out=tally.left_out,
        is_whole=is_whole,
    )


def _notes(table: Table, tally: RowCounts, rows: int) -> tuple[str, ...]:
    if not tally.left_out:
        return ()
    setting = f"{table.file.form.kind.replace(' ', '_')}_rows"
    left = f"{tally.left_out} of {rows} rows are left out by {setting}"
    return (f"{table.file.name}: {left}",)


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
        raise FileIncomplete("a quotation mark is open where the file ends")
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
