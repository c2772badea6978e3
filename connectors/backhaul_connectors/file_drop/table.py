"""Reads and checks the rows of a file whose layout is known."""

from __future__ import annotations

import hashlib
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from msgspec import Struct

from backhaul_connectors.file_drop.bad_rows import bad_row
from backhaul_connectors.file_drop.csv_reader import (
    CellOrigin,
    CsvRow,
    Position,
    RowReader,
    identifier,
    shown,
)
from backhaul_connectors.file_drop.parsing import ArticleIndex, LevelRow, article_of
from backhaul_connectors.file_drop.shipments import PlacedRow, ShipmentRow, shipments
from backhaul_connectors.file_drop.totals import is_total
from backhaul_sdk.fields import Unusable, is_placeholder, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from backhaul_connectors.file_drop.files import ReadableFile
    from backhaul_connectors.file_drop.layout import Layout
    from backhaul_connectors.file_drop.shipments import OrderIndex
    from backhaul_sdk import Bad, Record


T = TypeVar("T")


class RowLeftOut(Exception):
    """A filter leaves the row out."""


class RowIsTotal(RowLeftOut):
    """The row is a total, so it is left out."""


class RowVerdict(NamedTuple):
    """What is wrong with a row, if anything; or that it is left out.

    `total_at` is the line of a total, else 0.
    """

    problem: Bad | None = None
    is_left_out: bool = False
    total_at: int = 0


MAY_BE_EMPTY = frozenset({"reason", "shipped_at"})
"""Fields that change nothing in the store when they are empty."""
HIDDEN_ERROR = (
    "the {} is empty. In .xls, .xlsb and .ods files an error such as #N/A, and a"
    " formula without a result, look the same as an empty cell. Save the file as .xlsx"
    " or CSV; if this column is never needed, set its name to an empty text"
)
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

    def why_left_out(self, row: CsvRow) -> str:
        """Return why a row is left out; empty if it is not."""
        try:
            self._cells(row)
        except RowIsTotal:
            return "the row is a total"
        except RowLeftOut:
            return f"{self.file.form.rows_setting} leaves the row out"
        except Unusable:
            pass
        return ""

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
        except RowIsTotal:
            if self.articles is not None:
                self.articles.leave_out(0, row.line)
            return RowVerdict(is_left_out=True, total_at=row.line)
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
        if self.layout.edi is not None and row.cells:
            error = Unusable(f"{row.cells[0]}: {error}")
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

    def _refuse_empty(self, found: Mapping[str, str]) -> None:
        """Raise Unusable for an empty cell that could be an error.

        Without its SKU a row would ship a whole order.
        """
        for meaning, cell in found.items():
            value = self.file.form.values.get(meaning)
            if not cell and not value and meaning not in MAY_BE_EMPTY:
                raise Unusable(HIDDEN_ERROR.format(meaning.replace("_", " ")))

    def _cells(self, row: CsvRow, *, is_filtered: bool = True) -> dict[str, str]:
        width, cells = self.layout.width, row.cells
        if row.problem:
            raise Unusable(row.problem)
        if is_total(cells, self.layout.identity):
            raise RowIsTotal
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
        if self.layout.edi is not None and (problem := cells[-1]):
            raise Unusable(problem)
        places, values = self.layout.places.items(), self.file.form.values
        found = {meaning: cells[place].strip() for meaning, place in places}
        if self.layout.hides_errors:
            self._refuse_empty(found)
        if self.layout.doubt and not all(map(str.isascii, found.values())):
            raise Unusable(self.layout.doubt)
        return found | {
            meaning: value
            for meaning, value in values.items()
            if not (cell := found.get(meaning))
            or (value and is_placeholder(plain(cell)))
        }
