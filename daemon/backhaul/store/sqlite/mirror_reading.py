"""What matching and sending ask of the mirror."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.store.contract import OrderSummary

if TYPE_CHECKING:
    import sqlite3

_SUMMARY = "SELECT id, coalesce(name, number, id), cancelled_at FROM orders"


class MirrorReader:
    """Reads the mirror on a connection that somebody else owns."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def orders_called(self, store: str, name: str) -> list[OrderSummary]:
        """Return the orders with this number (`1001`, `#1001`), external id or id."""
        bare = name.removeprefix("#")
        is_number = bare.isascii() and bare.isdigit() and len(bare) < 19
        number = int(bare) if is_number else None
        rows = self._connection.execute(
            f"""
            {_SUMMARY} WHERE store = ?1 AND number = ?2
            UNION {_SUMMARY} WHERE store = ?1 AND external_id = ?3
            UNION {_SUMMARY} WHERE store = ?1 AND id = ?3
            """,
            (store, number, name),
        ).fetchall()
        return [self._summary(store, *row) for row in rows]

    def order(self, store: str, order_id: str) -> OrderSummary | None:
        """Return one order by its platform id."""
        row = self._connection.execute(
            f"{_SUMMARY} WHERE store = ? AND id = ?",
            (store, order_id),
        ).fetchone()
        return None if row is None else self._summary(store, *row)

    def variants_with_sku(self, store: str, sku: str) -> list[tuple[str, str]]:
        """Return (product id, variant id) of every variant with the SKU."""
        rows = self._connection.execute(
            "SELECT product_id, id FROM variants WHERE store = ? AND sku = ?",
            (store, sku),
        )
        return [(row[0], row[1]) for row in rows]

    def _summary(
        self, store: str, order_id: str, name: object, cancelled_at: str | None
    ) -> OrderSummary:
        items = self._connection.execute(
            "SELECT id, sku, quantity - fulfilled_quantity FROM order_items"
            " WHERE store = ? AND order_id = ?",
            (store, order_id),
        ).fetchall()
        return OrderSummary(
            id=order_id,
            name=str(name),
            cancelled=cancelled_at is not None,
            items=tuple((item[0], item[1], item[2]) for item in items),
        )
