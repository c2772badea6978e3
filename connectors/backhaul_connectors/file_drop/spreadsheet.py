"""A sheet of an XLSX file as lines of CSV, read as a stream: line N is row N."""

from __future__ import annotations

import os
import re
from array import array
from contextlib import closing
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, BinaryIO, TypeGuard
from xml.sax import SAXException
from xml.sax.handler import ContentHandler
from zipfile import BadZipFile, ZipFile
from zlib import error as ZlibError

from defusedxml import DefusedXmlException
from defusedxml.expatreader import create_parser
from openpyxl.utils.datetime import from_excel

from backhaul_connectors.file_drop.cells import NO_RESULT
from backhaul_connectors.file_drop.found import Unreadable
from backhaul_connectors.file_drop.json_rows import csv_line
from backhaul_connectors.file_drop.numbers import number_text
from backhaul_connectors.file_drop.workbook import (
    DAMAGED,
    FORBIDDEN,
    Book,
    Style,
    open_archive,
    read_book,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK_BYTES = 65_536
STEP_CHUNKS = 16
MAX_TEXT = 32_767
MAX_ROWS, MAX_COLUMNS = 1_048_576, 16_384
PLAIN = Style()

_REFERENCE = re.compile("([A-Z]{1,3})([0-9]{1,7})")
_LINE_ENDS = re.compile(r"[\r\n]+")


class Damaged(Exception):
    """The sheet is not what it should be; the text says in what."""


def spread(
    stream: BinaryIO, lines: BinaryIO, texts: BinaryIO, *, sheet: str, max_bytes: int
) -> Iterator[None]:
    """Write the sheet to `lines`, stopping now and then. Raises Unreadable.

    `texts` is an empty file for what the sheet's cells refer to by number.
    """
    try:
        with open_archive(stream, max_bytes) as archive:
            book = read_book(archive, sheet)
            strings = Strings(texts)
            if book.strings:
                yield from _parse(archive, book.strings, TextHandler(strings))
            strings.finish()
            yield from _parse(archive, book.sheet, SheetHandler(book, strings, lines))
    except (BadZipFile, SAXException, Damaged, KeyError, EOFError, ZlibError) as error:
        raise Unreadable(DAMAGED.format(error)) from None
    except DefusedXmlException:
        raise Unreadable(FORBIDDEN) from None


def _parse(archive: ZipFile, name: str, handler: ContentHandler) -> Iterator[None]:
    parser = create_parser(forbid_dtd=True)
    parser.setContentHandler(handler)
    with closing(archive.open(name)) as part:
        number = 0
        while chunk := part.read(CHUNK_BYTES):
            parser.feed(chunk)
            number += 1
            if number % STEP_CHUNKS == 0:
                yield
    parser.close()


class Strings:
    """Texts by their number, on disk: a large sheet's would fill the memory."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._ends = array("Q", [0])

    def add(self, text: str) -> None:
        data = text.encode()
        self._stream.write(data)
        self._ends.append(self._ends[-1] + len(data))

    def finish(self) -> None:
        self._stream.flush()

    def __getitem__(self, number: int) -> str:
        if not 0 <= number < len(self._ends) - 1:
            raise Damaged(f"text {number} is missing")
        begin, end = self._ends[number], self._ends[number + 1]
        return os.pread(self._stream.fileno(), end - begin, begin).decode()


class TextCollector(ContentHandler):
    """Collects the letters of a value or a text; those of its spelling aid are none."""

    def __init__(self, holding: frozenset[str]) -> None:
        super().__init__()
        self._holding = holding
        self._collected: list[str] = []
        self._length = 0
        self._is_open = False
        self._aside = 0

    def characters(self, content: str) -> None:
        if not self._is_open or self._aside:
            return
        self._length += len(content)
        if self._length > MAX_TEXT:
            raise Damaged(f"a cell has more than {MAX_TEXT:,} letters")
        self._collected.append(content)

    def startElement(self, name: str, attrs: Any) -> None:
        name = name.rpartition(":")[2]
        self._is_open = name in self._holding
        self._aside += name == "rPh"
        self.begin(name, attrs)

    def endElement(self, name: str) -> None:
        name = name.rpartition(":")[2]
        self._is_open = False
        self._aside -= name == "rPh"
        self.end(name)

    def take(self) -> str:
        """Return what was collected since the last time."""
        text = "".join(self._collected)
        self._collected.clear()
        self._length = 0
        return text

    def begin(self, name: str, attrs: Any) -> None:
        """Told of each element that begins."""

    def end(self, name: str) -> None:
        """Told of each element that ends."""


class TextHandler(TextCollector):
    """Takes the texts that cells refer to."""

    def __init__(self, strings: Strings) -> None:
        super().__init__(frozenset({"t"}))
        self._strings = strings

    def end(self, name: str) -> None:
        if name == "si":
            self._strings.add(self.take())


class SheetHandler(TextCollector):
    """Writes a line for each row; what lies between two rows is empty lines."""

    def __init__(self, book: Book, strings: Strings, lines: BinaryIO) -> None:
        super().__init__(frozenset({"v", "t"}))
        self._book = book
        self._strings = strings
        self._lines = lines
        self._row = 0
        self._cells: list[str] = []
        self._column = 0
        self._kind, self._style = "n", PLAIN
        self._has_formula = False

    def begin(self, name: str, attrs: Any) -> None:
        if name == "c":
            self._begin_cell(attrs)
        elif name == "row":
            self._begin_row(attrs.get("r"))
        elif name == "f":
            self._has_formula = True

    def end(self, name: str) -> None:
        if name == "c":
            self._end_cell()
        elif name == "row":
            self._lines.write(f"{csv_line(self._cells)}\n".encode())

    def _begin_row(self, reference: str | None) -> None:
        number = int(reference) if _is_number(reference) else self._row + 1
        if not self._row < number <= MAX_ROWS:
            raise Damaged(f"row {number} follows row {self._row}")
        self._lines.write(b"\n" * (number - self._row - 1))
        self._row = number
        self._cells = []

    def _begin_cell(self, attrs: Any) -> None:
        self._column = self._column_of(attrs.get("r"))
        style = attrs.get("s")
        number = int(style) if _is_number(style) else 0
        styles = self._book.styles
        self._style = styles[number] if number < len(styles) else PLAIN
        self._kind = attrs.get("t", "n")
        self._has_formula = False

    def _column_of(self, reference: str | None) -> int:
        """Return the column's number from 0: where the cell says, or the next one."""
        found = _REFERENCE.fullmatch(reference) if reference else None
        column = _column_number(found[1]) if found else len(self._cells)
        if not len(self._cells) <= column < MAX_COLUMNS:
            raise Damaged(f"cell {reference} is out of place")
        return column

    def _end_cell(self) -> None:
        raw = self.take()
        self._cells += [""] * (self._column - len(self._cells))
        text = self._text(raw) if raw else ""
        # Only a text can be the empty result of a formula.
        if self._has_formula and not raw and self._kind != "str":
            text = NO_RESULT
        self._cells.append(
            _LINE_ENDS.sub(" ", text) if not text.isprintable() else text
        )

    def _text(self, raw: str) -> str:
        if self._kind == "s":
            return self._strings[int(raw) if _is_number(raw) else -1]
        if self._kind == "b":
            return "true" if raw == "1" else "false"
        if self._kind != "n":
            return raw
        try:
            return self._number(raw)
        except (ValueError, OverflowError) as error:
            raise Damaged(f"row {self._row}: {error}") from None

    def _number(self, raw: str) -> str:
        if self._style.is_date or self._style.is_span:
            value = from_excel(
                float(raw), self._book.epoch, timedelta=self._style.is_span
            )
            return moment_text(value)
        return number_text(raw, self._style.width)


def moment_text(value: datetime | date | time | timedelta) -> str:
    """Return a date as 2026-03-31, and with a time of day as 2026-03-31T14:05:00."""
    if isinstance(value, datetime):
        value = (value + timedelta(milliseconds=500)).replace(microsecond=0)
        return value.isoformat() if value.time() != time() else str(value.date())
    return value.isoformat() if isinstance(value, date | time) else str(value)


def _is_number(text: str | None) -> TypeGuard[str]:
    return text is not None and text.isascii() and text.isdigit() and len(text) < 10


def _column_number(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1
