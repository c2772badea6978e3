"""Returns a packing list from Backhaul's mirror."""

import sqlite3


def packing_list(database):
    """Return (order name, SKU, quantity) of all open items."""
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    try:
        return connection.execute(
            """
            SELECT o.name, i.sku, i.quantity - i.fulfilled_quantity
            FROM orders o JOIN order_items i ON i.store = o.store AND i.order_id = o.id
            WHERE o.cancelled_at IS NULL AND NOT o.awaiting_confirmation
              AND i.fulfilled_quantity < i.quantity
            ORDER BY o.number, i.sku
            """
        ).fetchall()
    finally:
        connection.close()
