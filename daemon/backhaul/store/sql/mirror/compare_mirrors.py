"""Compares two mirrors in what they say of the store.

How and when a row arrived does not count: it differs between a replay and a full sync.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul.core import strict_json
from backhaul.store.mirror import Difference

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from backhaul.store.sql.family import Connection

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


def differences(left: Connection, right: Connection) -> Iterator[Difference]:
    """Yield every difference between two mirrors, table by table and row by row."""
    for table in MIRROR:
        yield from _of_table(table, table_rows(left, table), table_rows(right, table))


def table_rows(connection: Connection, table: str) -> Iterator[Row]:
    """Yield the rows of a table by key, with decoded documents: texts may differ."""
    names = MIRROR[table].split(", ")
    order = ", ".join(_KEYS.get(table, _KEY))
    query = f"SELECT {MIRROR[table]} FROM {table} ORDER BY {order}"  # noqa: S608 - constants
    for row in connection.execute(query):
        known = dict(zip(names, row, strict=True))
        if isinstance(text := known.get("document"), str):
            known["document"] = strict_json.decode(text.encode())
        yield known


def _of_table(
    table: str, left: Iterator[Row], right: Iterator[Row]
) -> Iterator[Difference]:
    """Merge both in the order of their key, as in a merge sort."""
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
    """Replace a document by its members, so that each of them is compared."""
    document = row.pop("document", None)
    if document is None:
        return row
    return row | {f"document.{name}": value for name, value in document.items()}
