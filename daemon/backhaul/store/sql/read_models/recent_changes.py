"""What changed lately in the tables that have an increasing number, for a stream."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from backhaul.store.read_records import ChangedObject, RecentChange
from backhaul.store.sql.dialect import elements
from backhaul.store.sql.read_models.timeline import ORDER_NAME
from backhaul.store.sql.stock_targets.rows import STATE_AS_COMMAND

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul.store.sql.family import Connection

# Each query has the columns of RecentChange. A command changes its state with an
# attempt, a check or a decision, and each of these has a number of its own.
QUERIES: Mapping[str, str] = {
    "inbox": """
        SELECT i.id, 'event', CAST(i.id AS TEXT), i.store,
               coalesce(o.state, 'received'), CASE WHEN o.id IS NULL THEN 1 ELSE 0 END
        FROM inbox i LEFT JOIN event_outcomes o ON o.id = i.id
        WHERE i.id > :after ORDER BY i.id LIMIT :limit
    """,
    "commands": """
        SELECT seq, 'command', id, store, state, 0
        FROM commands WHERE seq > :after ORDER BY seq LIMIT :limit
    """,
    "stock_targets": f"""
        SELECT t.seq, 'command', t.id, t.store, {STATE_AS_COMMAND}, 0
        FROM stock_targets t WHERE t.seq > :after ORDER BY t.seq LIMIT :limit
    """,  # noqa: S608 - constants
    "attempts": """
        SELECT a.id, 'command', c.id, c.store, c.state,
               CASE WHEN a.finished_at IS NULL THEN 1 ELSE 0 END
        FROM attempts a JOIN commands c ON c.id = a.command_id
        WHERE a.id > :after ORDER BY a.id LIMIT :limit
    """,
    "corrections": f"""
        SELECT a.id, 'command', t.id, t.store, {STATE_AS_COMMAND},
               CASE WHEN a.finished_at IS NULL THEN 1 ELSE 0 END
        FROM attempts a JOIN stock_targets t ON t.correction = a.command_id
        WHERE a.id > :after ORDER BY a.id LIMIT :limit
    """,  # noqa: S608 - constants
    "resolution_checks": """
        SELECT r.id, 'command', c.id, c.store, c.state, 0
        FROM resolution_checks r JOIN commands c ON c.id = r.command_id
        WHERE r.id > :after ORDER BY r.id LIMIT :limit
    """,
    "quarantine": """
        SELECT q.id, 'quarantine', CAST(q.id AS TEXT),
               CASE WHEN q.source = 'event' THEN q.name ELSE coalesce(r.store, '') END,
               q.state, 0
        FROM quarantine q LEFT JOIN records r
          ON q.source = 'record' AND r.instance = q.name AND r.key = q.key
        WHERE q.id > :after ORDER BY q.id LIMIT :limit
    """,
    "deliveries": """
        SELECT seq, 'delivery', CAST(seq AS TEXT) AS object, store, state,
               CASE WHEN state IN ('planned', 'sending', 'uncertain') THEN 1 ELSE 0 END
        FROM deliveries WHERE seq > :after ORDER BY seq LIMIT :limit
    """,
}
_DECISIONS = "audit"
SOURCES = (*QUERIES, _DECISIONS)
"""The tables whose numbers make a place in the stream, in their order."""
_NUMBERS = {"commands": "seq", "stock_targets": "seq", "deliveries": "seq"}
_TABLES = {"corrections": "attempts"}
"""The table of a source, where it has another name: a stock target follows the
attempts of its adjustment."""
AUDIT = """
    SELECT id, action, detail, command_id FROM audit
    WHERE id > :after ORDER BY id LIMIT :limit
"""
_NAMED = re.compile(r"(row|delivery) (\d+)")
OF_DECISIONS: Mapping[str, str] = {
    "command": f"""
        SELECT 0, 'command', id, store, state, 0 FROM commands
        WHERE id IN (SELECT value FROM {elements(":ids", "$")})
        UNION ALL
        SELECT 0, 'command', t.id, t.store, {STATE_AS_COMMAND}, 0 FROM stock_targets t
        WHERE t.id IN (SELECT value FROM {elements(":ids", "$")})
    """,  # noqa: S608 - constants
    "row": f"""
        SELECT 0, 'quarantine', CAST(q.id AS TEXT),
               CASE WHEN q.source = 'event' THEN q.name ELSE coalesce(r.store, '') END,
               q.state, 0
        FROM quarantine q LEFT JOIN records r
          ON q.source = 'record' AND r.instance = q.name AND r.key = q.key
        WHERE q.id IN (SELECT CAST(value AS BIGINT) FROM {elements(":ids", "$")})
    """,  # noqa: S608 - constants
    "delivery": f"""
        SELECT 0, 'delivery', CAST(seq AS TEXT), store, state, 0 FROM deliveries
        WHERE seq IN (SELECT CAST(value AS BIGINT) FROM {elements(":ids", "$")})
    """,  # noqa: S608 - constants
}


def ends(connection: Connection) -> dict[str, int]:
    """Return the last number of each source."""
    return {
        source: int(
            connection.execute(
                f"SELECT coalesce(max({_NUMBERS.get(source, 'id')}), 0) AS n"  # noqa: S608 - constants
                f" FROM {_TABLES.get(source, source)}"
            ).fetchone()[0]
        )
        for source in SOURCES
    }


def since(
    connection: Connection, places: Mapping[str, int], limit: int
) -> dict[str, list[RecentChange]]:
    """Return the rows behind the place of each source, by source."""
    found = {
        source: [
            RecentChange(*row)
            for row in connection.execute(
                query, {"after": places[source], "limit": limit}
            )
        ]
        for source, query in QUERIES.items()
    }
    return found | {_DECISIONS: _decided(connection, places[_DECISIONS], limit)}


def _decided(connection: Connection, after: int, limit: int) -> list[RecentChange]:
    """Return what operators decided about, each with the number of its audit entry."""
    named: dict[tuple[str, str], int] = {}
    last = after
    values = {"after": after, "limit": limit}
    for last, action, detail, command in connection.execute(AUDIT, values).fetchall():
        match = _NAMED.match(detail)
        if command is not None:
            named["command", command] = last
        elif match and action.startswith(("quarantine ", "deliveries ")):
            named[match[1], match[2]] = last
    found = []
    for kind, query in OF_DECISIONS.items():
        ids = [id_ for each, id_ in named if each == kind]
        rows = connection.execute(query, {"ids": json.dumps(ids)}) if ids else ()
        for _, type_, id_, store, state, _ in rows:
            number = named[kind, id_]
            found.append(RecentChange(number, type_, id_, store, state, is_open=0))
    found.sort(key=lambda each: each.number)
    if last > after and (not found or found[-1].number < last):
        # The entries behind the last change are about something else.
        found.append(RecentChange(last, "", "", "", "", is_open=0))
    return found


SCANNED = 5_000
"""The changes that one page reads at most: some milliseconds."""
_LATEST_CHANGES = f"""
    SELECT max(id) AS change, kind, store, object_id FROM (
        SELECT id, kind, store, object_id FROM changes
        WHERE id < :before ORDER BY id DESC LIMIT {SCANNED}) latest
    WHERE :kind IS NULL OR kind = :kind
    GROUP BY kind, store, object_id ORDER BY change DESC LIMIT :limit
"""  # noqa: S608 - constants
_NOT_SEARCHED = f"""
    SELECT id + 1 FROM changes
    WHERE id < :before ORDER BY id DESC LIMIT 1 OFFSET {SCANNED}
"""  # noqa: S608 - constants
_PRODUCT_TITLE = "SELECT title FROM products WHERE store = :store AND id = :id"
_TITLES = {
    "level": _PRODUCT_TITLE,  # a change of stock names its product
    "order": f"SELECT {ORDER_NAME} FROM orders WHERE store = :store AND id = :id",  # noqa: S608 - constants
    "product": _PRODUCT_TITLE,
    "customer": "SELECT coalesce(name, email, id) FROM customers"
    " WHERE store = :store AND id = :id",
}


def latest(
    connection: Connection, kind: str | None, limit: int, before: int
) -> list[ChangedObject]:
    """Return the objects that changed last, before the change with this number."""
    values = {"kind": kind, "limit": limit, "before": before}
    rows = connection.execute(_LATEST_CHANGES, values).fetchall()
    return [
        ChangedObject(change, kind, store, id_, _title(connection, kind, store, id_))
        for change, kind, store, id_ in rows
    ]


def not_searched(connection: Connection, before: int) -> int | None:
    """Return the place behind the changes that `latest` reads; None at the end."""
    row = connection.execute(_NOT_SEARCHED, {"before": before}).fetchone()
    return int(row[0]) if row else None


def _title(connection: Connection, kind: str, store: str, id_: str) -> str:
    query = _TITLES.get(kind)
    if query is None:
        return id_
    row = connection.execute(query, {"store": store, "id": id_}).fetchone()
    return str(row[0]) if row else id_
