"""How a file is to be read: in place, or a copy of it as lines of UTF-8."""

from __future__ import annotations

import codecs
from contextlib import closing
from typing import TYPE_CHECKING

from msgspec.structs import replace

from backhaul_connectors.file_drop.found import Copy
from backhaul_connectors.file_drop.reading import json_layout_of, layout_of
from backhaul_connectors.file_drop.waiting import in_thread

if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import BinaryIO

    from backhaul_connectors.file_drop.copies import Copies
    from backhaul_connectors.file_drop.found import Source
    from backhaul_connectors.file_drop.reading import Digest, Layout
    from backhaul_connectors.file_drop.settings import Settings

SPREADSHEET, JSON = ".xlsx", (".jsonl", ".ndjson")
CHUNK_BYTES = 1_000_000


async def understand(
    file: Source, digest: Digest, settings: Settings, copies: Copies
) -> tuple[Source, Layout]:
    """Return what to read and how. Raises Unreadable, or Changed."""
    name = file.name.lower()
    if name.endswith(SPREADSHEET):
        lines, texts = copies.make(), copies.make()
        await _run(_spread(file, lines, texts, settings))
        rows = Copy(file.name, file.form, file.fingerprint, lines)
        layout = await in_thread(layout_of, rows, "utf-8", ",")
        return rows, replace(layout, pads_rows=True)
    encoding = digest.encoding if settings.encoding == "auto" else settings.encoding
    if encoding.startswith("utf-16"):
        lines = copies.make()
        await _run(_decode(file, encoding, lines))
        file = Copy(file.name, file.form, file.fingerprint, lines)
        encoding = "utf-8"
    if name.endswith(JSON):
        return file, json_layout_of(file)
    return file, await in_thread(layout_of, file, encoding, settings.delimiter)


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


def _decode(file: Source, encoding: str, lines: BinaryIO) -> Generator[None]:
    """Write the file as UTF-8; what is no letter becomes what no row may hold."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    with file.open() as stream:
        while content := stream.read(CHUNK_BYTES):
            lines.write(_text(decoder.decode(content)))
            yield
        lines.write(_text(decoder.decode(b"", final=True)))


def _text(letters: str) -> bytes:
    return letters.replace("\N{REPLACEMENT CHARACTER}", "\0").encode()
