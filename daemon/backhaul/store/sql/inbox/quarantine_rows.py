"""Writes rows of the quarantine, and finds events in it by their object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from backhaul.core import strict_json
from backhaul.errors import Unusable
from backhaul.store.sql.dialect import member

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Mapping

    from sqlite_utils import Database


Row: TypeAlias = dict[str, Any]

MOST = 10_000
"""Events of each state that a question looks through, the newest first."""
_QUARANTINED = """
    SELECT q.id AS row, q.name AS store, q.raw, o.id AS event, o.kind, o.object_id,
           o.topic, o.detail
    FROM quarantine q JOIN event_outcomes o ON o.id = CAST(q.key AS INTEGER)
    WHERE q.source = 'event' AND o.state = 'quarantined'
    ORDER BY q.id DESC LIMIT ?
"""
_UNHANDLED = """
    SELECT NULL AS row, i.store, i.body AS raw, o.id AS event, o.kind, o.object_id,
           o.topic, o.detail
    FROM event_outcomes o JOIN inbox i ON i.id = o.id
    WHERE o.state = 'unhandled' ORDER BY o.id DESC LIMIT ?
"""
_RECENT = f"""
    SELECT q.id, q.at, q.source, q.name, q.locator, q.reason, o.kind, o.object_id,
           iif(o.object_id IS NULL, NULL, q.raw) AS raw,
           (SELECT name FROM orders WHERE store = q.name AND id = o.object_id
            AND o.kind = 'order') AS mirrored,
           coalesce('order ' || {member("r.payload", "$.record.order")},
                    'sku ' || {member("r.payload", "$.record.sku")}) AS named
    FROM quarantine q
    LEFT JOIN event_outcomes o
      ON q.source = 'event' AND o.id = CAST(q.key AS INTEGER)
    LEFT JOIN records r
      ON q.source = 'record' AND r.instance = q.name AND r.key = q.key
    WHERE q.state = 'open' AND (?2 IS NULL OR q.id < ?2)
    ORDER BY q.id DESC LIMIT ?1
"""  # noqa: S608 - constants
_NAMES = ("name", "number", "externalId", "handle", "title", "email")
_KINDS: Mapping[str, str] = {"product": "product", "level": "product"}
"""As which kind of object a kind of event is asked for."""
_FAMILIES: Mapping[str, str] = {
    "orders": "order",
    "products": "product",
    "inventory": "product",
    "customers": "customer",
}
"""The kind of object by the first part of a topic, where no object could be read."""


def add_unhandled(db: Database) -> None:
    """Unhandled events are found by an index."""
    db.execute(
        "CREATE INDEX outcomes_unhandled ON event_outcomes(id)"
        " WHERE state = 'unhandled'"
    )


def listed(connection: sqlite3.Connection, limit: int, before: int | None) -> list[Row]:
    """Return open rows of the quarantine, the newest first, with what they are about.

    `about` is the kind and name of the object: an event's own, or the order or SKU that
    a record names. It is empty where nobody can tell.
    """
    found = connection.execute(_RECENT, (limit, before)).fetchall()
    return [_with_about(dict(row)) for row in found]


def _with_about(row: Row) -> Row:
    kind, id_, raw = row.pop("kind"), row.pop("object_id"), row.pop("raw")
    name = row.pop("mirrored") or (_name(raw, id_) if raw else id_)
    named = row.pop("named") or ""
    return row | {"about": f"{kind} {name}" if id_ else named}


def called(connection: sqlite3.Connection, kind: str, name: str) -> list[Row]:
    """Return the objects of that name that only unusable events name.

    `mirrored` says which event that is. An event whose object could not be read has the
    name as its `id`.
    """
    wanted = {name.casefold(), name.removeprefix("#").casefold()}
    found: dict[tuple[str, str], Row] = {}
    for row in _events(connection):
        texts = {text.casefold() for text in _texts(row)}
        if _may_be(row, kind) and wanted & texts:
            id_ = row["object_id"] or _own_id(row) or name
            shown = {
                "name": _name(row["raw"], id_),
                "store": row["store"],
                "id": id_,
                "mirrored": f"no: {_reason(row)}",
            }
            found.setdefault((row["store"], id_), shown)
    return list(found.values())


def found(connection: sqlite3.Connection, text: str, kind: str | None) -> list[Row]:
    """Return the objects with all these words that unusable events name."""
    words = [word.removeprefix("#").casefold() for word in text.split()]
    rows: dict[tuple[str, str, str], Row] = {}
    for row in _events(connection):
        texts = " ".join(_texts(row)).casefold().replace("#", "").split()
        is_kind = row["object_id"] and (kind is None or row["kind"] == kind)
        if words and is_kind and all(word in texts for word in words):
            key = (row["kind"], row["store"], row["object_id"])
            name = _name(row["raw"], row["object_id"])
            shown = dict(zip(("kind", "store", "id"), key, strict=True))
            rows.setdefault(key, shown | {"title": name, "found": _reason(row)})
    return list(rows.values())


def _reason(row: Row) -> str:
    event = row["event"]
    if row["row"] is None:
        return f"event {event}: {row['detail']}; see: backhaul events show {event}"
    return (
        f"event {event} could not be read; see: backhaul quarantine show {row['row']}"
    )


def _may_be(row: Row, kind: str) -> bool:
    """Return True unless an event is known to be about another kind of object."""
    return row["kind"] in {kind, None}


def _events(connection: sqlite3.Connection) -> Iterator[Row]:
    for query in (_QUARANTINED, _UNHANDLED):
        for found in connection.execute(query, (MOST,)):
            row: Row = dict(found)
            kind: Any = row["kind"] or _FAMILIES.get(row["topic"].partition("/")[0])
            yield {**row, "kind": _KINDS.get(kind, kind)}


def _own_id(row: Row) -> str | None:
    id_ = _data(row["raw"]).get("id")
    return id_ if isinstance(id_, str) and id_ else None


def _name(raw: bytes | str, id_: str) -> str:
    """Return what an object calls itself; an order by its number where it has one."""
    data = _data(raw)
    number = data.get("number")
    name = data.get("name") or (f"#{number}" if number else data.get("title"))
    return str(name) if isinstance(name, str | int) and name else id_


def _texts(row: Row) -> list[str]:
    """Return all by which a person may ask for the object of an event."""
    data = _data(row["raw"])
    named = [data.get(member) for member in _NAMES]
    texts = [str(text) for text in named if isinstance(text, str | int)]
    own = [id_ for id_ in (row["object_id"], _own_id(row)) if id_]
    return [*own, *texts, *(text.removeprefix("#") for text in texts)]


def _data(raw: bytes | str) -> Mapping[str, Any]:
    """Return the object inside a delivery; nothing where it is no JSON."""
    try:
        document = strict_json.decode_object(
            raw.encode() if isinstance(raw, str) else raw
        )
    except Unusable:
        return {}
    inner = document.get("data")
    return inner if isinstance(inner, dict) else document


def set_aside(
    connection: sqlite3.Connection,
    source: str,
    name: str,
    key: str,
    raw: str | bytes,
    reason: str,
    locator: str,
    now: str,
) -> None:
    """Put a row into quarantine; one that was retried is open again."""
    connection.execute(
        """
        INSERT INTO quarantine (source, name, key, raw, reason, locator, at)
        VALUES (?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (source, name, key) DO UPDATE SET
            state = 'open', raw = excluded.raw, reason = excluded.reason,
            locator = excluded.locator, at = excluded.at, reported = 0
        WHERE state = 'retried'
        """,
        (source, name, key, raw, reason, locator, now),
    )
