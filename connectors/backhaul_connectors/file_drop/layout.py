"""Finds the layout of a file: its header row, and the place of each column.

Other files than CSV are copied as lines first: spreadsheets, JSON arrays, and texts in
unusual encodings.
"""

from __future__ import annotations

import codecs
import re
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from backhaul_connectors.file_drop.columns import (
    Ambiguous,
    Column,
    column_name,
    column_of,
    folded,
    may_name_article,
    places_of,
)
from backhaul_connectors.file_drop.completeness import JSON
from backhaul_connectors.file_drop.csv_reader import (
    DELIMITERS,
    CsvRow,
    Position,
    RowReader,
    same,
    shown,
)
from backhaul_connectors.file_drop.edi.interchange import read_interchange
from backhaul_connectors.file_drop.files import FileCopy, FileUnreadable
from backhaul_connectors.file_drop.format_detection import (
    READ_IN_PLACE,
    FileFormat,
    encoding_of,
    format_of,
)
from backhaul_connectors.file_drop.json_reader import (
    JsonRowReader,
    csv_line,
    is_array,
    spread_array,
)
from backhaul_connectors.file_drop.sheet_lines import spread_sheet
from backhaul_connectors.file_drop.totals import identity_of
from backhaul_sdk.files import in_thread, run_in_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from backhaul_connectors.file_drop.edi.interchange import InterchangeFacts
    from backhaul_connectors.file_drop.files import ReadableFile, TemporaryCopies
    from backhaul_connectors.file_drop.format_detection import FileDigest
    from backhaul_connectors.file_drop.parsing import FileKind
    from backhaul_connectors.file_drop.settings import Settings


MOST_TITLES = 20
"""How many rows are searched for the column names."""
MOST_SHOWN = 300
"""Most characters of a row in a message."""
CHUNK_BYTES = 1_000_000
ONLY, SKIP = "only ", "skip "
"""What the places of the columns begin with that rows are filtered by."""

_SEPARATOR = re.compile(r'\ufeff*"?sep=(.)"?\s*', re.IGNORECASE)


class ColumnFilter(Struct, frozen=True):
    """Includes or excludes rows by the value in one column."""

    place: int
    values: frozenset[str]
    keeps: bool

    def takes(self, cells: Sequence[str]) -> bool:
        return (same(cells[self.place]) in self.values) == self.keeps


class Layout(Struct, frozen=True, kw_only=True):
    """The layout of a file: `places` are the cell numbers by meaning."""

    encoding: str
    delimiter: str
    quote: str = '"'
    header: str
    width: int
    places: Mapping[str, int]
    start: Position
    filters: tuple[ColumnFilter, ...] = ()
    identity: tuple[int, ...] = ()
    """The cells that say what a row is about; none if rows are never totals."""
    doubt: str = ""
    """Why only ASCII cells may be used; empty if all may."""
    members: Mapping[str, Column] | None = None
    """The columns, if each line is an object with their names."""
    pads_rows: bool = False
    """Whether empty cells at the end of a row are left out, as in spreadsheets."""
    hides_errors: bool = False
    """Whether an error such as #N/A is read as an empty cell."""
    edi: InterchangeFacts | None = None
    """Of an EDI file: its first cell is a row's place, its last one what is wrong."""

    def takes(self, cells: Sequence[str]) -> bool:
        """Return True if the filters include a row."""
        return all(each.takes(cells) for each in self.filters)

    def reader(self, stream: BinaryIO, position: Position) -> RowReader:
        if self.members is not None:
            return JsonRowReader(stream, self.members, position)
        return RowReader(
            stream,
            self.encoding,
            self.delimiter,
            position,
            quote=self.quote,
            width=self.width,
        )


class HeaderCandidate(Struct, frozen=True):
    """A row that may contain the column names, read with one delimiter.

    `start` is where the next row begins. `missing` are names that were not found.
    """

    row: CsvRow
    delimiter: str
    start: Position
    places: Mapping[str, int]
    missing: tuple[str, ...]
    problem: str = ""

    @property
    def rank(self) -> tuple[bool, int, int]:
        """Sort key: complete rows first, then by names found, then by cells."""
        is_whole = not self.missing and not self.problem
        return is_whole, len(self.places), len(self.row.cells)


def csv_layout_of(
    file: ReadableFile, encoding: str, settings: Settings, *, delimiter: str = ""
) -> Layout:
    """Return the layout of a CSV file by its header row.

    Raises FileUnreadable if required columns are missing.
    """
    with file.open() as stream:
        said, start = named_delimiter(stream, encoding)
        wanted = delimiter or settings.delimiter
        found = (said or DELIMITERS) if wanted == "auto" else (wanted,)
        rows = FirstRows(stream, encoding, tuple(found), settings.quote, start)
        if settings.header:
            titled = _given(file.form, rows, settings.header)
        else:
            titled = _titled(file.form, rows, settings)
    return _layout(file.form, titled, encoding, settings)


class FirstRows(Struct, frozen=True):
    """The first rows of a file, by each possible delimiter."""

    stream: BinaryIO
    encoding: str
    delimiters: tuple[str, ...]
    quote: str
    start: Position

    def first(self, delimiter: str, most: int) -> list[tuple[CsvRow, Position]]:
        """Return the first rows that are not blank, each with the next position."""
        reader = RowReader(
            self.stream, self.encoding, delimiter, self.start, quote=self.quote
        )
        found = []
        for row in islice(reader, most):
            place = Position(reader.position.offset, reader.position.line)
            found.append((row, place))
        return found


def named_delimiter(stream: BinaryIO, encoding: str) -> tuple[str, Position]:
    """Return the delimiter that a first line `sep=;` names, and where rows begin."""
    reader = RowReader(stream, encoding, "\0", quote="")
    row = next(iter(reader), None)
    found = _SEPARATOR.fullmatch(row.text) if row else None
    if found is None:
        return "", Position()
    return found[1], Position(reader.position.offset, reader.position.line)


def _titled(form: FileKind, rows: FirstRows, settings: Settings) -> HeaderCandidate:
    """Return the row with the column names. Raises FileUnreadable if there is none.

    Programs write titles above the table, so it is the first row that has them all.
    """
    found = [
        _named(form, row, delimiter, start)
        for delimiter in rows.delimiters
        for row, start in rows.first(delimiter, max(MOST_TITLES, settings.header_line))
        if settings.header_line in (0, row.line)
    ]
    if not found:
        raise FileUnreadable(_nothing(settings))
    whole = [each for each in found if each.rank[0]]
    if whole:
        return min(whole, key=lambda each: (each.row.line, -len(each.places)))
    best = max(found, key=lambda each: (each.rank[1], -each.row.line, each.rank[2]))
    raise FileUnreadable(_why(form, best, settings))


def _given(form: FileKind, rows: FirstRows, names: Sequence[str]) -> HeaderCandidate:
    """Return the names of the settings; a row with exactly these is skipped."""
    wide = max(rows.delimiters, key=lambda each: _width(rows, each))
    first = rows.first(wide, 1)
    if not first:
        raise FileUnreadable("the file has no rows")
    row, behind = first[0]
    given = CsvRow(0, wide.join(names), tuple(names))
    # The file of rejected rows has the names, and columns of its own behind them.
    repeats = list(map(folded, row.cells[: len(names)])) == list(map(folded, names))
    found, start = (row, behind) if repeats else (given, rows.start)
    titled = _named(form, found, wide, start)
    if titled.problem or titled.missing:
        missing = f"header has no column {', '.join(titled.missing)}"
        raise FileUnreadable(titled.problem or missing)
    return titled


def _width(rows: FirstRows, delimiter: str) -> int:
    return max((len(row.cells) for row, _ in rows.first(delimiter, 1)), default=0)


def _nothing(settings: Settings) -> str:
    if settings.header_line:
        return f"line {settings.header_line}, which header_row names, holds no row"
    return "the file has no rows, not even one with the columns' names"


def _named(
    form: FileKind, row: CsvRow, delimiter: str, start: Position
) -> HeaderCandidate:
    columns = wanted_columns(form)
    try:
        places = places_of(columns, row.cells)
    except Ambiguous as error:
        return HeaderCandidate(row, delimiter, start, {}, (), str(error))
    problem = ""
    if "sku" not in places and "quantity" in places:
        # A number without an article may count parcels: only its own name is sure.
        name = column_name(row.cells[places["quantity"]])
        if name not in map(column_name, columns["quantity"].names):
            problem = _unread_article(columns, row.cells, places)
            del places["quantity"]
    missing = tuple(
        column.shown
        for meaning, column in columns.items()
        if meaning not in places and meaning not in form.optional
    )
    problem = row.problem or ("" if missing else problem)
    return HeaderCandidate(row, delimiter, start, places, missing, problem)


def _unread_article(
    columns: Mapping[str, Column], cells: Sequence[str], places: Mapping[str, int]
) -> str:
    """Return the column that may name the article beside a quantity; empty if none.

    If it were ignored, each row would ship a whole order.
    """
    taken = set(places.values())
    free = [cell for number, cell in enumerate(cells) if number not in taken]
    found = next((each.strip() for each in free if may_name_article(each)), "")
    if "sku" not in columns or not found:
        return ""
    units = cells[places["quantity"]].strip()
    return (
        f"column {units!r} holds a quantity, and column {found!r} may contain the"
        " SKU; set fulfillment_columns.sku to the column of the SKU, such as"
        f' {found!r}, or to "" if each row is everything that is left of its order'
    )


def wanted_columns(form: FileKind) -> dict[str, Column]:
    """Return the columns of a kind of file, and those of its filters."""
    only = {f"{ONLY}{name}": column_of(name, [[name]]) for name in form.rows.only}
    skip = {f"{SKIP}{name}": column_of(name, [[name]]) for name in form.rows.skip}
    return {**form.columns, **only, **skip}


def _why(form: FileKind, best: HeaderCandidate, settings: Settings) -> str:
    """Return why the row does not have the column names, and what to do."""
    if best.problem and not best.missing:
        return best.problem
    if best.row.problem:
        return f"the columns' names cannot be read: {best.row.problem}"
    found = ", ".join(shown(cell).strip() for cell in best.row.cells)[:MOST_SHOWN]
    expected = ", ".join(column.shown for column in form.columns.values())
    setting = f"{form.kind.replace(' ', '_')}_columns"
    if best.places or settings.header_line:
        where = f"found: {found}; expected: {expected}; set {setting}"
    else:
        where = (
            f"found: {found}; expected: {expected}. None of the first {MOST_TITLES}"
            f" rows names these columns. Set {setting}. If the names are in a later"
            " row, set header_row. If the file has no names, set header"
        )
    return f"column {', '.join(best.missing)} is missing; {where}{_hint(form, best)}"


def _hint(form: FileKind, best: HeaderCandidate) -> str:
    company = form.columns.get("tracking_company")
    if company is None or company.shown not in best.missing:
        return ""
    return (
        ". If the files do not name the carrier, set tracking_company in "
        'fulfillment_values, or fulfillment_columns.tracking_company = ""'
    )


def _layout(
    form: FileKind, titled: HeaderCandidate, encoding: str, settings: Settings
) -> Layout:
    cells = titled.row.cells
    named = [number for number, cell in enumerate(cells, 1) if cell.strip()]
    places = {m: place for m, place in titled.places.items() if m in form.columns}
    return Layout(
        encoding=encoding,
        delimiter=titled.delimiter,
        quote=settings.quote,
        header=shown(titled.row.text),
        width=named[-1],
        places=places,
        identity=identity_of(places),
        start=titled.start,
        filters=filters_of(form, titled.places),
    )


def filters_of(form: FileKind, places: Mapping[str, int]) -> tuple[ColumnFilter, ...]:
    """Return the filters of a kind of file, with the places of their columns."""
    only, skip = form.rows.only.items(), form.rows.skip.items()
    return (
        *(
            ColumnFilter(places[f"{ONLY}{name}"], _same(values), True)
            for name, values in only
        ),
        *(
            ColumnFilter(places[f"{SKIP}{name}"], _same(values), False)
            for name, values in skip
        ),
    )


def _same(values: Sequence[str]) -> frozenset[str]:
    return frozenset(map(same, values))


def json_layout_of(file: ReadableFile) -> Layout:
    """Return the layout of a file whose objects name their columns."""
    columns = wanted_columns(file.form)
    places = {meaning: place for place, meaning in enumerate(columns)}
    return Layout(
        encoding="utf-8",
        delimiter=",",
        header=csv_line([column.names[0] for column in columns.values()]),
        width=len(columns),
        places={m: place for m, place in places.items() if m in file.form.columns},
        start=Position(),
        filters=filters_of(file.form, places),
        members=columns,
    )


async def layout_of(
    file: ReadableFile, digest: FileDigest, settings: Settings, copies: TemporaryCopies
) -> tuple[ReadableFile, Layout]:
    """Return a file of lines with the rows of a file, and its layout.

    That is the file itself, or a copy of it. Raises FileUnreadable or FileChanged.
    """
    found = await in_thread(_format, file)
    if found is FileFormat.EDI:
        return await _edi_layout(file, settings, copies)
    if found is not FileFormat.TEXT:
        lines = copies.make()
        await run_in_steps(_spread(file, found, lines, copies, settings))
        sheet = FileCopy(file.name, file.form, file.fingerprint, lines)
        layout = await in_thread(csv_layout_of, sheet, "utf-8", settings, delimiter=",")
        hides_errors = found is FileFormat.BINARY
        return sheet, replace(layout, pads_rows=True, hides_errors=hides_errors)
    encoding, doubt = await in_thread(encoding_of, digest, settings)
    if encoding not in READ_IN_PLACE:
        file = await _copied(file, copies, partial(_decode, encoding=encoding))
        encoding = "utf-8"
    rows, layout = await _text_layout(file, encoding, settings, copies)
    return rows, replace(layout, doubt=doubt)


async def _edi_layout(
    file: ReadableFile, settings: Settings, copies: TemporaryCopies
) -> tuple[ReadableFile, Layout]:
    """Return the rows of an EDI file, whose kind follows from its messages."""
    read = await read_interchange(file, settings, copies)
    layout = await in_thread(
        csv_layout_of, read.rows, "utf-8", read.settings, delimiter=","
    )
    # Each row is one line of a message, never a total.
    return read.rows, replace(layout, identity=(), edi=read.facts)


async def _text_layout(
    file: ReadableFile, encoding: str, settings: Settings, copies: TemporaryCopies
) -> tuple[ReadableFile, Layout]:
    """Return the layout of a text file."""
    if not file.name.lower().endswith(JSON):
        return file, await in_thread(csv_layout_of, file, encoding, settings)
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
    await run_in_steps(write(file, lines))
    return FileCopy(file.name, file.form, file.fingerprint, lines)


def _format(file: ReadableFile) -> FileFormat:
    with file.open() as stream:
        return format_of(stream, file.name)


def _is_array(file: ReadableFile) -> bool:
    with file.open() as stream:
        is_lines = not file.name.lower().endswith(".json")
        return is_array(stream, is_lines=is_lines)


def _spread_array(file: ReadableFile, lines: BinaryIO) -> Generator[None]:
    with file.open() as stream:
        yield from spread_array(stream, lines)


def _spread(
    file: ReadableFile,
    found: FileFormat,
    lines: BinaryIO,
    copies: TemporaryCopies,
    settings: Settings,
) -> Generator[None]:
    max_bytes = settings.max_unzipped_mb * 1_000_000
    with file.open() as stream:
        yield from spread_sheet(
            stream, found, lines, copies, sheet=settings.sheet, max_bytes=max_bytes
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
