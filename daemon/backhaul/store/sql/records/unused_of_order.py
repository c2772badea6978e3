"""Records of connectors that name an order and became no command of it.

Such a record waits for its order, lies in quarantine, or an operator gave it up. A row
that never became a record names an order where its text has the name as a word.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias

from backhaul.store.sql.dialect import member

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

Row: TypeAlias = dict[str, Any]

MOST = 10_000
"""Quarantined rows, and waiting records, that a question looks through."""
LONGEST_NUMBER = 19
"""Digits of a text that is no number of an order any more."""
SHORTEST_IN_TEXT = 3
"""Characters of a name that a text is searched for: fewer are found in any row."""
_NAMED = f"""
    r.store, r.instance, r.key, r.locator, r.received_at, r.raw,
    coalesce({member("r.payload", "$.kind")}, 'kept') = 'kept' AS is_text,
    {member("r.payload", "$.record.order")} AS named,
    {member("r.payload", "$.record.tracking_number")} AS parcel
"""
_OPEN = f"""
    SELECT * FROM (
        SELECT {_NAMED}, q.id AS row, iif(q.state = 'dropped', 'dropped', 'quarantined')
               AS state, q.reason
        FROM quarantine q JOIN records r ON r.instance = q.name AND r.key = q.key
        WHERE q.source = 'record' AND q.state IN ('open', 'dropped')
          AND r.command_id IS NULL
        ORDER BY q.id DESC LIMIT ?)
    UNION ALL
    SELECT * FROM (
        SELECT {_NAMED}, NULL AS row, r.state, r.reason
        FROM records r WHERE r.state = 'waiting' LIMIT ?)
"""  # noqa: S608 - constants
_NAMES = """
    SELECT number, name, external_id FROM orders WHERE store = ? AND id = ?
"""
_PARCELS = """
    SELECT tracking_number FROM shipments
    WHERE store = ? AND order_id = ? AND tracking_number IS NOT NULL
"""


def timeline_rows(connection: sqlite3.Connection, order: Row) -> list[Row]:
    """Return a row of an order's life for each record that names it.

    `order` has `store`, `id` and `name`; an order that is not mirrored has the name
    that was asked for.
    """
    place = (order["store"], order["id"])
    names = {_key(str(order["id"])), _key(str(order["name"]))}
    for values in connection.execute(_NAMES, place):
        names |= {_key(str(value)) for value in values if value is not None}
    parcels = {number for (number,) in connection.execute(_PARCELS, place)}
    found = _records(connection, names, parcels)
    return [_step(row) for row in found if row["store"] == order["store"]]


def orders_named(connection: sqlite3.Connection, name: str) -> list[Row]:
    """Return an order of that name for each store whose records alone name it."""
    found: dict[str, Row] = {}
    for row in _records(connection, {_key(name)}, set()):
        shown = {"name": name, "store": row["store"], "id": name}
        says = f"no: only a row of connector {row['instance']} names it"
        found.setdefault(row["store"], shown | {"mirrored": says})
    return list(found.values())


def _records(
    connection: sqlite3.Connection, names: set[str], parcels: set[str]
) -> Iterator[Row]:
    texts = [re.escape(name) for name in names if len(name) >= SHORTEST_IN_TEXT]
    word = re.compile(rf"(?<!\w)(?:{'|'.join(texts)})(?!\w)") if texts else None
    for found in connection.execute(_OPEN, (MOST, MOST)):
        row = dict(found)
        if row["is_text"]:
            is_named = word is not None and bool(word.search(row["raw"].casefold()))
        else:
            is_named = row["named"] is not None and _key(str(row["named"])) in names
        if is_named or row["parcel"] in parcels:
            yield row


def _key(name: str) -> str:
    """Return a name as it is compared: `#0042` and `42` are one."""
    bare = name.strip().removeprefix("#").casefold()
    is_number = bare.isascii() and bare.isdigit() and len(bare) < LONGEST_NUMBER
    return str(int(bare)) if is_number else bare


def _step(row: Row) -> Row:
    detail = row["reason"]
    if row["is_text"]:
        detail += "; the text of the row has the order's name"
    if row["row"] is not None:
        detail += f"; see: backhaul quarantine show {row['row']}"
    return {
        "at": row["received_at"],
        "what": "record",
        "name": f"{row['instance']} {row['locator'] or row['key']}",
        "state": row["state"],
        "detail": detail,
        "body": None,
        "turn": 1,
    }
