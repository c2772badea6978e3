"""Single facts that a program beside the daemon asks of the database."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from backhaul.store.sql.dialect import ascii_text, contains, elements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.store.sql.family import Connection

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
