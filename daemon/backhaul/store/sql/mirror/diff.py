"""What a mirror says of the store, and where two mirrors differ in it.

How and when a row came there is left out: a replay and a walk know it in other ways.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backhaul.core import strict_json
from backhaul.store.sqlite import connections

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

MIRROR: Mapping[str, str] = {
    "products": "store, id, handle, title, status, external_id, updated_at,"
    " deleted_at, document",
    "variants": "store, id, product_id, sku, barcode, title, price_minor, currency,"
    " updated_at",
    "inventory_levels": "store, product_id, variant_id, stock, updated_at",
    "stock_ledger": "store, product_id, variant_id, adjustment, stock_after, reason,"
    " cause, adjustment_id, at",
    "orders": "store, id, number, name, external_id, awaiting_confirmation, status,"
    " financial_status, fulfillment_status, placed_at, cancelled_at, total_minor,"
    " currency, customer_id, updated_at, document",
    "order_items": "store, id, order_id, product_id, variant_id, sku, title, quantity,"
    " fulfilled_quantity, unit_price_minor",
    "shipments": "store, id, order_id, tracking_company, tracking_number, shipped_at",
    "customers": "store, id, name, email, phone, updated_at, document",
}
"""The columns of each table that a mirror is compared by."""
_KEYS = {
    "variants": ("store", "product_id", "id"),
    "inventory_levels": ("store", "variant_id"),
    "stock_ledger": ("store", "adjustment_id", "variant_id"),
    "order_items": ("store", "order_id", "id"),
    "shipments": ("store", "order_id", "id"),
}
_KEY = ("store", "id")
Row = dict[str, Any]
Key = tuple[str, ...]


class Difference(Struct, frozen=True):
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
        for table in MIRROR:
            yield from _of_table(table, _rows(here, table), _rows(there, table))


def dump(
    database: Path,
    tables: Mapping[str, str] = MIRROR,
    without: Collection[str] = (),
) -> Iterator[bytes]:
    """Yield the mirror, one JSON array a row: the table's name, then its columns.

    `without` names columns to leave out. Equal content gives equal bytes: the rows of a
    table come sorted by them.
    """
    with closing(connections.open_reader(database)) as connection:
        for table in tables:
            yield from sorted(
                strict_json.encode([table, *(row[n] for n in row if n not in without)])
                for row in _rows(connection, table)
            )


def _rows(connection: sqlite3.Connection, table: str) -> Iterator[Row]:
    """Yield rows by key; documents are opened, for their text may differ."""
    order = ", ".join(_KEYS.get(table, _KEY))
    query = f"SELECT {MIRROR[table]} FROM {table} ORDER BY {order}"  # noqa: S608 - constants
    for row in connection.execute(query):
        known = dict(row)
        if isinstance(text := known.get("document"), str):
            known["document"] = strict_json.decode(text.encode())
        yield known


def _of_table(
    table: str, left: Iterator[Row], right: Iterator[Row]
) -> Iterator[Difference]:
    """Walk both in the order of their key, like the two halves of a merge sort."""
    here, there = next(left, None), next(right, None)
    while here is not None or there is not None:
        mine, yours = _key(table, here), _key(table, there)
        if here is not None and there is not None and mine == yours:
            yield from _of_row(table, mine, here, there)
            here, there = next(left, None), next(right, None)
        elif there is None or (here is not None and mine < yours):
            yield Difference(table, *_named(mine), "", "is there", None)
            here = next(left, None)
        else:
            yield Difference(table, *_named(yours), "", None, "is there")
            there = next(right, None)


def _key(table: str, row: Row | None) -> Key:
    return tuple(row[n] or "" for n in _KEYS.get(table, _KEY)) if row else ()


def _named(key: Key) -> tuple[str, str]:
    return key[0], " ".join(key[1:])


def _of_row(table: str, key: Key, here: Row, there: Row) -> Iterator[Difference]:
    mine, yours = _opened(here), _opened(there)
    for column in mine | yours:
        left, right = mine.get(column), yours.get(column)
        if left != right:
            yield Difference(table, *_named(key), column, left, right)


def _opened(row: Row) -> Row:
    """Put a document's members in its place: which of them differs is the news."""
    document = row.pop("document", None)
    if document is None:
        return row
    return row | {f"document.{name}": value for name, value in document.items()}
