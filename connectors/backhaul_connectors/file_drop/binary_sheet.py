"""The process that converts an XLS, XLSB or ODS file to CSV lines.

It reads the file from standard input and writes to standard output, which is a file.
Its arguments are the most bytes that it may write, and the name of the sheet.
"""

from __future__ import annotations

import errno
import os
import re
import resource
import sys
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO

from backhaul_connectors.file_drop.csv_reader import moment_text, number_text
from backhaul_connectors.file_drop.json_reader import csv_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from python_calamine import CalamineWorkbook, SheetMetadata


LIMIT_MEMORY_BYTES = 1_000_000_000
"""Of address space, which includes Python itself."""
LIMIT_CPU_SECONDS = 120
UNREADABLE, NO_LIBRARY, TOO_LARGE = 3, 4, 5
"""Exit codes."""
_LINE_ENDS = re.compile(r"[\r\n]+")


class SheetMissing(Exception):
    """The workbook lacks the sheet; the text names those that it has."""


def main(arguments: Sequence[str]) -> int:
    """Convert the file; return the exit code."""
    max_bytes, sheet = int(arguments[0]), arguments[1]
    try:
        import python_calamine
    except ImportError as error:
        return _failed(NO_LIBRARY, error)
    limit(max_bytes)
    source = os.fdopen(0, "rb", closefd=False)
    lines = os.fdopen(1, "wb", closefd=False)
    try:
        book = python_calamine.CalamineWorkbook.from_filelike(source)
        _write(book, sheet, lines)
        lines.flush()
    except OSError as error:
        code = TOO_LARGE if error.errno == errno.EFBIG else UNREADABLE
        return _failed(code, error)
    except (python_calamine.CalamineError, SheetMissing, ValueError) as error:
        return _failed(UNREADABLE, error)
    return 0


def limit(max_bytes: int) -> None:
    """Set the limits of this process; they can never be raised again."""
    limits = {
        resource.RLIMIT_AS: LIMIT_MEMORY_BYTES,
        resource.RLIMIT_CPU: LIMIT_CPU_SECONDS,
        resource.RLIMIT_FSIZE: max_bytes,
        resource.RLIMIT_CORE: 0,
    }
    for kind, most in limits.items():
        _, hard = resource.getrlimit(kind)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))


def _failed(code: int, error: Exception) -> int:
    sys.stderr.write(str(error))
    return code


def _write(book: CalamineWorkbook, wanted: str, lines: BinaryIO) -> None:
    """Write a line for each row from the first one of the sheet."""
    sheet = book.get_sheet_by_name(_sheet_name(book.sheets_metadata, wanted))
    if sheet.start is None:
        return
    left = [""] * sheet.start[1]
    for row in sheet.iter_rows():
        cells = chain(left, map(cell_text, row))
        lines.write(f"{csv_line(list(cells))}\n".encode())


def _sheet_name(sheets: Sequence[SheetMetadata], wanted: str) -> str:
    """Return the sheet called `wanted`, or the first that is not hidden."""
    from python_calamine import SheetVisibleEnum

    found = [each.name for each in sheets if each.name == wanted]
    visible = [each.name for each in sheets if each.visible == SheetVisibleEnum.Visible]
    name = next(iter(found if wanted else visible), None)
    if name is None:
        names = ", ".join(each.name for each in sheets)
        raise SheetMissing(f"it has no sheet {wanted!r}; it has: {names}")
    return name


def cell_text(value: Any) -> str:
    """Return a cell as other spreadsheets' cells are written."""
    if isinstance(value, str):
        return _LINE_ENDS.sub(" ", value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return number_text(repr(value))
    return moment_text(value)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
