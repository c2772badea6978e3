"""Payment states of orders in SQL: refunded, not paid, and not known.

The contract names five financial statuses. Platforms write them in any case and add
statuses of their own: such an order may be paid, and Backhaul cannot know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.fold import FINANCIAL
from backhaul.store.mirror import UnknownStatus

if TYPE_CHECKING:
    from backhaul.store.sql.family import Connection

_WORD = "upper(trim(financial_status))"
_KNOWN = ", ".join(f"'{word}'" for word in FINANCIAL)
NOT_REFUNDED = f"{_WORD} IS DISTINCT FROM 'REFUNDED'"
# Frozen: the schema has an index on this condition, which SQLite finds by its text.
UNKNOWN = f"""
    {_WORD} NOT IN ('PENDING', 'PAID', 'PARTIALLY_REFUNDED', 'VOIDED', 'REFUNDED')
    AND cancelled_at IS NULL AND fulfillment_status != 'FULFILLED'
"""
_IS_OLD = """
    coalesce(nullif(o.placed_at, ''), o.updated_at) < coalesce(s.old_before, '')
"""
_NOT_NOTIFIED = """
    NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.object_id = o.id
                AND d.instance = s.instance AND d.store = o.store
                AND d.topic IN ('order.placed', 'order.cancelled'))
"""
_LISTED = f"""
    SELECT store, financial_status AS status, count(*) AS orders,
           min(coalesce(name, CAST(number AS TEXT), id)) AS example
    FROM orders o WHERE {UNKNOWN} AND EXISTS (
        SELECT 1 FROM change_subscribers s WHERE s.store = o.store
        AND s.release_when = 'paid' AND NOT {_IS_OLD} AND {_NOT_NOTIFIED})
    GROUP BY store, financial_status ORDER BY store, financial_status
"""  # noqa: S608 - constants
_NOT_PAID = f"{_WORD} NOT IN ('PAID', 'PARTIALLY_REFUNDED')"
_UNREPORTED = f"""
    SELECT o.*, s.instance, s.since, s.release_when, {_IS_OLD} AS is_old
    FROM orders o JOIN change_subscribers s ON s.store = o.store
    WHERE o.store = :store AND o.id = :id AND s.release_when IS NOT NULL
      AND {_NOT_NOTIFIED}
"""  # noqa: S608 - constants
NOT_REPORTED = f"""
    SELECT since, 'connection', instance, 'not reported', 'placed before connection '
           || instance || ' began; not reported to it', NULL, 4
    FROM ({_UNREPORTED}) u WHERE is_old
    UNION ALL
    SELECT cancelled_at, 'connection', instance, 'not reported', 'cancelled before it'
           || ' was reported to connection ' || instance || '; not reported to it',
           NULL, 4
    FROM ({_UNREPORTED}) u WHERE NOT is_old AND cancelled_at IS NOT NULL
    UNION ALL
    SELECT updated_at, 'payment', coalesce(name, id), 'not released',
           'financial status ' || financial_status || CASE WHEN {_WORD} IN ({_KNOWN})
             THEN '' ELSE ' is not known' END || ': connection ' || instance
           || CASE WHEN {_WORD} = 'REFUNDED' THEN ''
              ELSE ' waits for payment (release_when = "paid") and' END
           || ' is not notified of the order', NULL, 4
    FROM ({_UNREPORTED}) u WHERE NOT is_old AND cancelled_at IS NULL
      AND (release_when = 'paid' AND {_NOT_PAID}
           OR {_WORD} = 'REFUNDED' AND fulfillment_status != 'FULFILLED')
    UNION ALL
    SELECT updated_at, 'confirmation', coalesce(name, id), 'not released',
           'the store has not confirmed the order: connection ' || instance
           || ' waits for that (release_when = "confirmed") and is not notified of it',
           NULL, 4
    FROM ({_UNREPORTED}) u WHERE NOT is_old AND cancelled_at IS NULL
      AND release_when = 'confirmed' AND awaiting_confirmation = 1
"""  # noqa: S608 - constants
"""Rows of the timeline of an order: why a connection was not notified of it."""


def unknown_statuses(connection: Connection) -> list[UnknownStatus]:
    """Return each unknown financial status that keeps open orders from a connection.

    Only stores with a connection that waits for payment count.
    """
    return [UnknownStatus(*row) for row in connection.execute(_LISTED)]
