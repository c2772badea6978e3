"""Payment states of orders in SQL: refunded, not paid, and not known.

The contract names five financial statuses. Platforms write them in any case, and add
words of their own: such an order may be paid, and nobody here can know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul.core.status_rank import FINANCIAL

if TYPE_CHECKING:
    import sqlite3

    from sqlite_utils import Database

_WORD = "upper(trim(financial_status))"
_KNOWN = ", ".join(f"'{word}'" for word in FINANCIAL)
# Frozen, like the migration it is part of: the index below is found by its text.
_UNKNOWN = f"""
    {_WORD} NOT IN ('PENDING', 'PAID', 'PARTIALLY_REFUNDED', 'VOIDED', 'REFUNDED')
    AND cancelled_at IS NULL AND fulfillment_status != 'FULFILLED'
"""
_OPEN_ORDERS = f"""
    SELECT store, id, number, name, placed_at, status, financial_status,
           fulfillment_status, awaiting_confirmation,
           (SELECT sum(quantity - fulfilled_quantity) FROM order_items i
            WHERE i.store = o.store AND i.order_id = o.id) AS units_to_ship,
           total_minor, currency, customer_id
    FROM orders o WHERE cancelled_at IS NULL AND fulfillment_status != 'FULFILLED'
      AND {_WORD} IS NOT 'REFUNDED'
"""  # noqa: S608 - constants
_ORDER_LINES = f"""
    SELECT i.store, i.id, i.order_id, o.number AS order_number, o.name AS order_name,
           o.placed_at, o.status AS order_status, i.sku, i.title, i.quantity,
           i.fulfilled_quantity,
           CASE WHEN o.cancelled_at IS NULL AND {_WORD} IS NOT 'REFUNDED'
                THEN i.quantity - i.fulfilled_quantity ELSE 0 END AS units_to_ship,
           i.unit_price_minor, o.currency, i.product_id, i.variant_id
    FROM order_items i JOIN orders o ON o.store = i.store AND o.id = i.order_id
"""  # noqa: S608 - constants
_IS_OLD = """
    coalesce(nullif(o.placed_at, ''), o.updated_at) < coalesce(s.old_before, '')
"""
_NO_NEWS = """
    NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.object_id = o.id
                AND d.instance = s.instance AND d.store = o.store
                AND d.topic = 'order.placed')
"""
_LISTED = f"""
    SELECT store, financial_status AS status, count(*) AS orders,
           min(coalesce(name, number, id)) AS example
    FROM orders o WHERE {_UNKNOWN} AND EXISTS (
        SELECT 1 FROM subscribers s WHERE s.store = o.store
        AND s.release_when = 'paid' AND NOT {_IS_OLD} AND {_NO_NEWS})
    GROUP BY store, financial_status ORDER BY store, financial_status
"""  # noqa: S608 - constants
_NOT_PAID = f"{_WORD} NOT IN ('PAID', 'PARTIALLY_REFUNDED')"
_UNREPORTED = f"""
    SELECT o.*, s.instance, s.since, s.release_when, {_IS_OLD} AS is_old
    FROM orders o JOIN subscribers s ON s.store = o.store
    WHERE o.store = :store AND o.id = :id AND s.release_when IS NOT NULL AND {_NO_NEWS}
"""  # noqa: S608 - constants
NOT_REPORTED = f"""
    SELECT since, 'connection', instance, 'not reported', 'placed before connection '
           || instance || ' began; not reported to it', NULL, 4
    FROM ({_UNREPORTED}) WHERE is_old
    UNION ALL
    SELECT cancelled_at, 'connection', instance, 'not reported', 'cancelled before it'
           || ' was reported to connection ' || instance || '; not reported to it',
           NULL, 4
    FROM ({_UNREPORTED}) WHERE NOT is_old AND cancelled_at IS NOT NULL
    UNION ALL
    SELECT updated_at, 'payment', coalesce(name, id), 'not released',
           'financial status ' || financial_status || iif({_WORD} IN ({_KNOWN}), '',
             ' is not known') || ': ' || iif({_WORD} = 'REFUNDED', 'connection '
             || instance, 'connection ' || instance
             || ' waits for payment (release_when = "paid") and')
           || ' is not notified of the order', NULL, 4
    FROM ({_UNREPORTED}) WHERE NOT is_old AND cancelled_at IS NULL
      AND (release_when = 'paid' AND {_NOT_PAID}
           OR {_WORD} = 'REFUNDED' AND fulfillment_status != 'FULFILLED')
    UNION ALL
    SELECT updated_at, 'confirmation', coalesce(name, id), 'not released',
           'the store has not confirmed the order: connection ' || instance
           || ' waits for that (release_when = "confirmed") and is not notified of it',
           NULL, 4
    FROM ({_UNREPORTED}) WHERE NOT is_old AND cancelled_at IS NULL
      AND release_when = 'confirmed' AND awaiting_confirmation
"""  # noqa: S608 - constants
"""Rows of the life of an order: why a connection was not notified of it."""


def unknown(connection: sqlite3.Connection) -> list[dict[str, Any]]:
    """Return each unknown financial status that keeps open orders from a connection.

    Those are orders of a store that releases orders when they are paid. Rows have
    `store`, `status`, `orders` (how many) and `example` (the name of one).
    """
    return [dict(row) for row in connection.execute(_LISTED)]


def add_payment_states(db: Database) -> None:
    """Refunded orders are no open orders; unknown statuses are found by an index."""
    db.create_view("open_orders", _OPEN_ORDERS, replace=True)
    db.create_view("order_lines", _ORDER_LINES, replace=True)
    db.execute(
        "CREATE INDEX orders_unknown_status ON orders(store, financial_status)"
        f" WHERE {_UNKNOWN}"
    )
