"""Converts a sheet of an XLSX file to CSV lines; checks the archive's limits."""

from __future__ import annotations

import os
import posixpath
import re
import struct
from array import array
from contextlib import closing
from typing import TYPE_CHECKING, Any, BinaryIO, TypeGuard
from xml.sax import SAXException
from xml.sax.handler import ContentHandler
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile
from zlib import error as ZlibError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import ParseError, fromstring
from defusedxml.expatreader import create_parser
from msgspec import Struct
from openpyxl.styles.numbers import BUILTIN_FORMATS, is_date_format, is_timedelta_format
from openpyxl.utils.datetime import MAC_EPOCH, WINDOWS_EPOCH, from_excel

from backhaul_connectors.file_drop.csv_reader import (
    NO_RESULT,
    moment_text,
    number_text,
)
from backhaul_connectors.file_drop.files import FileUnreadable
from backhaul_connectors.file_drop.json_reader import csv_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from xml.etree.ElementTree import Element
    from zipfile import ZipInfo


MAX_RATIO = 100
FREE_OF_RATIO_BYTES = 100_000
"""Small parts compress well and do no harm."""
MAX_DIRECTORY_BYTES = 1_000_000
MAX_PART_BYTES = 5_000_000
DAMAGED = "the spreadsheet is damaged: {}; open it and save it again"

_END = struct.Struct("<4s4H2LH")
_LARGE = struct.Struct("<40xQ8x20x")
_ZEROS = re.compile("0{2,}")
FORBIDDEN = (
    "the spreadsheet declares its own XML entities, as malicious files do; save it as"
    " CSV"
)
CHUNK_BYTES = 65_536
STEP_CHUNKS = 16
MAX_TEXT = 32_767
MAX_ROWS, MAX_COLUMNS = 1_048_576, 16_384
_REFERENCE = re.compile("([A-Z]{1,3})([0-9]{1,7})")
_LINE_ENDS = re.compile(r"[\r\n]+")


class NumberStyle(Struct, frozen=True):
    """How a number is shown: as a date, as a duration, or with leading zeros."""

    is_date: bool = False
    is_span: bool = False
    width: int = 0


class Workbook(Struct, frozen=True):
    """The places of the sheet and its texts, and the styles of cells."""

    sheet: str
    strings: str | None
    styles: tuple[NumberStyle, ...]
    epoch: datetime


def open_archive(stream: BinaryIO, max_bytes: int) -> ZipFile:
    """Open the file as an XLSX archive. Raises FileUnreadable for a ZIP bomb."""
    check_directory(stream)
    try:
        archive = ZipFile(stream)
    except (BadZipFile, ValueError, NotImplementedError) as error:
        raise FileUnreadable(DAMAGED.format(error)) from None
    for part in archive.infolist():
        _check_part(part)
    unpacked = sum(part.file_size for part in archive.infolist())
    if unpacked > max_bytes:
        raise FileUnreadable(
            f"the spreadsheet unpacks to {unpacked / 1e6:,.0f} MB, more than"
            f" max_unzipped_mb allows ({max_bytes // 10**6}); set a higher"
            " max_unzipped_mb, or save the spreadsheet as CSV"
        )
    return archive


def check_directory(stream: BinaryIO) -> None:
    """Refuse a list of parts that would fill the memory before a check."""
    size = stream.seek(0, 2)
    stream.seek(max(size - 65_536 - _END.size, 0))
    tail = stream.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < _END.size:
        raise FileUnreadable(DAMAGED.format("its end is missing"))
    directory_bytes = _END.unpack_from(tail, at)[5]
    if at >= _LARGE.size and tail[at - 20 : at].startswith(b"PK\x06\x07"):
        # The ZIP64 end record before this one counts.
        directory_bytes = _LARGE.unpack_from(tail, at - _LARGE.size)[0]
    if directory_bytes > MAX_DIRECTORY_BYTES:
        raise FileUnreadable(
            "the spreadsheet has too many internal parts; open it and save it again"
        )


def _check_part(part: ZipInfo) -> None:
    if part.flag_bits & 1:
        raise FileUnreadable(
            "the spreadsheet has a password; save it without a password"
        )
    if part.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise FileUnreadable(DAMAGED.format("it has an unusual compression"))
    too_dense = part.file_size > MAX_RATIO * max(part.compress_size, 1)
    if too_dense and part.file_size > FREE_OF_RATIO_BYTES:
        raise FileUnreadable(
            f"the spreadsheet unpacks to more than {MAX_RATIO} times its size, as"
            " only malicious files usually do. If you trust the file, save it as"
            " CSV"
        )


def read_book(archive: ZipFile, sheet: str) -> Workbook:
    """Find the sheet called `sheet`, or the first that is not hidden."""
    main = _first_target(archive, "", "/officeDocument")
    if main is None:
        raise FileUnreadable(DAMAGED.format("it holds no workbook"))
    root = _root(archive, main)
    targets = {name: target for name, _, target in _relations(archive, main)}
    styles = _first_target(archive, main, "/styles")
    return Workbook(
        sheet=targets.get(_sheet_relation(root, sheet), ""),
        strings=_first_target(archive, main, "/sharedStrings"),
        styles=_styles(_root(archive, styles)) if styles else (),
        epoch=_epoch(root),
    )


def _root(archive: ZipFile, name: str) -> Element:
    try:
        if archive.getinfo(name).file_size > MAX_PART_BYTES:
            raise FileUnreadable(DAMAGED.format(f"{name} is too large"))
        root: Element = fromstring(archive.read(name), forbid_dtd=True)
    except (KeyError, BadZipFile, ParseError, EOFError) as error:
        raise FileUnreadable(DAMAGED.format(error)) from None
    except DefusedXmlException:
        raise FileUnreadable(FORBIDDEN) from None
    return root


def _elements(root: Element, name: str) -> Iterator[Element]:
    """Yield elements of that name, in any namespace of XLSX."""
    return (each for each in root.iter() if each.tag.rpartition("}")[2] == name)


def _relations(archive: ZipFile, of: str) -> list[tuple[str, str, str]]:
    """Return id, kind and target of every reference of a part."""
    folder, base = posixpath.split(of)
    root = _root(archive, posixpath.join(folder, "_rels", f"{base}.rels"))
    return [
        (
            each.get("Id", ""),
            each.get("Type", ""),
            posixpath.normpath(posixpath.join("/", folder, each.get("Target", "")))[1:],
        )
        for each in _elements(root, "Relationship")
        if each.get("TargetMode") != "External"
    ]


def _first_target(archive: ZipFile, of: str, kind: str) -> str | None:
    found = (t for _, k, t in _relations(archive, of) if k.endswith(kind))
    return next(found, None)


def _sheet_relation(root: Element, wanted: str) -> str:
    sheets = list(_elements(root, "sheet"))
    visible = [each for each in sheets if each.get("state", "visible") == "visible"]
    named = [each for each in sheets if each.get("name") == wanted]
    found = (named if wanted else visible or sheets)[:1]
    if not found:
        names = ", ".join(each.get("name", "") for each in sheets)
        raise FileUnreadable(
            f"the spreadsheet has no sheet {wanted!r}; it has: {names}"
        )
    attributes = found[0].attrib.items()
    return next((value for name, value in attributes if name.endswith("}id")), "")


def _epoch(root: Element) -> datetime:
    properties = next(_elements(root, "workbookPr"), None)
    counts_from_1904 = properties is not None and properties.get("date1904") in (
        "1",
        "true",
    )
    epoch: datetime = MAC_EPOCH if counts_from_1904 else WINDOWS_EPOCH
    return epoch


def _styles(root: Element) -> tuple[NumberStyle, ...]:
    own = {
        each.get("numFmtId"): each.get("formatCode", "")
        for each in _elements(root, "numFmt")
    }
    cell_styles = next(_elements(root, "cellXfs"), None)
    numbers = [each.get("numFmtId", "0") for each in cell_styles or ()]
    return tuple(
        _style(own.get(number) or BUILTIN_FORMATS.get(_number(number), ""))
        for number in numbers
    )


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0


def _style(code: str) -> NumberStyle:
    if is_timedelta_format(code):
        return NumberStyle(is_span=True)
    width = len(code) if _ZEROS.fullmatch(code) else 0
    return NumberStyle(is_date=bool(is_date_format(code)), width=width)


PLAIN = NumberStyle()


class DamagedSheet(Exception):
    """The sheet is invalid; the text says how."""


def spread(
    stream: BinaryIO, lines: BinaryIO, texts: BinaryIO, *, sheet: str, max_bytes: int
) -> Iterator[None]:
    """Write the sheet to `lines`, in steps. Raises FileUnreadable.

    `texts` is an empty file for the texts that cells refer to by number.
    """
    try:
        with open_archive(stream, max_bytes) as archive:
            book = read_book(archive, sheet)
            strings = SharedStrings(texts)
            if book.strings:
                yield from _parse(archive, book.strings, TextHandler(strings))
            strings.finish()
            yield from _parse(archive, book.sheet, SheetHandler(book, strings, lines))
    except (
        BadZipFile,
        SAXException,
        DamagedSheet,
        KeyError,
        EOFError,
        ZlibError,
    ) as error:
        raise FileUnreadable(DAMAGED.format(error)) from None
    except DefusedXmlException:
        raise FileUnreadable(FORBIDDEN) from None


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


class SharedStrings:
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
            raise DamagedSheet(f"text {number} is missing")
        begin, end = self._ends[number], self._ends[number + 1]
        return os.pread(self._stream.fileno(), end - begin, begin).decode()


class TextCollector(ContentHandler):
    """Collects the characters of a value or a text, without phonetic hints."""

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
            raise DamagedSheet(f"a cell has more than {MAX_TEXT:,} letters")
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
        """Called for the start of each element."""

    def end(self, name: str) -> None:
        """Called for the end of each element."""


class TextHandler(TextCollector):
    """Collects the texts that cells refer to."""

    def __init__(self, strings: SharedStrings) -> None:
        super().__init__(frozenset({"t"}))
        self._strings = strings

    def end(self, name: str) -> None:
        if name == "si":
            self._strings.add(self.take())


class SheetHandler(TextCollector):
    """Writes a line for each row; missing rows become empty lines."""

    def __init__(self, book: Workbook, strings: SharedStrings, lines: BinaryIO) -> None:
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
            raise DamagedSheet(f"row {number} follows row {self._row}")
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
        """Return the column's number from 0: the cell's own, or the next one."""
        found = _REFERENCE.fullmatch(reference) if reference else None
        column = _column_number(found[1]) if found else len(self._cells)
        if not len(self._cells) <= column < MAX_COLUMNS:
            raise DamagedSheet(f"cell {reference} is out of order")
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
            raise DamagedSheet(f"row {self._row}: {error}") from None

    def _number(self, raw: str) -> str:
        if self._style.is_date or self._style.is_span:
            value = from_excel(
                float(raw), self._book.epoch, timedelta=self._style.is_span
            )
            return moment_text(value)
        return number_text(raw, self._style.width)


def _is_number(text: str | None) -> TypeGuard[str]:
    return text is not None and text.isascii() and text.isdigit() and len(text) < 10


def _column_number(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1
