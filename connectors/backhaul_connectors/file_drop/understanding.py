"""How a file is to be read: in place, or a copy of it as lines of UTF-8."""

from __future__ import annotations

import codecs
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from backhaul_connectors.file_drop.completeness import JSON
from backhaul_connectors.file_drop.encodings import READ_IN_PLACE, encoding_of
from backhaul_connectors.file_drop.formats import check_format
from backhaul_connectors.file_drop.found import Copy
from backhaul_connectors.file_drop.header import json_layout_of, layout_of
from backhaul_connectors.file_drop.json_array import is_array, spread_array
from backhaul_connectors.file_drop.waiting import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import BinaryIO

    from backhaul_connectors.file_drop.copies import Copies
    from backhaul_connectors.file_drop.found import Source
    from backhaul_connectors.file_drop.header import Layout
    from backhaul_connectors.file_drop.reading import Digest
    from backhaul_connectors.file_drop.settings import Settings

SPREADSHEET = (".xlsx", ".xlsm")
CHUNK_BYTES = 1_000_000


async def understand(
    file: Source, digest: Digest, settings: Settings, copies: Copies
) -> tuple[Source, Layout]:
    """Return what to read and how. Raises Unreadable, or Changed."""
    name = file.name.lower()
    is_sheet = name.endswith(SPREADSHEET)
    await in_thread(_check, file, is_sheet)
    if is_sheet:
        lines, texts = copies.make(), copies.make()
        await _run(_spread(file, lines, texts, settings))
        sheet = Copy(file.name, file.form, file.fingerprint, lines)
        layout = await in_thread(layout_of, sheet, "utf-8", settings, delimiter=",")
        return sheet, replace(layout, pads_rows=True)
    encoding, doubt = await in_thread(encoding_of, digest, settings)
    if encoding not in READ_IN_PLACE:
        file = await _copied(file, copies, partial(_decode, encoding=encoding))
        encoding = "utf-8"
    rows, layout = await _layout(file, encoding, settings, copies)
    return rows, replace(layout, doubt=doubt)


async def _layout(
    file: Source, encoding: str, settings: Settings, copies: Copies
) -> tuple[Source, Layout]:
    """Return what to read of a text, and how."""
    if not file.name.lower().endswith(JSON):
        return file, await in_thread(layout_of, file, encoding, settings)
    if await in_thread(_is_array, file):
        file = await _copied(file, copies, _spread_array)
    return file, json_layout_of(file)


async def _copied(
    file: Source, copies: Copies, write: Callable[[Source, BinaryIO], Generator[None]]
) -> Copy:
    """Return a copy of the file that `write` writes, one short step after another."""
    lines = copies.make()
    await _run(write(file, lines))
    return Copy(file.name, file.form, file.fingerprint, lines)


def _check(file: Source, is_sheet: bool) -> None:
    with file.open() as stream:
        check_format(stream, is_sheet=is_sheet)


def _is_array(file: Source) -> bool:
    with file.open() as stream:
        is_lines = not file.name.lower().endswith(".json")
        return is_array(stream, is_lines=is_lines)


def _spread_array(file: Source, lines: BinaryIO) -> Generator[None]:
    with file.open() as stream:
        yield from spread_array(stream, lines)


async def _run(work: Generator[None]) -> None:
    """Do the work in a thread, one short step after the other."""
    with closing(work):
        while await in_thread(next, work, True) is None:
            pass


def _spread(
    file: Source, lines: BinaryIO, texts: BinaryIO, settings: Settings
) -> Generator[None]:
    # What reads spreadsheets takes a third of a second to import.
    from backhaul_connectors.file_drop.spreadsheet import spread

    max_bytes = settings.max_unzipped_mb * 1_000_000
    with file.open() as stream:
        yield from spread(
            stream, lines, texts, sheet=settings.sheet, max_bytes=max_bytes
        )


def _decode(file: Source, lines: BinaryIO, encoding: str) -> Generator[None]:
    """Write the file as UTF-8; what is no letter becomes what no row may hold."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    with file.open() as stream:
        while content := stream.read(CHUNK_BYTES):
            lines.write(_text(decoder.decode(content)))
            yield
        lines.write(_text(decoder.decode(b"", final=True)))


def _text(letters: str) -> bytes:
    return letters.replace("\N{REPLACEMENT CHARACTER}", "\0").encode()
