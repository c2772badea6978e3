"""Reads the rows of a CSV file, and what the cells of any file are."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import unicodedata
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TypeAlias

from msgspec import Struct

from backhaul_connectors.file_drop.columns import folded
from backhaul_sdk import fields
from backhaul_sdk.fields import Unusable
from backhaul_sdk.fields.identifiers import DIGITS_KEPT, lost_number

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence


Cells: TypeAlias = "Mapping[str, str]"
"""The cells of a row by their meaning; absent columns are empty."""

NO_RESULT = "#FORMULA!"
"""Marks a formula whose result was not saved."""
FRACTION_MARK = "\N{WORD JOINER}"
"""Marks a fraction that came as a number: it has no locale."""
ROUNDED_MARK = "\N{INVISIBLE SEPARATOR}"
"""Marks a JSON number that lost digits."""


class CellOrigin(NamedTuple):
    """Where a row was found.

    `file` identifies the content of the file, `dated` is the file's time.
    """

    file: str
    dated: str
    row: int
    locator: str
    raw: str
    header: str = ""


def identifier(cells: Cells, column: str, *, required: bool = True) -> str:
    """Return a number or code that is compared as text."""
    cell, name = cells.get(column, ""), column.replace("_", " ")
    if column.startswith("key "):
        name = "key column"
    if cell.startswith(ROUNDED_MARK):
        raise Unusable(lost_number(name, cell[1:]))
    if column == "sku":
        return fields.article(cell, required=required)
    if column == "tracking_company":
        return fields.label(number(cell), name)
    return fields.identifier(number(cell), name, required=required)


def number(text: str) -> str | float:
    """Return the text of a cell, or the fraction that came as a number."""
    if text.startswith(FRACTION_MARK):
        return float(text[1:])
    return text.lstrip(ROUNDED_MARK)


def same(text: str) -> str:
    """Return the text without differences of writing style."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return " ".join(plain.casefold().split())


def key_of(kind: str, content: Sequence[object]) -> str:
    """Return a key that depends only on kind and content."""
    text = json.dumps([kind, content])
    return f"{kind.replace(' ', '-')}:{hashlib.sha256(text.encode()).hexdigest()[:40]}"


def number_text(raw: str, width: int = 0) -> str:
    """Return 4006381333931.0 as 4006381333931, and 5e0 as 5.

    A number with more digits than a spreadsheet keeps becomes 3.401234E+17, which is
    never accepted as a code. `width` is the number of digits shown. A fraction begins
    with a mark, as 2.125 would be a thousand in some countries. Raises ValueError if it
    is not a number.
    """
    if raw.isascii() and raw.isdigit() and len(raw) <= DIGITS_KEPT:
        return (raw.lstrip("0") or "0").zfill(width)
    try:
        value = Decimal(raw)
    except InvalidOperation:
        raise ValueError(f"{raw[:40]!r} is not a number") from None
    if not value.is_finite():
        raise ValueError(f"{raw[:40]!r} is not a number")
    # Comparing fails for a huge exponent.
    if value and value.adjusted() >= DIGITS_KEPT:
        return f"{value:.6E}"
    if value == value.to_integral_value():
        return str(int(value)).zfill(width)
    return f"{FRACTION_MARK}{float(value):.{DIGITS_KEPT}g}"


def moment_text(value: datetime | date | time | timedelta) -> str:
    """Return a date as 2026-03-31, with a time of day as 2026-03-31T14:05:00."""
    if isinstance(value, datetime):
        value = (value + timedelta(milliseconds=500)).replace(microsecond=0)
        return value.isoformat() if value.time() != time() else str(value.date())
    return value.isoformat() if isinstance(value, date | time) else str(value)


DELIMITERS = (",", ";", "\t", "|")
BOM = b"\xef\xbb\xbf"
END_OF_FILE = b"\x1a"
"""The character that DOS programs write after the last line."""
MAX_ROW_BYTES = 65_536
MAX_ROW_LINES = 50
"""How many lines a quote may stay open; a forgotten quote would consume the file."""

_UNREADABLE = re.compile("[\ud800-\udfff\0]")
_WRONG = re.compile("[\x01-\x08\x0e-\x1f\x7f-\x9f\ufffd]")
_LEADS = bytes(range(0xC2, 0xF5))
"""The first bytes of a character beyond ASCII in UTF-8."""
_READ_AS = {"cp1252": 2, "cp437": 2, "cp850": 2, "mac_roman": 2, "cp1251": 4}
"""Encodings as which UTF-8 is read by mistake, and the fewest letters that prove it."""
_TWICE = {
    encoding: re.compile(f"[{_LEADS.decode(encoding)}][^\x00-\x7f]{{{fewest - 1},}}")
    for encoding, fewest in _READ_AS.items()
}


class CsvRow(NamedTuple):
    """A row: `line` (from 1) is where it begins, `text` is its original text.

    `problem` is a sentence if the row could not be split into `cells`.
    """

    line: int
    text: str
    cells: tuple[str, ...] = ()
    problem: str = ""


class Position(Struct, frozen=True):
    """Where reading continues: bytes, lines and data rows already read."""

    offset: int = 0
    line: int = 0
    row: int = 0


class RowReader:
    """Reads row by row from `position`; blank rows are skipped."""

    def __init__(
        self,
        stream: BinaryIO,
        encoding: str,
        delimiter: str,
        position: Position | None = None,
        *,
        quote: str = '"',
        width: int = 0,
    ) -> None:
        self._stream = stream
        self._encoding = encoding
        self._delimiter = delimiter
        self._quote = quote
        self._width = width
        self._cut = False
        self.ends_open = False
        """Whether a quotation mark was open at the end of the file."""
        start = position or Position()
        self._offset, self._line, self._row = start.offset, start.line, start.row
        stream.seek(start.offset)
        # Programs that join files, or read a mark as text, write more than one.
        while self._row == 0 and stream.read(len(BOM)) == BOM:
            self._offset += len(BOM)
        stream.seek(self._offset)

    @property
    def position(self) -> Position:
        return Position(self._offset, self._line, self._row)

    def __iter__(self) -> Iterator[CsvRow]:
        while line := self._read_line():
            row = self._read_row(line)
            if row.problem or any(map(str.strip, row.cells)):
                self._row += 1
                yield row

    def _read_line(self) -> str:
        content = self._stream.readline(MAX_ROW_BYTES)
        if content.strip() == END_OF_FILE:
            content = b""
        self._cut = len(content) == MAX_ROW_BYTES and not content.endswith(b"\n")
        self._offset += len(content)
        self._line += bool(content)
        return content.decode(self._encoding, "surrogateescape")

    def _read_row(self, first: str) -> CsvRow:
        line = self._line
        if self._cut:
            return CsvRow(line, first[:200], (), self._pass_over_the_line())
        if self._quote and self._quote in first:
            return self._read_quoted(first)
        text = first.rstrip("\r\n")
        problem = _STRAY_LINE_END if "\r" in text else unreadable(text)
        return CsvRow(line, text, tuple(text.split(self._delimiter)), problem)

    def _pass_over_the_line(self) -> str:
        while content := self._stream.readline(MAX_ROW_BYTES):
            self._offset += len(content)
            if content.endswith(b"\n"):
                break
        return f"the line is longer than {MAX_ROW_BYTES:,} bytes"

    def _read_quoted(self, first: str) -> CsvRow:
        line, after_first = self._line, self._offset
        taken = [first]
        reader = csv.reader(
            self._lines(taken),
            delimiter=self._delimiter,
            quotechar=self._quote,
            strict=True,
        )
        try:
            cells = tuple(next(reader))
            problem = _SWALLOWED if self._has_swallowed(cells, taken) else ""
        except csv.Error:
            problem = _BROKEN_QUOTE.format(self._quote)
        if problem:
            # The following lines are rows of their own.
            self._offset, self._line = after_first, line
            self._stream.seek(after_first)
            return CsvRow(line, first.rstrip("\r\n"), (), problem)
        text = "".join(taken).rstrip("\r\n")
        return CsvRow(line, text, cells, unreadable(text))

    def _has_swallowed(self, cells: tuple[str, ...], lines: list[str]) -> bool:
        """Return True if a quoted cell contains a line end and the cells of a row.

        Texts contain commas, but rarely the other delimiters. And no text has exactly
        so many commas in each of its lines that each could be a row.
        """
        if self._delimiter == ",":
            most = self._width - 1
            return len(lines) > 1 < most and all(x.count(",") == most for x in lines)
        if self._width < 2:
            return False
        return any(
            "\n" in cell and cell.count(self._delimiter) >= self._width - 1
            for cell in cells
        )

    def _lines(self, taken: list[str]) -> Iterator[str]:
        """Yield the row's first line, and more while a quote is open."""
        yield taken[0]
        budget = MAX_ROW_BYTES - len(taken[0])
        while budget > 0 and len(taken) < MAX_ROW_LINES:
            line = self._read_line()
            if not line:
                self.ends_open = True
            if not line or self._cut:
                return
            taken.append(line)
            budget -= len(line)
            yield line


_BROKEN_QUOTE = (
    "a quotation mark ({0}) is not closed, or is closed too early. Write a quotation "
    "mark inside a text twice ({0}{0}). If quotation marks are plain text in these "
    'files, set quote = ""'
)
_SWALLOWED = (
    "a quotation mark is opened in this row and closed in a later row, so whole rows "
    "are inside the quotation; close it in this row. If quotation marks are plain text "
    'in these files, set quote = ""'
)
_STRAY_LINE_END = (
    "the row has a line end in the middle; if all lines end so, as on old Macs, "
    "save the file as CSV UTF-8"
)


def unreadable(text: str) -> str:
    """Return what cannot be read in the text; empty if everything can."""
    if text.isascii() and text.isprintable():
        return ""
    if (found := _UNREADABLE.search(text)) is not None:
        if found.group() == "\0":
            return "the row contains a NUL character; the file may be damaged"
        return (
            "the row contains bytes that are not valid text; save the file as CSV UTF-8"
        )
    if _WRONG.search(text):
        return (
            "the row contains control characters or unreadable letters, as after a"
            " wrong encoding; set encoding, or save the file as CSV UTF-8"
        )
    for encoding, pattern in _TWICE.items():
        found = pattern.search(text)
        if found is not None and _was_encoded_twice(found[0], encoding):
            return (
                f"the row contains {found[0][:20]!r}, letters that were stored as "
                "UTF-8 twice; export the file again as CSV UTF-8"
            )
    return ""


def _was_encoded_twice(letters: str, encoding: str) -> bool:
    """Return True if characters of an encoding are bytes of others in UTF-8."""
    if encoding != "cp1252" and letters.isalpha():
        return False  # a word of another alphabet, or of a language with many accents
    try:
        letters.encode(encoding).decode("utf-8")
    except UnicodeError:
        return False
    return True


def shown(text: str) -> str:
    """Return the text with a mark for characters that no database or page can hold."""
    return text if _is_plain(text) else _UNREADABLE.sub("\ufffd", text)


def _is_plain(text: str) -> bool:
    """Return True for text that needs no further check, as in most rows."""
    return text.isascii() and "\0" not in text


def first_row(
    stream: BinaryIO, encoding: str, delimiter: str
) -> tuple[CsvRow, Position] | None:
    """Return the first row that is not blank, and where the next one begins."""
    reader = RowReader(stream, encoding, delimiter)
    row = next(iter(reader), None)
    if row is None:
        return None
    return row, Position(reader.position.offset, reader.position.line)


def sniff_delimiter(stream: BinaryIO, encoding: str, known: Collection[str]) -> str:
    """Return the delimiter that finds most of the known columns in the first row.

    The names are compared as `folded` does.
    """

    def score(delimiter: str) -> tuple[int, int]:
        found = first_row(stream, encoding, delimiter)
        names = [folded(cell) for cell in found[0].cells] if found else []
        return len(set(names) & set(known)), len(names)

    return max(DELIMITERS, key=score)
