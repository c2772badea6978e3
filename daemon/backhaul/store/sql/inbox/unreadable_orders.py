"""Orders that an unreadable event names; their commands wait for a refetch.

Such an event may have reported that the order is cancelled. Until a later read shows
the order, nothing that Backhaul knows of the order is certain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.store.inbox import UnreadableOrder
from backhaul.store.sql.dialect import greatest

if TYPE_CHECKING:
    from backhaul.store.sql.family import Connection

EXIST = "EXISTS (SELECT 1 FROM unreadable_orders)"
HOLDS = """
    EXISTS (SELECT 1 FROM unreadable_orders u
            WHERE u.store = c.store AND u.order_id = c.target)
"""
"""A condition on a command `c`: its order waits for a refetch."""
_HOLD = f"""
    INSERT INTO unreadable_orders (store, order_id, event, reason, since, seen_at)
    VALUES (:store, :order, :event, :reason, :received_at, :received_at)
    ON CONFLICT (store, order_id) DO UPDATE SET event = excluded.event,
        reason = excluded.reason,
        seen_at = {greatest("unreadable_orders.seen_at", "excluded.seen_at")}
"""  # noqa: S608 - constants
# After the clock went back, no read can be shown to have begun later.
_RELEASE = """
    DELETE FROM unreadable_orders WHERE store = :store AND order_id = :order
    AND (event = :event OR seen_at <= :began OR seen_at > :now)
"""
_DISCARD = """
    DELETE FROM unreadable_orders WHERE event = :event RETURNING store, order_id
"""
_WAKE = """
    UPDATE commands SET due_at = :now WHERE store = :store AND lane = :lane
    AND state = 'planned' AND hold_reason IS NULL AND due_at < :now
"""
_LIST = """
    SELECT u.store, u.order_id, coalesce(o.name, u.order_id) AS name, u.event, u.reason,
           u.since, (SELECT id FROM quarantine q WHERE q.source = 'event'
                     AND q.name = u.store AND q.key = CAST(u.event AS TEXT)) AS row,
           (SELECT count(*) FROM commands c WHERE c.store = u.store
            AND c.target = u.order_id AND c.state = 'planned') AS commands
    FROM unreadable_orders u
    LEFT JOIN orders o ON o.store = u.store AND o.id = u.order_id
    ORDER BY u.since, u.order_id
"""


def all_keys(connection: Connection) -> set[tuple[str, str]]:
    """Return the store and id of each order whose commands wait."""
    rows = connection.execute("SELECT store, order_id FROM unreadable_orders")
    return {tuple(row) for row in rows}


def hold(
    connection: Connection,
    store: str,
    order_id: str,
    event: int,
    reason: str,
    received_at: str,
) -> None:
    """Hold the commands of an order until a later read shows the order."""
    connection.execute(
        _HOLD,
        {
            "store": store,
            "order": order_id,
            "event": event,
            "reason": reason,
            "received_at": received_at,
        },
    )


def release(
    connection: Connection,
    store: str,
    order_id: str,
    event: int,
    began: str,
    now: str,
) -> None:
    """Release the commands of an order if `event` shows its current state.

    That is the event that was unreadable before, or a read of the order that began
    later, at `began`; `began` is empty for every other event.
    """
    values = {"store": store, "order": order_id, "event": event}
    times = {"began": began, "now": now if began else "~"}
    if connection.execute(_RELEASE, values | times).rowcount:
        _wake(connection, store, order_id, now)


def discard(connection: Connection, event: int, now: str) -> None:
    """Release the commands that wait because of an event that an operator discarded."""
    for store, order_id in connection.execute(_DISCARD, {"event": event}).fetchall():
        _wake(connection, store, order_id, now)


def list_all(connection: Connection) -> list[UnreadableOrder]:
    """Return the orders whose commands wait, the oldest first."""
    return [UnreadableOrder(*row) for row in connection.execute(_LIST)]


def _wake(connection: Connection, store: str, order_id: str, now: str) -> None:
    values = {"store": store, "lane": f"order:{order_id}", "now": now}
    connection.execute(_WAKE, values)
