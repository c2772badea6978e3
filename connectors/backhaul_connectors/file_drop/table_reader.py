"""Reads the rows of a file in bounded steps: to check them, then to import them."""

from __future__ import annotations

import hashlib
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from msgspec import Struct, field

from backhaul_connectors.file_drop.cells import CellOrigin, identifier, key_of
from backhaul_connectors.file_drop.csv_reader import (
    BOM,
    MAX_ROW_BYTES,
    CsvRow,
    Position,
    RowReader,
    shown,
)
from backhaul_connectors.file_drop.shipments import PlacedRow, ShipmentRow, shipments
from backhaul_connectors.file_drop.stock_list import LevelRow, article_of
from backhaul_sdk import Bad
from backhaul_sdk.fields import Unusable, is_placeholder, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul_connectors.file_drop.files import ReadableFile
    from backhaul_connectors.file_drop.header import Layout
    from backhaul_connectors.file_drop.shipments import OrderIndex
    from backhaul_connectors.file_drop.stock_list import ArticleIndex
    from backhaul_sdk import Record

T = TypeVar("T")
STEP_LINES = 20_000
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
UTF32_MARKS = (b"\xff\xfe\0\0", b"\0\0\xfe\xff")
SAMPLE_BYTES = 16_384
"""How many bytes of non-ASCII lines are used to detect the encoding."""


class FileDigest(Struct):
    """The sha256 and the encoding of a file, computed in steps."""

    offset: int = 0
    utf8_lines: int = 0
    other_lines: int = 0
    start: bytes = b""
    sample: bytes = b""
    """Lines with characters beyond ASCII."""
    _sha256: hashlib._Hash = field(default_factory=hashlib.sha256)

    @property
    def sha256(self) -> str:
        return self._sha256.hexdigest()

    @property
    def encoding(self) -> str:
        """The encoding, by a mark at the beginning or by a vote.

        Without a mark it is UTF-8 if most lines beyond ASCII are UTF-8. Empty if
        unknown.
        """
        if self.start in UTF32_MARKS:
            return "utf-32"
        if self.start.startswith(UTF16_MARKS):
            return "utf-16"
        halves = self.start[::2], self.start[1::2]
        # An empty half of each of the first letters.
        if len(self.start) == 4 and any(halves[0]) != any(halves[1]):
            return "utf-16-le" if any(halves[0]) else "utf-16-be"
        marked = self.start.startswith(BOM)
        return "utf-8" if marked or self.utf8_lines >= self.other_lines else ""

    def step(self, file: ReadableFile) -> bool:
        """Read on; return True if there may be more."""
        before = self.offset
        with file.open() as stream:
            stream.seek(before)
            for line in islice(
                iter(lambda: stream.readline(MAX_ROW_BYTES), b""), STEP_LINES
            ):
                self._take(line)
        return self.offset > before

    def _take(self, line: bytes) -> None:
        self.start += line[: 4 - len(self.start)]
        self.offset += len(line)
        self._sha256.update(line)
        if line.isascii():
            return
        self.sample += line[: SAMPLE_BYTES - len(self.sample)]
        try:
            line.decode("utf-8")
            self.utf8_lines += 1
        except UnicodeDecodeError:
            self.other_lines += 1


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
        # By place: a row that is still wrong in the next file is reported again.
        key = key_of("bad", [self.sha256, number])
        return Bad(key=key, raw=origin.raw, reason=str(error), locator=origin.locator)

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
                f"the row has {len(cells)} cells where the header has {width}; "
                f"a text that contains {self.layout.delimiter!r} needs quotation marks"
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
