"""XLSX files: as a spreadsheet program writes them, and as one who means harm does."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING, Any

from openpyxl import Workbook

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

NAMESPACE = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
PARTS = {
    "_rels/.rels": f'<Relationships xmlns="{PACKAGE}"><Relationship Id="a" '
    f'Type="{OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
    "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}"><Relationship '
    f'Id="s" Type="{OFFICE}/worksheet" Target="worksheets/sheet1.xml"/>'
    "</Relationships>",
    "xl/workbook.xml": f'<workbook xmlns="{NAMESPACE}" xmlns:r="{OFFICE}"><sheets>'
    '<sheet name="One" sheetId="1" r:id="s"/></sheets></workbook>',
}


def workbook(*rows: Sequence[Any], formats: Mapping[str, str] | None = None) -> bytes:
    """Return what a spreadsheet program saves; `formats` are of cells, as A2."""
    book = Workbook()
    sheet = book.active
    for row in rows:
        sheet.append(row)
    for cell, number_format in (formats or {}).items():
        sheet[cell].number_format = number_format
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def archive(
    sheet: str | bytes, more: Mapping[str, str] | None = None, **options: Any
) -> bytes:
    """Return the parts of a workbook around a sheet that is given as XML."""
    out = io.BytesIO()
    options.setdefault("compression", zipfile.ZIP_DEFLATED)
    with zipfile.ZipFile(out, "w", **options) as parts:
        for name, text in {**PARTS, **(more or {})}.items():
            parts.writestr(name, text)
        parts.writestr("xl/worksheets/sheet1.xml", sheet)
    return out.getvalue()


def sheet_of(rows: Iterable[str]) -> str:
    """Return a sheet with the cells of lines of CSV without quotes, all as text."""
    body = "".join(
        "<row>"
        + "".join(f'<c t="inlineStr"><is><t>{cell}</t></is></c>' for cell in cells)
        + "</row>"
        for cells in (row.strip().split(",") for row in rows)
    )
    return f'<worksheet xmlns="{NAMESPACE}"><sheetData>{body}</sheetData></worksheet>'
