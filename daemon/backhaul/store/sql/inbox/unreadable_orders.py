"""The orders of which an event could not be read: their commands wait for a refetch.

Such an event may have told that the order is cancelled. Until a read that began after
it shows the order, nothing that Backhaul knows of the order is certain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3

    from sqlite_utils import Database

    from backhaul.store.sql.family import Connection

EXIST = "EXISTS (SELECT 1 FROM unreadable_orders)"
HOLDS = """
    EXISTS (SELECT 1 FROM unreadable_orders u
            WHERE u.store = c.store AND u.order_id = c.target)
"""
"""A condition on a command `c`: its order waits for a refetch."""
_HOLD = """
    INSERT INTO unreadable_orders (store, order_id, event, reason, since, seen_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?5)
    ON CONFLICT (store, order_id) DO UPDATE SET event = excluded.event,
        reason = excluded.reason, seen_at = max(seen_at, excluded.seen_at)
"""
# After the clock was set back no read can be said to have begun later.
_RELEASE = """
    DELETE FROM unreadable_orders WHERE store = :store AND order_id = :order
    AND (event = :event OR seen_at <= :began OR seen_at > :now)
"""
_WAKE = """
    UPDATE commands SET due_at = ?1 WHERE store = ?2 AND lane = ?3
    AND state = 'planned' AND held = 0 AND due_at < ?1
"""
_LISTED = """
    SELECT u.store, u.order_id, coalesce(o.name, u.order_id) AS name, u.event, u.reason,
           u.since, (SELECT id FROM quarantine q WHERE q.source = 'event'
                     AND q.name = u.store AND q.key = CAST(u.event AS TEXT)) AS row,
           (SELECT count(*) FROM commands c WHERE c.store = u.store
            AND c.target = u.order_id AND c.state = 'planned') AS commands
    FROM unreadable_orders u
    LEFT JOIN orders o ON o.store = u.store AND o.id = u.order_id
    ORDER BY u.since, u.order_id
"""


def add_unreadable_orders(db: Database) -> None:
    """Orders whose commands wait, each with the last event that could not be read."""
    db.execute(
        """
        CREATE TABLE unreadable_orders (
            store TEXT NOT NULL, order_id TEXT NOT NULL, event INTEGER NOT NULL,
            reason TEXT NOT NULL, since TEXT NOT NULL, seen_at TEXT NOT NULL,
            PRIMARY KEY (store, order_id)) WITHOUT ROWID
        """
    )


def hold(
    connection: sqlite3.Connection,
    store: str,
    order_id: str,
    event: int,
    reason: str,
    received_at: str,
) -> None:
    """Let the commands of an order wait until a later read shows it."""
    connection.execute(_HOLD, (store, order_id, event, reason, received_at))


def release(
    connection: sqlite3.Connection,
    store: str,
    order_id: str,
    event: int,
    began: str,
    now: str,
) -> None:
    """Let the commands of an order leave again, if `event` settles what it is.

    It does if it is the event that could not be read before, or a read of the order
    that began later, at `began`; that is empty for every other event.
    """
    values = {"store": store, "order": order_id, "event": event}
    times = {"began": began, "now": now if began else "~"}
    if connection.execute(_RELEASE, values | times).rowcount:
        connection.execute(_WAKE, (now, store, f"order:{order_id}"))


def discard(connection: sqlite3.Connection, event: int, now: str) -> None:
    """Let the commands go that wait because of an event that a person gave up."""
    query = "DELETE FROM unreadable_orders WHERE event = ? RETURNING store, order_id"
    for store, order_id in connection.execute(query, (event,)).fetchall():
        connection.execute(_WAKE, (now, store, f"order:{order_id}"))


def listed(connection: Connection) -> list[dict[str, Any]]:
    """Return the orders that wait, the oldest first, with the event and its reason."""
    return [dict(row) for row in connection.execute(_LISTED)]
