"""Reads the rows of a JSON file: an array, or one object a line.

In an array, the line of an object is its number in the array, from 1.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from typing import TYPE_CHECKING, Any, BinaryIO

from backhaul_connectors.file_drop.columns import folded, known_names, places_of
from backhaul_connectors.file_drop.csv_reader import (
    MAX_ROW_BYTES,
    ROUNDED_MARK,
    CsvRow,
    Position,
    RowReader,
    number_text,
    unreadable,
)
from backhaul_connectors.file_drop.files import FileUnreadable

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from backhaul_connectors.file_drop.columns import Column


MOST_NAMES = 100
LINES = frozenset(
    {
        *("lines", "lineitems", "items", "orderlines", "orderitems", "articles"),
        *("shipmentlines", "shipmentitems", "fulfillmentlines", "fulfillmentlineitems"),
        *("products", "positions", "contents", "skus", "positionen", "artikel"),
        *("lignes", "articulos", "lineas", "righe", "regels", "pozycje"),
    }
)
"""Members that list a shipment's content, as `folded` writes them."""
_SPECIAL = re.compile('["\r\n]')
CHUNK_BYTES = 65_536
STEP_OBJECTS = 1_000
START_BYTES = 1_024
_BLANKS = re.compile(r"[\s\ufeff]*")
_BETWEEN = re.compile(r"\s*(,?)\s*")
_LINE_ENDS = re.compile(r"[\r\n]+")
_SCAN = json.JSONDecoder().raw_decode


class JsonRowReader(RowReader):
    """Reads line by line; the members in `columns` become the cells."""

    def __init__(
        self,
        stream: BinaryIO,
        columns: Mapping[str, Column],
        position: Position | None = None,
    ) -> None:
        super().__init__(stream, "utf-8", ",", position)
        self._columns = columns
        self._members: dict[tuple[str, ...], list[str | None]] = {}

    def _read_row(self, first: str) -> CsvRow:
        if self._cut:
            return super()._read_row(first)
        line, text = self._line, first.rstrip("\r\n")
        if not text.strip():
            return CsvRow(line, "")
        try:
            cells = self._cells(text)
        except (ValueError, RecursionError) as error:
            return CsvRow(line, text, (), f"the line is not usable: {_words(error)}")
        row = csv_line(cells)
        return CsvRow(line, row, cells, unreadable(row))

    def _cells(self, text: str) -> tuple[str, ...]:
        found = json.loads(
            text,
            object_pairs_hook=_once,
            parse_int=str,
            parse_float=_number,
            parse_constant=_refuse,
        )
        if not isinstance(found, dict):
            raise ValueError('the row must be a JSON object such as {"order": "1001"}')
        names = self._names_of(tuple(found))
        if not any(names):
            _refuse_a_wrapper(found)
        if {"order", "sku"} <= self._columns.keys():
            self._refuse_unread_lines(found, names)
        return tuple(_text(name, found.get(name)) for name in names)

    def _refuse_unread_lines(
        self, found: dict[str, Any], names: Sequence[str | None]
    ) -> None:
        """Raise ValueError for a shipment that lists its articles in a member.

        Such a list is not read, and without an article the shipment would be
        everything.
        """
        read = dict(zip(self._columns, names, strict=True))
        sku = read["sku"]
        if sku is not None and found[sku] not in (None, ""):
            return
        articles = known_names([self._columns["sku"]])
        for name, value in found.items():
            if name not in names and _is_lines(name, value, articles):
                raise ValueError(
                    f"{name!r} is a list, and Backhaul reads no lists inside an"
                    " object. Write one object for each SKU, with sku and quantity"
                )

    def _names_of(self, written: tuple[str, ...]) -> list[str | None]:
        """Return the member for each column, None where the object has none."""
        # Most lines have the same names as the line before.
        if len(self._members) > MOST_NAMES:
            self._members.clear()
        if written not in self._members:
            places = places_of(self._columns, written)
            self._members[written] = [
                written[places[name]] if name in places else None
                for name in self._columns
            ]
        return self._members[written]


def _is_lines(name: str, value: object, articles: frozenset[str]) -> bool:
    """Return True if a member is the list of a shipment's content."""
    if folded(name) in LINES:
        is_count = isinstance(value, bool) or (
            isinstance(value, str) and value.strip().isdigit()
        )
        return not is_count
    if not isinstance(value, list):
        return False
    members = (each for each in value if isinstance(each, dict))
    return any(folded(key) in articles for each in members for key in each)


def _refuse_a_wrapper(found: dict[str, Any]) -> None:
    """Raise ValueError for an object that only wraps the list of objects."""
    for name, value in found.items():
        if isinstance(value, list):
            raise ValueError(
                f"the file is one JSON object with a list in {name!r}. Write only"
                " this list (a JSON array), or one object on each line"
            )


def csv_line(cells: Sequence[str]) -> str:
    """Return the cells as one line of CSV, without its line end."""
    plain = ",".join(cells)
    if plain.count(",") == len(cells) - 1 and not _SPECIAL.search(plain):
        return plain
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="").writerow(cells)
    return out.getvalue()


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a name occurs more than once in a JSON object")
    return members


def _refuse(word: str) -> str:
    raise ValueError(f"{word} is not a number")


def _text(name: str | None, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        raise ValueError(f"the value of {name} must be a text or a number")
    return "" if value is None else str(value).lower()


def _number(raw: str) -> str:
    text = number_text(raw)
    return f"{ROUNDED_MARK}{text}" if "E" in text else text


def _words(error: ValueError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "the JSON is nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        return f"the text is not valid JSON, at character {error.pos + 1}: {error.msg}"
    return str(error)


def is_array(stream: BinaryIO, *, is_lines: bool) -> bool:
    """Return True if the file is an array, or one object over several lines.

    If its name says that it has one object a line, only an array counts.
    """
    start = stream.read(START_BYTES).lstrip(b"\xef\xbb\xbf \t\r\n")
    if is_lines:
        return re.match(rb"\[\s*(\{|$)", start) is not None
    return re.match(rb"\[|\{\s*\n", start) is not None


class _Text:
    """The file's text, as far as it was read."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self.text = ""
        self.at = 0

    def more(self) -> bool:
        """Read on; return True if there was more. Consumed text is dropped."""
        content = self._stream.read(CHUNK_BYTES)
        if not content:
            self.text += self._decoder.decode(b"", final=True)
            return False
        self.text = self.text[self.at :] + self._decoder.decode(content)
        self.at = 0
        return True

    def skip(self, pattern: re.Pattern[str]) -> str:
        """Skip the text that the pattern matches, and return it."""
        while (found := pattern.match(self.text, self.at)) is None or (
            found.end() == len(self.text) and self.more()
        ):
            pass
        self.at = found.end()
        return found.group()


def spread_array(stream: BinaryIO, lines: BinaryIO) -> Generator[None]:
    """Write each object to a line, in steps. Raises FileUnreadable."""
    text = _Text(stream)
    text.skip(_BLANKS)
    in_brackets = text.text.startswith("[", text.at)
    text.at += in_brackets
    number = 0
    while (element := _next(text, number, in_brackets)) is not None:
        number += 1
        lines.write(_line(element))
        if number % STEP_OBJECTS == 0:
            yield
    yield


def _line(element: str) -> bytes:
    return f"{_LINE_ENDS.sub(' ', element)}\n".encode("utf-8", "surrogateescape")


def _next(text: _Text, number: int, in_brackets: bool) -> str | None:
    """Return the text of the next element; None after the last one."""
    between = text.skip(_BETWEEN)
    if text.at == len(text.text):
        if in_brackets:
            raise FileUnreadable(_cut(number))
        return None
    if in_brackets and text.text.startswith("]", text.at):
        text.at += 1
        text.skip(_BLANKS)
        if text.at < len(text.text):
            raise FileUnreadable(
                f"{_where(number)}: there is text after the end of the array (])"
            )
        return None
    if in_brackets and number and "," not in between:
        raise FileUnreadable(f"{_where(number)}: a comma is missing")
    return _element(text, number)


def _element(text: _Text, number: int) -> str:
    while True:
        try:
            _, end = _SCAN(text.text, text.at)
        except (ValueError, RecursionError) as error:
            if len(text.text) - text.at > MAX_ROW_BYTES:
                problem = f"the next object has over {MAX_ROW_BYTES:,} letters"
                raise FileUnreadable(f"{_where(number)}: {problem}") from None
            if not text.more():
                raise FileUnreadable(
                    f"{_where(number)}: {_array_problem(error)}"
                ) from None
            continue
        # A number may continue in the text that was not read yet.
        if end < len(text.text) or not text.more():
            element, text.at = text.text[text.at : end], end
            return element


def _where(number: int) -> str:
    return f"the JSON array cannot be read after its first {number} objects"


def _cut(number: int) -> str:
    return (
        f"{_where(number)}: the end of the object is missing; perhaps the file is"
        " incomplete"
    )


def _array_problem(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg}; write an array of objects, or one object a line"
    return (
        "what follows is not valid JSON; write an array of objects, or one object a "
        "line"
    )
