"""Rows of a CSV file: what is broken in one row never reaches the next."""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

DELIMITERS = (",", ";", "\t", "|")
BOM = b"\xef\xbb\xbf"
MAX_ROW_BYTES = 65_536
MAX_ROW_LINES = 50
"""How far a quote may stay open; a forgotten one would swallow the whole file."""

_UNREADABLE = re.compile("[\ud800-\udfff\0]")


class Row(NamedTuple):
    """A row: `line` (from 1) is where it begins, `text` is how it came.

    `problem` is a sentence where the row could not be split into `cells`.
    """

    line: int
    text: str
    cells: tuple[str, ...] = ()
    problem: str = ""


class Position(Struct, frozen=True):
    """Where reading goes on: bytes, lines and data rows already read."""

    offset: int = 0
    line: int = 0
    row: int = 0


class RowReader:
    """Reads row by row from `position`; blank rows are passed over."""

    def __init__(
        self,
        stream: BinaryIO,
        encoding: str,
        delimiter: str,
        position: Position | None = None,
    ) -> None:
        self._stream = stream
        self._encoding = encoding
        self._delimiter = delimiter
        self._cut = False
        self.ends_open = False
        """Whether a quotation mark was open where the file ended."""
        start = position or Position()
        self._offset, self._line, self._row = start.offset, start.line, start.row
        stream.seek(start.offset)
        if not start.offset and stream.read(len(BOM)) == BOM:
            self._offset = len(BOM)
        stream.seek(self._offset)

    @property
    def position(self) -> Position:
        return Position(self._offset, self._line, self._row)

    def __iter__(self) -> Iterator[Row]:
        while line := self._read_line():
            row = self._read_row(line)
            if row.problem or any(map(str.strip, row.cells)):
                self._row += 1
                yield row

    def _read_line(self) -> str:
        content = self._stream.readline(MAX_ROW_BYTES)
        self._cut = len(content) == MAX_ROW_BYTES and not content.endswith(b"\n")
        self._offset += len(content)
        self._line += bool(content)
        return content.decode(self._encoding, "surrogateescape")

    def _read_row(self, first: str) -> Row:
        line = self._line
        if self._cut:
            return Row(line, first[:200], (), self._pass_over_the_line())
        if '"' in first:
            return self._read_quoted(first)
        text = first.rstrip("\r\n")
        problem = _STRAY_LINE_END if "\r" in text else unreadable(text)
        return Row(line, text, tuple(text.split(self._delimiter)), problem)

    def _pass_over_the_line(self) -> str:
        while content := self._stream.readline(MAX_ROW_BYTES):
            self._offset += len(content)
            if content.endswith(b"\n"):
                break
        return f"the line is longer than {MAX_ROW_BYTES:,} bytes"

    def _read_quoted(self, first: str) -> Row:
        line, after_first = self._line, self._offset
        taken = [first]
        reader = csv.reader(self._lines(taken), delimiter=self._delimiter, strict=True)
        try:
            cells = tuple(next(reader))
        except csv.Error:
            self._offset, self._line = after_first, line
            self._stream.seek(after_first)
            return Row(line, first.rstrip("\r\n"), (), _BROKEN_QUOTE)
        text = "".join(taken).rstrip("\r\n")
        return Row(line, text, cells, unreadable(text))

    def _lines(self, taken: list[str]) -> Iterator[str]:
        """Yield the row's first line, and more for as long as a quote is open."""
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
    'a quotation mark (") is opened and not closed, or closed too early; '
    'a mark inside a text is written twice ("")'
)
_STRAY_LINE_END = "a line end stands in the middle of the row"


def unreadable(text: str) -> str:
    """Say what cannot be read in the text; empty if all can."""
    found = None if _is_plain(text) else _UNREADABLE.search(text)
    if found is None:
        return ""
    if found.group() == "\0":
        return "the row contains a NUL character; the file may be damaged"
    return "the row contains bytes that are no letters; save the file as CSV UTF-8"


def shown(text: str) -> str:
    """Return the text with a mark in place of what no database or page can hold."""
    return text if _is_plain(text) else _UNREADABLE.sub("\ufffd", text)


def _is_plain(text: str) -> bool:
    """Tell what needs no closer look, as most rows do."""
    return text.isascii() and "\0" not in text


def first_row(
    stream: BinaryIO, encoding: str, delimiter: str
) -> tuple[Row, Position] | None:
    """Return the first row that is not blank, and where the next one begins."""
    reader = RowReader(stream, encoding, delimiter)
    row = next(iter(reader), None)
    if row is None:
        return None
    return row, Position(reader.position.offset, reader.position.line)


def column_name(cell: str) -> str:
    """Return the name by which columns are compared: `Tracking No` is `tracking_no`."""
    return re.sub(r"[\s_-]+", "_", cell.strip().casefold())


def sniff_delimiter(stream: BinaryIO, encoding: str, known: Collection[str]) -> str:
    """Return the delimiter that finds most of the known columns in the first row."""

    def score(delimiter: str) -> tuple[int, int]:
        found = first_row(stream, encoding, delimiter)
        names = [column_name(cell) for cell in found[0].cells] if found else []
        return len(set(names) & set(known)), len(names)

    return max(DELIMITERS, key=score)
