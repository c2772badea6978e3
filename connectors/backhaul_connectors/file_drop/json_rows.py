"""Rows of a file with one JSON object a line."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import TYPE_CHECKING, Any, BinaryIO

from backhaul_connectors.file_drop.cells import ROUNDED_MARK
from backhaul_connectors.file_drop.columns import folded, known_names, places_of
from backhaul_connectors.file_drop.csv_rows import (
    Position,
    Row,
    RowReader,
    unreadable,
)
from backhaul_connectors.file_drop.numbers import number_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
"""Names of members that list what a shipment contains, as `folded` writes them."""
_SPECIAL = re.compile('["\r\n]')


class JsonRowReader(RowReader):
    """Reads line by line; the members that `columns` name become the cells."""

    def __init__(
        self,
        stream: BinaryIO,
        columns: Mapping[str, Column],
        position: Position | None = None,
    ) -> None:
        super().__init__(stream, "utf-8", ",", position)
        self._columns = columns
        self._members: dict[tuple[str, ...], list[str | None]] = {}

    def _read_row(self, first: str) -> Row:
        if self._cut:
            return super()._read_row(first)
        line, text = self._line, first.rstrip("\r\n")
        if not text.strip():
            return Row(line, "")
        try:
            cells = self._cells(text)
        except (ValueError, RecursionError) as error:
            return Row(line, text, (), f"the line is not usable: {_words(error)}")
        row = csv_line(cells)
        return Row(line, row, cells, unreadable(row))

    def _cells(self, text: str) -> tuple[str, ...]:
        found = json.loads(
            text,
            object_pairs_hook=_once,
            parse_int=str,
            parse_float=_number,
            parse_constant=_refuse,
        )
        if not isinstance(found, dict):
            raise ValueError('it must be an object such as {"order": "1001"}')
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

        It is not read, and without an article the shipment would be everything.
        """
        read = dict(zip(self._columns, names, strict=True))
        sku = read["sku"]
        if sku is not None and found[sku] not in (None, ""):
            return
        articles = known_names([self._columns["sku"]])
        for name, value in found.items():
            if name not in names and _is_lines(name, value, articles):
                raise ValueError(
                    f"{name!r} lists its articles, and lists are not read: write one "
                    "object for each article, with sku and quantity"
                )

    def _names_of(self, written: tuple[str, ...]) -> list[str | None]:
        """Return the member for each column, None where the object has none."""
        # Most lines have the names of the line before; a few lines have any number.
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
    """Tell whether a member is the list of what a shipment contains."""
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
    """Raise ValueError for an object that only holds the list of those to be read."""
    for name, value in found.items():
        if isinstance(value, list):
            raise ValueError(
                f"it is one object with a list in {name!r}; write the array alone, or "
                "one object a line"
            )


def csv_line(cells: Sequence[str]) -> str:
    """Return the cells as one line of CSV, without its end."""
    plain = ",".join(cells)
    if plain.count(",") == len(cells) - 1 and not _SPECIAL.search(plain):
        return plain
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="").writerow(cells)
    return out.getvalue()


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a name stands there more than once")
    return members


def _refuse(word: str) -> str:
    raise ValueError(f"{word} is no number")


def _text(name: str | None, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        raise ValueError(f"{name} must be a text or a number")
    return "" if value is None else str(value).lower()


def _number(raw: str) -> str:
    text = number_text(raw)
    return f"{ROUNDED_MARK}{text}" if "E" in text else text


def _words(error: ValueError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        return f"it is no JSON, at character {error.pos + 1}: {error.msg}"
    return str(error)
