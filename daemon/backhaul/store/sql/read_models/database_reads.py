"""What programs beside the daemon read: published tables, and single facts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from backhaul.errors import BackhaulError
from backhaul.store.sql.dialect import ascii_text, contains, elements

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from backhaul.store.sql.family import Connection


PUBLISHED: Mapping[str, tuple[str, ...]] = {
    "open_orders": ("store", "id"),
    "order_lines": ("store", "order_id", "id"),
    "stock": ("store", "variant_id"),
    "stock_moves": ("id",),
    "revenue_by_day": ("store", "day", "currency"),
    "orders": ("store", "id"),
    "order_items": ("store", "order_id", "id"),
    "shipments": ("store", "order_id", "id"),
    "products": ("store", "id"),
    "variants": ("store", "product_id", "id"),
    "inventory_levels": ("store", "variant_id"),
    "stock_ledger": ("id",),
    "customers": ("store", "id"),
    "events": ("id",),
    "commands": ("seq",),
    "stock_targets": ("seq",),
    "attempts": ("id",),
    "records": ("id",),
    "quarantine": ("id",),
    "changes": ("id",),
    "feed": ("id",),
    "parcels": ("store", "shipment_id"),
    "deliveries": ("seq",),
    "echoes": ("store", "effect"),
    "erased_customers": ("store", "customer_id"),
    "audit": ("id",),
}
"""Each table with the columns of its key, in the order of an index."""

INTERNAL = frozenset(
    {
        *("sequence", "delivered", "seen_at", "digest", "standing", "confirmed_at"),
        "request_digest",
    }
)
"""Columns of published tables that only Backhaul uses, to compare rows."""

PAGE_ROWS = 500
Values = tuple[Any, ...]


class SqlTables:
    """Reads the tables of docs/mirror.md; its rows are plain tuples."""

    def __init__(self, connection: Connection) -> None:
        self._tables = connection

    def columns(self, table: str) -> tuple[str, ...]:
        if table not in PUBLISHED:
            raise BackhaulError(
                f"there is no table or view {table!r} to export. The tables and"
                " views are: " + ", ".join(PUBLISHED)
            )
        found = self._tables.execute(f"SELECT * FROM {table} LIMIT 0")  # noqa: S608 - one of ours
        names = (entry[0] for entry in found.description or ())
        return tuple(name for name in names if name not in INTERNAL)

    def pages(self, table: str) -> Iterator[list[Values]]:
        columns, key = self.columns(table), PUBLISHED[table]
        places = [columns.index(name) for name in key]
        page = self._page(_first(table, columns, key), ())
        while page:
            yield page
            last = tuple(page[-1][place] for place in places)
            page = self._page(_next(table, columns, key), last)

    def _page(self, sql: str, after: Values) -> list[Values]:
        return self._tables.execute(sql, (*after, PAGE_ROWS)).fetchall()


def _first(table: str, columns: Sequence[str], key: Sequence[str]) -> str:
    return f"SELECT {_list(columns)} FROM {table} ORDER BY {_list(key)} LIMIT ?"  # noqa: S608 - from PUBLISHED


def _next(table: str, columns: Sequence[str], key: Sequence[str]) -> str:
    # No row values where one column is enough: SQLite would not use the rowid for them.
    if len(key) == 1:
        after = f"{key[0]} > ?"
    else:
        after = f"({_list(key)}) > ({', '.join('?' * len(key))})"
    return (
        f"SELECT {_list(columns)} FROM {table} WHERE {after}"  # noqa: S608 - from PUBLISHED
        f" ORDER BY {_list(key)} LIMIT ?"
    )


def _list(names: Sequence[str]) -> str:
    return ", ".join(names)


_APPLIED = """
    SELECT DISTINCT kind FROM commands_and_targets
    WHERE store = :store AND state = 'applied'
"""
_LAST_EVENT = "SELECT coalesce(max(id), 0) FROM inbox"
_DELIVERY = f"""
    SELECT id, topic, CASE WHEN topic LIKE '%/test' OR EXISTS (
        SELECT 1 FROM {elements(":names", "$")} n
        WHERE n.value != '' AND {contains(ascii_text("e.body"), "n.value")})
        THEN 1 ELSE 0 END AS is_test
    FROM events e WHERE id > :after AND store = :store AND source = 'delivery'
    ORDER BY is_test DESC, id LIMIT 1
"""  # noqa: S608 - fragments


def applied_kinds(connection: Connection, store: str) -> set[str]:
    """Return the kinds of commands that the platform has ever carried out."""
    rows = connection.execute(_APPLIED, {"store": store})
    return {str(row[0]) for row in rows}


def last_event(connection: Connection) -> int:
    """Return the number of the newest event, 0 if there is none."""
    return int(connection.execute(_LAST_EVENT).fetchone()[0])


def find_test_webhook(
    connection: Connection, after: int, store: str, names: Sequence[str]
) -> tuple[int, str, bool] | None:
    """Return a delivery after an event, a test of one of these names first.

    It is the number of the event, its topic, and whether it is a test.
    """
    values = {"after": after, "store": store, "names": json.dumps(names)}
    row = connection.execute(_DELIVERY, values).fetchone()
    return None if row is None else (row[0], row[1], bool(row[2]))
