"""Reads the first rows of a file whose layout is unknown, in each way that fits."""

from __future__ import annotations

import io
import json
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from backhaul_connectors.file_drop.completeness import JSON
from backhaul_connectors.file_drop.csv_reader import DELIMITERS, Position, RowReader
from backhaul_connectors.file_drop.files import TemporaryCopies
from backhaul_connectors.file_drop.format_detection import (
    EncodingUndecided,
    FileDigest,
    FileFormat,
    format_of,
    guessed,
    possible_encodings,
)
from backhaul_connectors.file_drop.json_reader import is_array, spread_array
from backhaul_connectors.file_drop.layout import named_delimiter
from backhaul_connectors.file_drop.sheet_lines import spread_sheet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import BinaryIO

SAMPLE_BYTES = 1_000_000
MOST_ROWS = 300
MOST_ENCODINGS = 4
"""Possible encodings that are tried: the column names show which one is right."""
MAX_UNZIPPED_BYTES = 50_000_000
"""The default of `max_unzipped_mb`: the proposal does not change that limit."""


class SampleRow(Struct, frozen=True):
    """A row: its line in the file, and its cells."""

    line: int
    cells: tuple[str, ...]


class Sample(Struct, frozen=True, kw_only=True):
    """The first rows of a file, read in one way; `settings` say in which."""

    rows: list[SampleRow]
    settings: Mapping[str, Any] = field(default_factory=dict)
    problems: int = 0
    """How many rows could not be split into cells."""
    notes: tuple[str, ...] = ()


def samples(name: str, stream: BinaryIO) -> list[Sample]:
    """Return the first rows in each way that fits. Raises FileUnreadable."""
    lower = name.lower()
    stream.seek(0)
    found_format = format_of(stream, name)
    stream.seek(0)
    if found_format is not FileFormat.TEXT:
        return [Sample(rows=_sheet_rows(stream, found_format))]
    content = stream.read(SAMPLE_BYTES)
    found: list[Sample] = []
    for encoding, notes in _encodings(content):
        text = content.decode(encoding, "replace").encode()
        if lower.endswith(JSON):
            found.append(Sample(rows=_json_rows(lower, text)))
        else:
            chosen = {"encoding": encoding} if encoding != "utf-8" else {}
            found += _csv(text, chosen, notes)
    return found


def _sheet_rows(stream: BinaryIO, found: FileFormat) -> list[SampleRow]:
    copies = TemporaryCopies(None)
    try:
        lines = copies.make()
        for _ in spread_sheet(
            stream, found, lines, copies, sheet="", max_bytes=MAX_UNZIPPED_BYTES
        ):
            pass
        return _rows(lines, ",", '"')[0]
    finally:
        copies.close()


def _encodings(content: bytes) -> list[tuple[str, tuple[str, ...]]]:
    """Return the possible encodings, the likeliest first, each with what to check."""
    digest = FileDigest()
    digest.take(io.BytesIO(content))
    if digest.encoding:
        return [(digest.encoding, ())]
    try:
        return [(guessed(digest.sample), ())]
    except EncodingUndecided as error:
        names = [*possible_encodings(digest.sample)[:MOST_ENCODINGS], "cp1252"]
        return [
            (name, (f"encoding = {name!r} is a guess: {error}",))
            for name in dict.fromkeys(names)
        ]


def _csv(
    text: bytes, chosen: Mapping[str, Any], notes: tuple[str, ...]
) -> Iterator[Sample]:
    """Yield the rows by each delimiter and quotation mark."""
    said, start = named_delimiter(io.BytesIO(text), "utf-8")
    for delimiter in said or DELIMITERS:
        quoted, broken = _rows(io.BytesIO(text), delimiter, '"', start)
        quote = _quote_of(quoted) if not broken else ""
        if quote != '"':
            again, still_broken = _rows(io.BytesIO(text), delimiter, quote, start)
            if still_broken < broken or quote:
                settings = {"delimiter": delimiter, "quote": quote, **chosen}
                yield Sample(
                    rows=again, settings=settings, problems=still_broken, notes=notes
                )
                continue
        settings = {"delimiter": delimiter, **chosen}
        yield Sample(rows=quoted, settings=settings, problems=broken, notes=notes)


def _quote_of(rows: list[SampleRow]) -> str:
    """Return the quotation mark around most cells: `'` or `"`."""
    cells = [cell.strip() for row in rows for cell in row.cells if cell.strip()]
    marked = [len(c) > 1 and c[0] == c[-1] == "'" for c in cells]
    return "'" if cells and sum(marked) * 2 > len(cells) else '"'


def _rows(
    stream: BinaryIO, delimiter: str, quote: str, start: Position | None = None
) -> tuple[list[SampleRow], int]:
    reader = RowReader(stream, "utf-8", delimiter, start, quote=quote)
    found = list(islice(reader, MOST_ROWS))
    rows = [SampleRow(row.line, row.cells) for row in found if not row.problem]
    return rows, len(found) - len(rows)


def _json_rows(lower: str, text: bytes) -> list[SampleRow]:
    """Return the objects as rows; the first one has the names of all members."""
    lines = io.BytesIO(text)
    if is_array(io.BytesIO(text), is_lines=not lower.endswith(".json")):
        spread_lines = io.BytesIO()
        for _ in spread_array(lines, spread_lines):
            pass
        lines = spread_lines
    lines.seek(0)
    objects = [_object(line) for line in islice(lines, MOST_ROWS) if line.strip()]
    names = list(dict.fromkeys(name for each in objects for name in each))
    rows = [
        SampleRow(number, tuple(_text(each.get(name)) for name in names))
        for number, each in enumerate(objects, 1)
    ]
    return [SampleRow(0, tuple(names)), *rows]


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _text(value: object) -> str:
    return "" if value is None or isinstance(value, dict | list) else str(value)
