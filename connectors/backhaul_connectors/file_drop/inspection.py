"""Inspects a whole file before its first row is imported; reads its rows in steps."""

from __future__ import annotations

import hashlib
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from msgspec import Struct

from backhaul_connectors.file_drop.bad_rows import bad_row
from backhaul_connectors.file_drop.completeness import check_end
from backhaul_connectors.file_drop.csv_reader import (
    CellOrigin,
    CsvRow,
    Position,
    RowReader,
    identifier,
    shown,
)
from backhaul_connectors.file_drop.files import FileIncomplete, FileUnreadable
from backhaul_connectors.file_drop.format_detection import FileDigest
from backhaul_connectors.file_drop.layout import layout_of
from backhaul_connectors.file_drop.parsing import ArticleIndex, LevelRow, article_of
from backhaul_connectors.file_drop.shipments import PlacedRow, ShipmentRow, shipments
from backhaul_sdk import Bad
from backhaul_sdk.fields import Unusable, is_placeholder, plain
from backhaul_sdk.files import in_thread, run_in_steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul_connectors.file_drop.files import (
        ImportedFile,
        ReadableFile,
        TemporaryCopies,
    )
    from backhaul_connectors.file_drop.layout import Layout
    from backhaul_connectors.file_drop.settings import Settings
    from backhaul_connectors.file_drop.shipments import OrderIndex
    from backhaul_sdk import Record


T = TypeVar("T")


class RowLeftOut(Exception):
    """A filter leaves the row out."""


class RowVerdict(NamedTuple):
    """What is wrong with a row, if anything; or that a filter leaves it out."""

    problem: Bad | None = None
    is_left_out: bool = False


GOOD, LEFT_OUT = RowVerdict(), RowVerdict(is_left_out=True)


class CheckedRows(NamedTuple):
    """What is wrong with each row, and where to continue.

    A file that `ends_open` has an open quotation mark at its end.
    """

    verdicts: list[RowVerdict]
    position: Position
    ends_open: bool


class Table(Struct, frozen=True):
    """A file with a known header; `sha256` identifies its content.

    `salt` is part of the keys of rows that have no key but their place.
    """

    file: ReadableFile
    sha256: str
    dated: str
    layout: Layout
    salt: str = ""
    articles: ArticleIndex | None = None
    """Of a stock list: the rows of each article."""
    orders: OrderIndex | None = None
    """Of a file of shipments: the rows of each order."""

    def read(
        self, position: Position, limit: int
    ) -> tuple[list[Record | Bad], Position]:
        """Return the results of the next `limit` rows, and where to continue."""
        if self.orders is None:
            records, reader = self._each(self._convert, position, limit)
            return [each for each in records if each is not None], reader.position
        rows, reader = self._each(self._placed, position, limit)
        numbered = list(enumerate(rows, position.row + 1))
        return shipments(numbered, self.orders, self._row_at), reader.position

    def judge(self, position: Position, limit: int) -> CheckedRows:
        """Return what is wrong with each of the next `limit` rows.

        Usable rows do not become records.
        """
        verdicts: list[RowVerdict] = []
        with self.file.open() as stream:
            reader = self.layout.reader(stream, position)
            before = reader.position
            for row in islice(reader, limit):
                verdicts.append(self._verdict(row, before))
                before = reader.position
        return CheckedRows(verdicts, reader.position, reader.ends_open)

    def cells_digest(self) -> str:
        """Return the sha256 of all rows' content; empty if there is no row.

        Line ends, delimiters, quotation marks and the encoding make no difference.
        """
        digest, is_empty = hashlib.sha256(), True
        with self.file.open() as stream:
            for row in self.layout.reader(stream, self.layout.start):
                cells = [cell.strip() for cell in row.cells] or [row.text]
                while cells and not cells[-1]:
                    cells.pop()
                digest.update(repr(cells).encode(errors="replace"))
                is_empty = False
        return "" if is_empty else digest.hexdigest()

    def _each(
        self, take: Callable[[CsvRow, int], T], position: Position, limit: int
    ) -> tuple[list[T], RowReader]:
        with self.file.open() as stream:
            reader = self.layout.reader(stream, position)
            rows = enumerate(islice(reader, limit), position.row + 1)
            return [take(row, number) for number, row in rows], reader

    def _convert(self, row: CsvRow, number: int) -> Record | Bad | None:
        try:
            made = self.file.form.understand(self._cells(row))
            origin = self._origin(row, number)
            if self.articles is not None and isinstance(made, LevelRow):
                return self.articles.level_of(made, origin)
        except Unusable as error:
            return self._bad(row, number, error)
        except RowLeftOut:
            return None
        return made(origin)

    def _placed(self, row: CsvRow, number: int) -> PlacedRow | Bad | None:
        try:
            made = self.file.form.understand(self._cells(row))
        except Unusable as error:
            return self._bad(row, number, error)
        except RowLeftOut:
            return None
        if isinstance(made, ShipmentRow):
            return PlacedRow(made, self._origin(row, number))
        raise TypeError(f"a file of shipments has a row of another kind: {made}")

    def _row_at(self, position: Position) -> PlacedRow | Bad | None:
        rows, _ = self._each(self._placed, position, 1)
        return rows[0]

    def _verdict(self, row: CsvRow, position: Position) -> RowVerdict:
        """Check a row; a reader at `position` reads it next."""
        number = position.row + 1
        try:
            made = self.file.form.understand(self._cells(row))
        except Unusable as error:
            self._count_unusable(row)
            self._note_refused(row)
            return RowVerdict(self._bad(row, number, error))
        except RowLeftOut:
            if self.articles is not None:
                self.articles.leave_out(self._article(row, is_filtered=False), row.line)
            return LEFT_OUT
        if self.articles is not None and isinstance(made, LevelRow):
            article = article_of(made.sku, made.counted_at)
            self.articles.add(article, made.number, row.line)
            if made.full_list:
                latest = max(self.articles.counted_at, made.as_of(self.dated))
                self.articles.counted_at = latest
        if self.orders is not None and isinstance(made, ShipmentRow):
            self.orders.add(position, made)
        return GOOD

    def _count_unusable(self, row: CsvRow) -> None:
        if self.articles is not None:
            self.articles.add(self._article(row), None, row.line)

    def _article(self, row: CsvRow, *, is_filtered: bool = True) -> int:
        """Return the article of a row of a stock list, 0 if it has none."""
        article = self.file.form.article
        try:
            cells = self._cells(row, is_filtered=is_filtered)
            return 0 if article is None else article(cells)
        except Unusable:
            return 0

    def _note_refused(self, row: CsvRow) -> None:
        """Record the order of an unusable row that names an article.

        A row of that order without an article does not mean everything else.
        """
        if self.orders is None:
            return
        try:
            cells = self._cells(row)
            order = identifier(cells, "order")
        except Unusable:
            return
        if cells.get("sku") or cells.get("quantity"):
            self.orders.add_refused(order)

    def _bad(self, row: CsvRow, number: int, error: Unusable) -> Bad:
        origin = self._origin(row, number)
        return bad_row(self.file.form, self.layout, row, origin, error)

    def _origin(self, row: CsvRow, number: int) -> CellOrigin:
        return CellOrigin(
            file=f"{self.sha256} {self.salt}".rstrip(),
            dated=self.dated,
            row=number,
            locator=f"{self.file.name}:{row.line}",
            raw=f"{self.layout.header}\n{shown(row.text)}",
            header=self.layout.header,
        )

    def _cells(self, row: CsvRow, *, is_filtered: bool = True) -> dict[str, str]:
        width, cells = self.layout.width, row.cells
        if row.problem:
            raise Unusable(row.problem)
        if self.layout.pads_rows:
            cells += ("",) * (width - len(cells))
        # Spreadsheets pad rows with empty cells.
        if len(cells) != width and (
            len(cells) < width or any(map(str.strip, cells[width:]))
        ):
            raise Unusable(
                f"the row has {len(cells)} cells, but the header has {width}."
                " Perhaps quotation marks are missing: a text that contains"
                f" {self.layout.delimiter!r} needs quotation marks"
            )
        if is_filtered and not self.layout.takes(cells):
            raise RowLeftOut
        places, values = self.layout.places.items(), self.file.form.values
        found = {meaning: cells[place].strip() for meaning, place in places}
        if self.layout.doubt and not all(map(str.isascii, found.values())):
            raise Unusable(self.layout.doubt)
        return found | {
            meaning: value
            for meaning, value in values.items()
            if not (cell := found.get(meaning))
            or (value and is_placeholder(plain(cell)))
        }


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
        readable, layout = await layout_of(file, digest, settings, copies)
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
