"""What a person wants to see of each store and connector at one glance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

Row = dict[str, Any]

# Where reading has filled the inbox meanwhile, the secret that signed last tells it.
_LAST_WEBHOOK = """
    SELECT max(at) FROM (
        SELECT max(received_at) AS at
        FROM (SELECT store, kind, received_at FROM inbox ORDER BY id DESC LIMIT 5000)
        WHERE store = :store AND kind = 'delivery'
        UNION ALL
        SELECT max(last_used_at) FROM webhook_secrets WHERE store = :store)
"""
_TO_FOLD = """
    SELECT store, count(*) AS to_fold, min(received_at) AS oldest_at FROM inbox
    WHERE id > (SELECT coalesce(max(id), 0) FROM event_outcomes) GROUP BY store
"""
_CONNECTOR = """
    SELECT (SELECT received_at FROM records WHERE instance = :name
            ORDER BY id DESC LIMIT 1) AS last_record_at,
           (SELECT count(*) FROM quarantine
            WHERE state = 'open' AND name = :name) AS quarantined,
           (SELECT count(*) FROM deliveries
            WHERE state = 'parked' AND instance = :name) AS deliveries_parked
"""
_OLDEST_PLANNED = """
    SELECT min(created_at) FROM commands WHERE state = 'planned' AND held = 0
"""


def stores(connection: sqlite3.Connection, names: Iterable[str]) -> dict[str, Row]:
    """Return of each store its `last_webhook_at`, `to_fold` and its `oldest_at`."""
    behind = {row["store"]: dict(row) for row in connection.execute(_TO_FOLD)}
    found = {}
    for name in names:
        (last,) = connection.execute(_LAST_WEBHOOK, {"store": name}).fetchone()
        waiting = behind.get(name, {"to_fold": 0, "oldest_at": None})
        found[name] = {
            "last_webhook_at": last,
            "to_fold": waiting["to_fold"],
            "oldest_at": waiting["oldest_at"],
        }
    return found


def connectors(connection: sqlite3.Connection, names: Iterable[str]) -> dict[str, Row]:
    """Return of each instance when it last brought something, and what is stuck."""
    return {
        name: dict(connection.execute(_CONNECTOR, {"name": name}).fetchone())
        for name in names
    }


def oldest_planned(connection: sqlite3.Connection) -> str | None:
    """Return when the command was planned that waits the longest to be sent."""
    (found,) = connection.execute(_OLDEST_PLANNED).fetchone()
    return found if found is None else str(found)
