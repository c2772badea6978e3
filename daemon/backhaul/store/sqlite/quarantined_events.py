"""Quarantined events by the object that they name, mirrored or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from backhaul.core import strict_json
from backhaul.errors import Unusable

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Mapping

Row: TypeAlias = dict[str, Any]

MOST = 10_000
"""Quarantined events that a question looks through, the newest first."""
_OPEN = """
    SELECT q.id AS row, q.name AS store, q.raw, o.id AS event, o.kind, o.object_id
    FROM quarantine q JOIN event_outcomes o ON o.id = CAST(q.key AS INTEGER)
    WHERE q.source = 'event' AND q.state = 'open' AND o.object_id IS NOT NULL
    ORDER BY q.id DESC LIMIT ?
"""
_RECENT = """
    SELECT q.id, q.at, q.source, q.name, q.locator, q.reason, o.kind, o.object_id,
           iif(o.object_id IS NULL, NULL, q.raw) AS raw,
           (SELECT name FROM orders WHERE store = q.name AND id = o.object_id
            AND o.kind = 'order') AS mirrored
    FROM quarantine q
    LEFT JOIN event_outcomes o
      ON q.source = 'event' AND o.id = CAST(q.key AS INTEGER)
    WHERE q.state = 'open' AND (?2 IS NULL OR q.id < ?2)
    ORDER BY q.id DESC LIMIT ?1
"""
_NAMES = ("name", "number", "externalId", "handle", "title", "email")
_KINDS: Mapping[str, str] = {"product": "product", "level": "product"}
"""As which kind of object a kind of event is asked for."""


def listed(connection: sqlite3.Connection, limit: int, before: int | None) -> list[Row]:
    """Return open rows of the quarantine, the newest first, with what they are about.

    `about` is the kind and name of an event's object, empty where nobody can tell.
    """
    found = connection.execute(_RECENT, (limit, before)).fetchall()
    return [_with_about(dict(row)) for row in found]


def _with_about(row: Row) -> Row:
    kind, id_, raw = row.pop("kind"), row.pop("object_id"), row.pop("raw")
    name = row.pop("mirrored") or (_name(raw, id_) if raw else id_)
    return row | {"about": f"{kind} {name}" if id_ else ""}


def called(connection: sqlite3.Connection, kind: str, name: str) -> list[Row]:
    """Return the objects of that name that only quarantined events tell of."""
    wanted = {name.casefold(), name.removeprefix("#").casefold()}
    found: dict[tuple[str, str], Row] = {}
    for row in _events(connection):
        texts = {text.casefold() for text in _texts(row)}
        if row["kind"] == kind and wanted & texts:
            shown = {
                "name": _name(row["raw"], row["object_id"]),
                "store": row["store"],
                "id": row["object_id"],
                "mirrored": f"no: {_reason(row)}",
            }
            found.setdefault((row["store"], row["object_id"]), shown)
    return list(found.values())


def found(connection: sqlite3.Connection, text: str, kind: str | None) -> list[Row]:
    """Return the objects with all these words that quarantined events name."""
    words = [word.removeprefix("#").casefold() for word in text.split()]
    rows: dict[tuple[str, str, str], Row] = {}
    for row in _events(connection):
        texts = " ".join(_texts(row)).casefold().replace("#", "").split()
        is_kind = kind is None or row["kind"] == kind
        if words and is_kind and all(word in texts for word in words):
            key = (row["kind"], row["store"], row["object_id"])
            name = _name(row["raw"], row["object_id"])
            shown = dict(zip(("kind", "store", "id"), key, strict=True))
            rows.setdefault(key, shown | {"title": name, "found": _reason(row)})
    return list(rows.values())


def _reason(row: Row) -> str:
    return (
        f"event {row['event']} could not be read; see: backhaul quarantine show"
        f" {row['row']}"
    )


def _events(connection: sqlite3.Connection) -> Iterator[Row]:
    for row in connection.execute(_OPEN, (MOST,)):
        yield {**dict(row), "kind": _KINDS.get(row["kind"], row["kind"])}


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
    return [row["object_id"], *texts, *(text.removeprefix("#") for text in texts)]


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
