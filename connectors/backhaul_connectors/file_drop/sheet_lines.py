"""Converts any spreadsheet to CSV lines, by the reader of its format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul_connectors.file_drop.format_detection import FileFormat

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from backhaul_connectors.file_drop.files import TemporaryCopies


def spread_sheet(
    stream: BinaryIO,
    found: FileFormat,
    lines: BinaryIO,
    copies: TemporaryCopies,
    *,
    sheet: str,
    max_bytes: int,
) -> Iterator[None]:
    """Write a line for each row of the sheet, in steps. Raises FileUnreadable.

    Neither reader is imported before a spreadsheet comes: they take a third of a
    second.
    """
    if found is FileFormat.BINARY:
        from backhaul_connectors.file_drop.spreadsheet_process import spread_binary

        check_unpacked_size(stream, max_bytes)
        yield from spread_binary(stream, lines, sheet=sheet, max_bytes=max_bytes)
    else:
        from backhaul_connectors.file_drop.xlsx import spread

        texts = copies.make()
        yield from spread(stream, lines, texts, sheet=sheet, max_bytes=max_bytes)


def check_unpacked_size(stream: BinaryIO, max_bytes: int) -> None:
    """Refuse an XLSB or ODS archive that would unpack to too much."""
    from backhaul_connectors.file_drop.format_detection import ZIP
    from backhaul_connectors.file_drop.xlsx import open_archive

    stream.seek(0)
    if stream.read(len(ZIP)) == ZIP:
        open_archive(stream, max_bytes).close()
