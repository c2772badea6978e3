"""What a file is by its content, where that is none of the formats that are read."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zipfile import BadZipFile, ZipFile

from backhaul_connectors.file_drop.csv_rows import shown
from backhaul_connectors.file_drop.found import Unreadable

if TYPE_CHECKING:
    from typing import BinaryIO

HEAD_BYTES = 1_024
SAVE_AS = "save it as .xlsx, or as CSV UTF-8"
MOST_PARTS = 3
"""Names in an archive that a message shows."""
BY_START = {
    b"\xd0\xcf\x11\xe0": "is an old or locked spreadsheet (.xls); "
    f"{SAVE_AS}, without a password",
    b"\x09\x08\x10\x00": f"is a very old spreadsheet (.xls); {SAVE_AS}",
    b"\x09\x08\x08\x00": f"is a very old spreadsheet (.xls); {SAVE_AS}",
    b"\x09\x04\x06\x00": f"is a very old spreadsheet (.xls); {SAVE_AS}",
    b"\x09\x02\x06\x00": f"is a very old spreadsheet (.xls); {SAVE_AS}",
    b"\x1f\x8b": "is compressed with gzip; unpack it, and drop the file that is inside",
    b"BZh": "is compressed with bzip2; unpack it, and drop the file that is inside",
    b"\xfd7zXZ": "is compressed with xz; unpack it, and drop the file that is inside",
    b"\x28\xb5\x2f\xfd": "is compressed with zstd; unpack it, and drop the file inside",
    b"7z\xbc\xaf": "is a 7z archive; unpack it, and drop the files that are inside",
    b"Rar!": "is a RAR archive; unpack it, and drop the files that are inside",
    b"%PDF": "is a PDF document; export the data as CSV",
    b"{\\rtf": "is a text document (RTF); export the data as CSV",
    b"SQLite format 3": "is a database; export the data as CSV",
    b"PAR1": "is a Parquet file; export the data as CSV",
    b"\x89PNG": "is a picture; export the data as CSV",
    b"\xff\xd8\xff": "is a picture; export the data as CSV",
    b"II*\x00": "is a picture; export the data as CSV",
}
MARKUP = (
    (
        b"urn:schemas-microsoft-com:office:spreadsheet",
        "a spreadsheet of 2003 in XML",
    ),
    (b"<html", "an HTML page, as some programs write it under the name .xls"),
    (b"<table", "an HTML table, as some programs write it under the name .xls"),
    (b"<!doctype html", "an HTML page; a login or error page may have been saved"),
    (b"<?xml", "an XML document"),
)
ZIP = b"PK\x03\x04"
SHEET_PARTS = ("[Content_Types].xml", "xl/", "_rels/")
"""What the names of the parts of an XLSX file begin with."""


def check_format(stream: BinaryIO, *, is_sheet: bool) -> None:
    """Raise Unreadable for a file that is none of the formats that are read.

    `is_sheet` says that its name is that of a spreadsheet.
    """
    head = stream.read(HEAD_BYTES)
    for start, what in BY_START.items():
        if head.startswith(start):
            raise Unreadable(f"the file {what}")
    plain = head.replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n")
    if plain.startswith(b"<"):
        raise Unreadable(f"the file is {_markup(plain.lower())}; open it and {SAVE_AS}")
    if head.startswith(ZIP):
        _check_archive(stream, is_sheet=is_sheet)
    elif head.startswith(b"PK"):
        raise Unreadable(f"the file is a damaged or empty archive; {SAVE_AS}")
    elif is_sheet:
        raise Unreadable(_no_sheet(plain))


def _markup(plain: bytes) -> str:
    return next((what for mark, what in MARKUP if mark in plain), "an XML document")


def _no_sheet(plain: bytes) -> str:
    if plain[:1].isascii() and plain[:1].isalnum():
        return "the file is text, and no spreadsheet; give it a name that ends in .csv"
    return f"the file is no spreadsheet; {SAVE_AS}"


def _check_archive(stream: BinaryIO, *, is_sheet: bool) -> None:
    # What reads spreadsheets takes a third of a second to import.
    from backhaul_connectors.file_drop.workbook import check_directory

    try:
        check_directory(stream)
        with ZipFile(stream) as archive:
            names = archive.namelist()
    except (BadZipFile, ValueError, NotImplementedError, OSError, Unreadable):
        names = list(SHEET_PARTS)  # the reader of spreadsheets says what is wrong
    if "mimetype" in names:
        raise Unreadable(f"the file is an OpenDocument file (.ods); {SAVE_AS}")
    if any(name.endswith("workbook.bin") for name in names):
        raise Unreadable(f"the file is a binary spreadsheet (.xlsb); {SAVE_AS}")
    if not any(name.startswith(SHEET_PARTS) for name in names):
        inside = ", ".join(map(shown, names[:MOST_PARTS])) or "nothing"
        raise Unreadable(
            f"the file is a ZIP archive with {inside} inside; unpack it, and drop the "
            "files that are inside"
        )
    if not is_sheet:
        raise Unreadable(
            "the file is a spreadsheet, not CSV; name it .xlsx or save it as CSV UTF-8"
        )
