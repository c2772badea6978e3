"""The mirror as text that two mirrors can be compared by: equal content, equal bytes.

What it says, in an order of its own; how and when a row came there is left out.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

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


def dump(
    database: Path,
    tables: Mapping[str, str] = MIRROR,
    without: Collection[str] = (),
) -> Iterator[bytes]:
    """Yield the mirror, one JSON array a row: the table's name, then its columns.

    `without` names columns to leave out. The rows of a table come sorted as bytes.
    """
    with closing(connections.open_reader(database)) as connection:
        for table, columns in tables.items():
            named = [name for name in columns.split(", ") if name not in without]
            yield from sorted(_rows(connection, table, named))


def _rows(
    connection: sqlite3.Connection, table: str, columns: list[str]
) -> Iterator[bytes]:
    query = f"SELECT {', '.join(columns)} FROM {table}"  # noqa: S608 - our own names
    for row in connection.execute(query):
        yield strict_json.encode([table, *map(_plain, columns, row)])


def _plain(column: str, value: Any) -> Any:
    """Return a document as JSON inside JSON: its members are compared, not its text."""
    if column == "document" and isinstance(value, str):
        return strict_json.decode(value.encode())
    return value
