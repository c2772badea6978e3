"""What an XLSX file says about itself: sheets, formats of cells, and its limits."""

from __future__ import annotations

import posixpath
import re
import struct
from typing import TYPE_CHECKING, BinaryIO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import ParseError, fromstring
from msgspec import Struct
from openpyxl.styles.numbers import (
    BUILTIN_FORMATS,
    is_date_format,
    is_timedelta_format,
)
from openpyxl.utils.datetime import MAC_EPOCH, WINDOWS_EPOCH

from backhaul_connectors.file_drop.found import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from xml.etree.ElementTree import Element
    from zipfile import ZipInfo

MAX_RATIO = 100
FREE_OF_RATIO_BYTES = 100_000
"""Little parts pack well and do no harm."""
MAX_DIRECTORY_BYTES = 1_000_000
MAX_PART_BYTES = 5_000_000
DAMAGED = "the spreadsheet is damaged: {}; open it and save it again"

_END = struct.Struct("<4s4H2LH")
_LARGE = struct.Struct("<40xQ8x20x")
_ZEROS = re.compile("0{2,}")


class Style(Struct, frozen=True):
    """How a number is shown: as a date, as a time span, or with leading zeros."""

    is_date: bool = False
    is_span: bool = False
    width: int = 0


class Book(Struct, frozen=True):
    """Where the sheet and its texts lie, and what the cells' style numbers mean."""

    sheet: str
    strings: str | None
    styles: tuple[Style, ...]
    epoch: datetime


def open_archive(stream: BinaryIO, max_bytes: int) -> ZipFile:
    """Open the file as what an XLSX is. Raises Unreadable for one that is a bomb."""
    check_directory(stream)
    try:
        archive = ZipFile(stream)
    except (BadZipFile, ValueError, NotImplementedError) as error:
        raise Unreadable(DAMAGED.format(error)) from None
    for part in archive.infolist():
        _check_part(part)
    unpacked = sum(part.file_size for part in archive.infolist())
    if unpacked > max_bytes:
        raise Unreadable(
            f"the spreadsheet unpacks to {unpacked / 1e6:,.0f} MB, more than "
            f"max_unzipped_mb allows ({max_bytes // 10**6}); raise it, or save as CSV"
        )
    return archive


def check_directory(stream: BinaryIO) -> None:
    """Refuse a list of parts that would fill the memory before it can be looked at."""
    size = stream.seek(0, 2)
    stream.seek(max(size - 65_536 - _END.size, 0))
    tail = stream.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < _END.size:
        raise Unreadable(DAMAGED.format("its end is missing"))
    directory_bytes = _END.unpack_from(tail, at)[5]
    if at >= _LARGE.size and tail[at - 20 : at].startswith(b"PK\x06\x07"):
        # The larger kind of end, in front of this one, is what counts.
        directory_bytes = _LARGE.unpack_from(tail, at - _LARGE.size)[0]
    if directory_bytes > MAX_DIRECTORY_BYTES:
        raise Unreadable("the spreadsheet lists too many parts; save it again")


def _check_part(part: ZipInfo) -> None:
    if part.flag_bits & 1:
        raise Unreadable("the spreadsheet has a password; save it without")
    if part.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise Unreadable(DAMAGED.format("it is packed in an unusual way"))
    too_dense = part.file_size > MAX_RATIO * max(part.compress_size, 1)
    if too_dense and part.file_size > FREE_OF_RATIO_BYTES:
        raise Unreadable(
            f"the spreadsheet unpacks to more than {MAX_RATIO} times its size, as only "
            "harmful ones do; save it as CSV if it is yours"
        )


def read_book(archive: ZipFile, sheet: str) -> Book:
    """Find the sheet called `sheet`, or the first that is not hidden."""
    main = _first_target(archive, "", "/officeDocument")
    if main is None:
        raise Unreadable(DAMAGED.format("it holds no workbook"))
    root = _root(archive, main)
    targets = {name: target for name, _, target in _relations(archive, main)}
    styles = _first_target(archive, main, "/styles")
    return Book(
        sheet=targets.get(_sheet_relation(root, sheet), ""),
        strings=_first_target(archive, main, "/sharedStrings"),
        styles=_styles(_root(archive, styles)) if styles else (),
        epoch=_epoch(root),
    )


def _root(archive: ZipFile, name: str) -> Element:
    try:
        if archive.getinfo(name).file_size > MAX_PART_BYTES:
            raise Unreadable(DAMAGED.format(f"{name} is too large"))
        root: Element = fromstring(archive.read(name), forbid_dtd=True)
    except (KeyError, BadZipFile, ParseError, EOFError) as error:
        raise Unreadable(DAMAGED.format(error)) from None
    except DefusedXmlException:
        raise Unreadable(FORBIDDEN) from None
    return root


FORBIDDEN = "the spreadsheet declares its own XML entities, as only harmful ones do"


def _elements(root: Element, name: str) -> Iterator[Element]:
    """Yield elements of that name, whatever namespace this edition of XLSX has."""
    return (each for each in root.iter() if each.tag.rpartition("}")[2] == name)


def _relations(archive: ZipFile, of: str) -> list[tuple[str, str, str]]:
    """Return id, kind and target of all that a part refers to inside the archive."""
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
        raise Unreadable(f"the spreadsheet has no sheet {wanted!r}; it has: {names}")
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


def _styles(root: Element) -> tuple[Style, ...]:
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


def _style(code: str) -> Style:
    if is_timedelta_format(code):
        return Style(is_span=True)
    width = len(code) if _ZEROS.fullmatch(code) else 0
    return Style(is_date=bool(is_date_format(code)), width=width)
