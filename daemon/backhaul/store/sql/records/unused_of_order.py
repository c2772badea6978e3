"""Records of connectors that name an order and have no command of it.

Such a record waits for its order, is in quarantine, or was dropped by an operator. A
bad row that never became a record names an order if its text has the name as a word.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from backhaul.store.sql.dialect import member

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul.store.sql.family import Connection

Row: TypeAlias = dict[str, Any]

MOST = 10_000
"""Quarantined rows, and waiting records, that are searched at most."""
LONGEST_NUMBER = 19
"""Digits of a text that is too long for the number of an order."""
SHORTEST_IN_TEXT = 3
"""Characters of a name that is searched in text: any row has shorter ones."""
_NAMED = f"""
    r.store, r.instance, r.key, r.locator, r.received_at, r.raw,
    coalesce({member("r.payload", "$.kind")}, 'kept') = 'kept' AS is_text,
    {member("r.payload", "$.record.order")} AS named,
    {member("r.payload", "$.record.tracking_number")} AS parcel
"""
_OPEN = f"""
    SELECT * FROM (
        SELECT {_NAMED}, q.id AS number, q.reason,
               CASE WHEN q.state = 'dropped' THEN 'dropped' ELSE 'quarantined' END
                 AS state
        FROM quarantine q JOIN records r ON r.instance = q.name AND r.key = q.key
        WHERE q.source = 'record' AND q.state IN ('open', 'dropped')
          AND r.command_id IS NULL
        ORDER BY q.id DESC LIMIT :most) quarantined
    UNION ALL
    SELECT * FROM (
        SELECT {_NAMED}, CAST(NULL AS bigint) AS number, r.reason, r.state
        FROM records r WHERE r.state = 'waiting' LIMIT :most) waiting
"""  # noqa: S608 - constants
_NAMES = """
    SELECT number, name, external_id FROM orders WHERE store = :store AND id = :id
"""
_PARCELS = """
    SELECT tracking_number FROM shipments
    WHERE store = :store AND order_id = :id AND tracking_number IS NOT NULL
"""


class _Found(NamedTuple):
    """A record; `number` is its row of the quarantine, `is_text` marks a bad row."""

    store: str
    instance: str
    key: str
    locator: str
    received_at: str
    raw: str
    is_text: bool
    named: str | None
    parcel: str | None
    number: int | None
    reason: str
    state: str


def timeline_rows(connection: Connection, order: Row) -> list[Row]:
    """Return a row of an order's timeline for each record that names it.

    `order` has `store`, `id` and `name`; an order that is not mirrored has the name
    that was searched.
    """
    place = {"store": order["store"], "id": order["id"]}
    names = {_key(str(order["id"])), _key(str(order["name"]))}
    for values in connection.execute(_NAMES, place):
        names |= {_key(str(value)) for value in values if value is not None}
    parcels = {number for (number,) in connection.execute(_PARCELS, place)}
    found = _records(connection, names, parcels)
    return [_step(each) for each in found if each.store == order["store"]]


def orders_named(connection: Connection, name: str) -> list[Row]:
    """Return an order of that name for each store whose records alone name it."""
    orders: dict[str, Row] = {}
    for found in _records(connection, {_key(name)}, set()):
        shown = {"name": name, "store": found.store, "id": name}
        says = f"no: only a row of connector {found.instance} names it"
        orders.setdefault(found.store, shown | {"mirrored": says})
    return list(orders.values())


def _records(
    connection: Connection, names: set[str], parcels: set[str]
) -> Iterator[_Found]:
    texts = [re.escape(name) for name in names if len(name) >= SHORTEST_IN_TEXT]
    word = re.compile(rf"(?<!\w)(?:{'|'.join(texts)})(?!\w)") if texts else None
    for row in connection.execute(_OPEN, {"most": MOST}):
        found = _Found(*row)
        if found.is_text:
            is_named = word is not None and bool(word.search(found.raw.casefold()))
        else:
            is_named = found.named is not None and _key(str(found.named)) in names
        if is_named or found.parcel in parcels:
            yield found


def _key(name: str) -> str:
    """Return a name for comparison: `#0042` and `42` are the same."""
    bare = name.strip().removeprefix("#").casefold()
    is_number = bare.isascii() and bare.isdigit() and len(bare) < LONGEST_NUMBER
    return str(int(bare)) if is_number else bare


def _step(found: _Found) -> Row:
    detail = found.reason
    if found.is_text:
        detail += "; the text of the row has the order's name"
    if found.number is not None:
        detail += f"; see: backhaul quarantine show {found.number}"
    return {
        "at": found.received_at,
        "what": "record",
        "name": f"{found.instance} {found.locator or found.key}",
        "state": found.state,
        "detail": detail,
        "body": None,
        "turn": 1,
    }
