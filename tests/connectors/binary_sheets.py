"""XLS, ODS and XLSB files as programs write them, and as one who means harm does."""

from __future__ import annotations

import io
import struct
import zipfile
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

import xlwt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

NOT_AVAILABLE = 42
"""The number of the error #N/A."""
ODS = "urn:oasis:names:tc:opendocument:xmlns"
_STYLES = {datetime: "YYYY-MM-DD HH:MM", date: "YYYY-MM-DD", time: "HH:MM"}


class CellError:
    """A cell that shows #N/A."""


class Unsaved(str):
    """A formula whose result was not saved, as other programs write it."""

    __slots__ = ()


def xls(*rows: Sequence[Any], sheets: Mapping[str, bool] | None = None) -> bytes:
    """Return an XLS file with the rows in its first visible sheet.

    `sheets` says by name whether each is visible.
    """
    book = xlwt.Workbook()
    for name, visible in (sheets or {"One": True}).items():
        sheet = book.add_sheet(name)
        sheet.visibility = 0 if visible else 1
        if not visible:
            sheet.write(0, 0, "hidden")
            continue
        for row, cells in enumerate(rows):
            for column, value in enumerate(cells):
                _write(sheet, row, column, value)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def _write(sheet: Any, row: int, column: int, value: Any) -> None:
    if value is None:
        return
    if isinstance(value, CellError):
        sheet.row(row).set_cell_error(column, NOT_AVAILABLE)
    elif isinstance(value, Unsaved):
        sheet.write(row, column, xlwt.Formula(value))
    else:
        code = _STYLES.get(type(value), "General")
        sheet.write(row, column, value, xlwt.easyxf(num_format_str=code))


def ods(*rows: Sequence[Any], repeated: int = 1) -> bytes:
    """Return an ODS file; its rows are `repeated`."""
    body = "".join(
        f'<table:table-row table:number-rows-repeated="{repeated}">'
        f"{''.join(map(_ods_cell, cells))}</table:table-row>"
        for cells in rows
    )
    names = " ".join(
        f'xmlns:{each}="{ODS}:{each}:1.0"' for each in ("office", "table", "text")
    )
    content = (
        f'<?xml version="1.0" encoding="UTF-8"?><office:document-content {names}>'
        f'<office:body><office:spreadsheet><table:table table:name="One">{body}'
        "</table:table></office:spreadsheet></office:body></office:document-content>"
    )
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    manifest = (
        f'<manifest:manifest xmlns:manifest="{ODS}:manifest:1.0">'
        f'<manifest:file-entry manifest:full-path="/" manifest:media-type="{kind}"/>'
        "</manifest:manifest>"
    )
    parts = {
        "mimetype": kind,
        "META-INF/manifest.xml": manifest,
        "content.xml": content,
    }
    return _archive(parts)


def _ods_cell(value: Any) -> str:
    if value is None:
        return "<table:table-cell/>"
    if isinstance(value, int | float):
        kind, name = "float", "value"
    elif isinstance(value, date):
        kind, name, value = "date", "date-value", value.isoformat()
    else:
        text = f"<text:p>{escape(value)}</text:p>"
        return f'<table:table-cell office:value-type="string">{text}</table:table-cell>'
    return (
        f'<table:table-cell office:value-type="{kind}" office:{name}="{value}">'
        f"<text:p>{value}</text:p></table:table-cell>"
    )


def _archive(parts: Mapping[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            is_kind = name == "mimetype"
            how = zipfile.ZIP_STORED if is_kind else zipfile.ZIP_DEFLATED
            archive.writestr(name, content, how)
    return out.getvalue()


PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def xlsb(*rows: Sequence[Any]) -> bytes:
    """Return an XLSB file by [MS-XLSB], with the records that a reader needs."""
    sheet = _record(0x81) + _record(0x94, _dimension(rows)) + _record(0x91)
    for row, cells in enumerate(rows):
        sheet += _record(0, struct.pack("<IIH3xI", row, 0, 300, 0))
        for column, value in enumerate(cells):
            sheet += b"".join(_xlsb_cell(column, value))
    sheet += _record(0x92) + _record(0x82)
    bundle = struct.pack("<II", 0, 1) + _wide("s") + _wide("One")
    book = _record(0x83) + _record(0x8F) + _record(0x9C, bundle) + _record(0x90)
    relations = f'<Relationships xmlns="{PACKAGE}">{{}}</Relationships>'
    relation = '<Relationship Id="{}" Type="{}/{}" Target="{}"/>'
    return _archive(
        {
            "[Content_Types].xml": "<Types/>",
            "_rels/.rels": relations.format(
                relation.format("a", OFFICE, "officeDocument", "xl/workbook.bin")
            ),
            "xl/_rels/workbook.bin.rels": relations.format(
                relation.format("s", OFFICE, "worksheet", "worksheets/sheet1.bin")
            ),
            "xl/workbook.bin": book + _record(0x84),
            "xl/worksheets/sheet1.bin": sheet,
        }
    )


def _dimension(rows: Sequence[Sequence[Any]]) -> bytes:
    width = max(map(len, rows))
    return struct.pack("<IIII", 0, len(rows) - 1, 0, width - 1)


def _xlsb_cell(column: int, value: Any) -> Iterator[bytes]:
    place = struct.pack("<II", column, 0)
    if isinstance(value, CellError):
        yield _record(3, place + bytes([NOT_AVAILABLE]))
    elif isinstance(value, int | float):
        yield _record(5, place + struct.pack("<d", value))
    elif value is not None:
        yield _record(6, place + _wide(value))


def _wide(text: str) -> bytes:
    return struct.pack("<I", len(text)) + text.encode("utf-16-le")


def _record(kind: int, content: bytes = b"") -> bytes:
    """Return a record: its type and its length are in units of seven bits."""
    head = bytes([kind]) if kind < 0x80 else bytes([kind & 0x7F | 0x80, kind >> 7])
    length = len(content)
    sizes = []
    while True:
        sizes.append(length & 0x7F | (0x80 if length > 0x7F else 0))
        length >>= 7
        if not length:
            return head + bytes(sizes) + content
