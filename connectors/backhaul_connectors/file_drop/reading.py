"""Reads a file in steps of bounded size: first to judge it, then to hand it over."""

from __future__ import annotations

import hashlib
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from msgspec import Struct, field

from backhaul_connectors.file_drop.cells import Origin, clean, key_of
from backhaul_connectors.file_drop.csv_rows import (
    BOM,
    MAX_ROW_BYTES,
    Position,
    Row,
    RowReader,
    column_name,
    first_row,
    shown,
    sniff_delimiter,
)
from backhaul_connectors.file_drop.found import Unreadable
from backhaul_connectors.file_drop.json_rows import JsonRowReader, csv_line
from backhaul_connectors.file_drop.levels import LevelRow, article_of
from backhaul_sdk import Bad
from backhaul_sdk.reading import Unusable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import BinaryIO

    from backhaul_connectors.file_drop.articles import Articles
    from backhaul_connectors.file_drop.found import Source
    from backhaul_sdk import Record

T = TypeVar("T")
STEP_LINES = 20_000
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
OTHER_FORMATS = {
    b"PK\x03\x04": "is a spreadsheet, not CSV; name it .xlsx or save it as CSV UTF-8",
    b"\xd0\xcf\x11\xe0": "is an old or locked spreadsheet; save it as .xlsx without "
    "a password, or as CSV UTF-8",
}


class Digest(Struct):
    """The sha256 of a file and how its letters are stored, taken step by step."""

    offset: int = 0
    utf8_lines: int = 0
    other_lines: int = 0
    start: bytes = b""
    _sha256: hashlib._Hash = field(default_factory=hashlib.sha256)

    @property
    def sha256(self) -> str:
        return self._sha256.hexdigest()

    @property
    def encoding(self) -> str:
        """How letters are stored, by a mark at the beginning or by a vote.

        Without a mark it is UTF-8 if more lines with accents are that than are not.
        """
        if self.start.startswith(UTF16_MARKS):
            return "utf-16"
        halves = self.start[::2], self.start[1::2]
        # An empty half of each of the first letters.
        if len(self.start) == 4 and any(halves[0]) != any(halves[1]):
            return "utf-16-le" if any(halves[0]) else "utf-16-be"
        marked = self.start.startswith(BOM)
        return "utf-8" if marked or self.utf8_lines >= self.other_lines else "cp1252"

    def step(self, file: Source) -> bool:
        """Read on; tell whether there may be more."""
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
        try:
            line.decode("utf-8")
            self.utf8_lines += 1
        except UnicodeDecodeError:
            self.other_lines += 1


class Layout(Struct, frozen=True, kw_only=True):
    """How a file is written: `places` are the cells' numbers by what they mean."""

    encoding: str
    delimiter: str
    header: str
    width: int
    places: Mapping[str, int]
    start: Position
    members: tuple[str, ...] | None = None
    """The columns' names where each line is an object that names them itself."""
    pads_rows: bool = False
    """Whether empty cells at the end of a row are left out, as in spreadsheets."""

    def reader(self, stream: BinaryIO, position: Position) -> RowReader:
        if self.members is not None:
            return JsonRowReader(stream, self.members, position)
        return RowReader(stream, self.encoding, self.delimiter, position)


def layout_of(file: Source, encoding: str, delimiter: str) -> Layout:
    """Read the header. Raises Unreadable for a file without the columns it needs."""
    with file.open() as stream:
        start = stream.read(4)
        if what := OTHER_FORMATS.get(start):
            raise Unreadable(f"the file {what}")
        if delimiter == "auto":
            known = set(map(column_name, file.form.columns.values()))
            delimiter = sniff_delimiter(stream, encoding, known)
        return _read_header(file, stream, encoding, delimiter)


def json_layout_of(file: Source) -> Layout:
    """Return the layout of a file whose objects name their columns themselves."""
    columns = tuple(file.form.columns.values())
    return Layout(
        encoding="utf-8",
        delimiter=",",
        header=csv_line(columns),
        width=len(columns),
        places={meaning: place for place, meaning in enumerate(file.form.columns)},
        start=Position(),
        members=columns,
    )


def _read_header(
    file: Source, stream: BinaryIO, encoding: str, delimiter: str
) -> Layout:
    found = first_row(stream, encoding, delimiter)
    if found is None:
        raise Unreadable("the file has no rows, not even one with the columns' names")
    header, start = found
    if header.problem:
        raise Unreadable(f"the columns' names cannot be read: {header.problem}")
    named = [number for number, cell in enumerate(header.cells, 1) if cell.strip()]
    return Layout(
        encoding=encoding,
        delimiter=delimiter,
        header=shown(header.text),
        width=named[-1],
        places=_places(file, header.cells),
        start=start,
    )


def _places(file: Source, header: tuple[str, ...]) -> dict[str, int]:
    names = [column_name(cell) for cell in header]
    wanted = {m: column_name(name) for m, name in file.form.columns.items()}
    missing = [
        name
        for meaning, name in wanted.items()
        if name not in names and meaning not in file.form.optional
    ]
    if missing:
        shown_header = ", ".join(shown(cell).strip() for cell in header)
        raise Unreadable(
            f"column {', '.join(missing)} is missing; found: {shown_header}; "
            f"expected: {', '.join(file.form.columns.values())}"
        )
    twice = [name for name in wanted.values() if names.count(name) > 1]
    if twice:
        raise Unreadable(f"column {', '.join(twice)} stands there more than once")
    return {m: names.index(name) for m, name in wanted.items() if name in names}


class Judged(NamedTuple):
    """What is wrong with each row, and where to go on.

    A file that `ends_open` has an open quotation mark where it ends.
    """

    problems: list[Bad | None]
    position: Position
    ends_open: bool


class Table(Struct, frozen=True):
    """A file whose header was understood; `sha256` names its content.

    `salt` is a further part of the keys of rows that have none but their place.
    """

    file: Source
    sha256: str
    dated: str
    layout: Layout
    salt: str = ""
    articles: Articles | None = None
    """Of a stock list: which of its rows count one article."""

    def read(
        self, position: Position, limit: int
    ) -> tuple[list[Record | Bad], Position]:
        """Return what the next `limit` rows become, and where to go on."""
        records, reader = self._each(self._convert, position, limit)
        return [each for each in records if each is not None], reader.position

    def judge(self, position: Position, limit: int) -> Judged:
        """Return what is wrong with each of the next `limit` rows.

        Nothing is made of those that can be used.
        """
        problems, reader = self._each(self._problem, position, limit)
        return Judged(problems, reader.position, reader.ends_open)

    def _each(
        self, take: Callable[[Row, int], T], position: Position, limit: int
    ) -> tuple[list[T], RowReader]:
        with self.file.open() as stream:
            reader = self.layout.reader(stream, position)
            rows = enumerate(islice(reader, limit), position.row + 1)
            return [take(row, number) for number, row in rows], reader

    def _convert(self, row: Row, number: int) -> Record | Bad | None:
        try:
            made = self.file.form.understand(self._cells(row))
            origin = self._origin(row, number)
            if self.articles is not None and isinstance(made, LevelRow):
                return self.articles.level_of(made, origin)
        except Unusable as error:
            return self._bad(row, number, error)
        return made(origin)

    def _problem(self, row: Row, number: int) -> Bad | None:
        try:
            made = self.file.form.understand(self._cells(row))
        except Unusable as error:
            self._count_unusable(row)
            return self._bad(row, number, error)
        if self.articles is not None and isinstance(made, LevelRow):
            article = article_of(made.sku, made.counted_at)
            self.articles.add(article, made.number, row.line)
        return None

    def _count_unusable(self, row: Row) -> None:
        article = self.file.form.article
        if self.articles is None or article is None:
            return
        try:
            self.articles.add(article(self._cells(row)), None, row.line)
        except Unusable:
            self.articles.add(0, None, row.line)

    def _bad(self, row: Row, number: int, error: Unusable) -> Bad:
        origin = self._origin(row, number)
        # By place: a row that is still wrong in the next file is told again.
        key = key_of("bad", [self.sha256, number])
        return Bad(key=key, raw=origin.raw, reason=str(error), locator=origin.locator)

    def _origin(self, row: Row, number: int) -> Origin:
        return Origin(
            file=f"{self.sha256} {self.salt}".rstrip(),
            dated=self.dated,
            row=number,
            locator=f"{self.file.name}:{row.line}",
            raw=f"{self.layout.header}\n{shown(row.text)}",
        )

    def _cells(self, row: Row) -> dict[str, str]:
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
        places = self.layout.places.items()
        return {meaning: clean(cells[place]) for meaning, place in places}
