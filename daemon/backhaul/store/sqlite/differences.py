"""Two mirrors, compared row by row: what each says of the store, not how it knows."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from backhaul.store.sqlite import connections

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from pathlib import Path

_KEYS = {
    "products": ("store", "id"),
    "variants": ("store", "id"),
    "orders": ("store", "id"),
    "order_items": ("store", "id"),
    "shipments": ("store", "id"),
    "customers": ("store", "id"),
    "inventory_levels": ("store", "variant_id"),
}
_HOW_IT_KNOWS = {"sequence", "delivered", "read_at", "digest", "seen_at"}
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """A value that two mirrors do not share; None where one lacks the row.

    `column` is empty where the whole row is missing on one side.
    """

    table: str
    store: str
    id: str
    column: str
    left: object
    right: object


def differences(left: Path, right: Path) -> Iterator[Difference]:
    """Yield every difference between two mirrors, table by table and row by row."""
    with (
        closing(connections.open_reader(left)) as here,
        closing(connections.open_reader(right)) as there,
    ):
        for table, key in _KEYS.items():
            yield from _of_table(table, _rows(here, table), _rows(there, table), key)


def _rows(connection: sqlite3.Connection, table: str) -> Iterator[Row]:
    order = ", ".join(_KEYS[table])
    for row in connection.execute(f"SELECT * FROM {table} ORDER BY {order}"):  # noqa: S608 - constants
        known = dict(row)
        yield {name: known[name] for name in known if name not in _HOW_IT_KNOWS}


def _of_table(
    table: str, left: Iterator[Row], right: Iterator[Row], key: tuple[str, str]
) -> Iterator[Difference]:
    """Walk both in the order of their key, like the two halves of a merge sort."""
    here, there = next(left, None), next(right, None)
    while here is not None or there is not None:
        mine, yours = _key(here, key), _key(there, key)
        if here is not None and there is not None and mine == yours:
            yield from _of_row(table, mine, here, there)
            here, there = next(left, None), next(right, None)
        elif there is None or (here is not None and mine < yours):
            yield Difference(table, *mine, "", "is there", None)
            here = next(left, None)
        else:
            yield Difference(table, *yours, "", None, "is there")
            there = next(right, None)


def _key(row: Row | None, key: tuple[str, str]) -> tuple[str, str]:
    return (row[key[0]], row[key[1]]) if row else ("", "")


def _of_row(
    table: str, key: tuple[str, str], here: Row, there: Row
) -> Iterator[Difference]:
    mine, yours = _opened(here), _opened(there)
    for column in dict.fromkeys(chain(mine, yours)):
        left, right = mine.get(column), yours.get(column)
        if left != right:
            yield Difference(table, *key, column, left, right)


def _opened(row: Row) -> Row:
    """Put a document's members in its place: which of them differs is the news."""
    document = row.pop("document", None)
    if document is None:
        return row
    members = msgspec.json.decode(document, type=dict[str, Any])
    return row | {f"document.{name}": value for name, value in members.items()}
