"""Whom a person may have meant who typed an id or e-mail that is nobody's."""

from __future__ import annotations

import string
from contextlib import closing
from typing import TYPE_CHECKING

from backhaul.store.sqlite import connections, finding
from backhaul.store.sqlite.members import member

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator
    from pathlib import Path

MOST = 5
SIGNS = string.ascii_letters + string.digits + "_-.+@"
LONGEST = 100
AT_ONCE = 500
_BY_ID = "SELECT id, name FROM customers WHERE store = ? AND id IN ({})"
_BY_EMAIL = (
    "SELECT id, email FROM customers WHERE store = ? AND email COLLATE NOCASE IN ({})"
)
_BY_ORDER = f"""
    SELECT DISTINCT customer_id, {member("document", "$.customer.name")} FROM orders
    WHERE store = ? AND customer_id IN ({{}})
"""  # noqa: S608 - a constant of ours
_BEGINNING = """
    SELECT id, name FROM customers
    WHERE store = ?1 AND id > ?2 AND id < ?2 || char(1114111) LIMIT ?3
"""


def nearest(path: Path, store: str, typed: str) -> dict[str, str]:
    """Return at most MOST customers: their ids, and what each is called.

    They are one slip of the hand away, begin so, or have the words for a name. Each is
    looked up by an index, however many customers there are.
    """
    found: dict[str, str] = {}
    with closing(connections.open_reader(path)) as connection:
        for id_, called in _near(connection, store, typed):
            if not found.get(id_):
                found[id_] = called or ""
            if len(found) == MOST:
                break
    return found


def _near(
    connection: sqlite3.Connection, store: str, typed: str
) -> Iterator[tuple[str, str | None]]:
    slips = sorted(_slips(typed)) if len(typed) <= LONGEST else []
    for query in (_BY_EMAIL,) if "@" in typed else (_BY_ID, _BY_ORDER):
        yield from _those(connection, query, store, slips)
    begun = connection.execute(_BEGINNING, (store, typed, MOST + 1)).fetchall()
    # Where many begin so, none of them is nearer than another.
    yield from (tuple(row) for row in begun if len(begun) <= MOST)
    for row in finding.find(connection, typed, "customer", MOST):
        if row["store"] == store:
            yield row["id"], row["title"]


def _those(
    connection: sqlite3.Connection, query: str, store: str, names: list[str]
) -> Iterator[tuple[str, str | None]]:
    for start in range(0, len(names), AT_ONCE):
        some = names[start : start + AT_ONCE]
        asked = query.format(", ".join("?" * len(some)))
        yield from map(tuple, connection.execute(asked, (store, *some)).fetchall())


def _slips(text: str) -> set[str]:
    """Return what differs by one sign: too many, too few, another, or two swapped."""
    cuts = [(text[:at], text[at:]) for at in range(len(text) + 1)]
    one_less = {head + tail[1:] for head, tail in cuts if tail}
    swapped = {h + t[1] + t[0] + t[2:] for h, t in cuts if len(t) > 1}
    more: Iterable[str] = (
        head + sign + rest
        for head, tail in cuts
        for sign in SIGNS
        for rest in (tail, tail[1:])
    )
    return (one_less | swapped).union(more) - {text}
