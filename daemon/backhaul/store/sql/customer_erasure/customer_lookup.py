"""Finds customers without an id by their e-mail, and near matches of a mistyped one."""

from __future__ import annotations

import json
import re
import string
from contextlib import closing
from typing import TYPE_CHECKING, Any

from backhaul.store.sql.dialect import member
from backhaul.store.sqlite import connections, full_text

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator
    from pathlib import Path


WINDOW = 2_000
"""Rows that one statement looks through."""
_ORDERS = """
    SELECT id, document FROM orders
    WHERE rowid > ?1 AND rowid <= ?2 AND store = ?3
      AND instr(lower(document), ?4) AND json_valid(document)
"""
_BODIES = """
    SELECT id, body FROM inbox
    WHERE id > ?1 AND id <= ?2 AND store = ?3
      AND (instr(lower(CAST(body AS TEXT)), ?4) OR instr(CAST(body AS TEXT), '\\u'))
"""
"""Any letter of an e-mail may stand in a body as \\uXXXX."""


def orders_of(path: Path, store: str, email: str) -> dict[str, str]:
    """Return the documents of the orders placed with this e-mail, by their id."""
    found = _matching(path, "orders", _ORDERS, store, email)
    return {id_: text for id_, text in found if _is_of(json.loads(text), email)}


def told_of(path: Path, store: str, email: str) -> list[str]:
    """Return the objects of kept events that are about somebody with this e-mail."""
    return [
        json.dumps(told)
        for _, body in _matching(path, "inbox", _BODIES, store, email)
        if _is_of(told := _object(body), email)
    ]


def _matching(
    path: Path, table: str, query: str, store: str, email: str
) -> Iterator[tuple[Any, Any]]:
    with closing(connections.open_reader(path)) as connection:
        end = _last(connection, table)
        for first in range(0, end, WINDOW):
            window = (first, first + WINDOW, store, _plain_part(email))
            yield from map(tuple, connection.execute(query, window).fetchall())


def _plain_part(email: str) -> str:
    """Return the longest part that SQLite, which folds ASCII only, can look for."""
    parts: list[str] = re.findall(r"[\x00-\x7f]*", email.lower())
    return max(parts, key=len)


def _last(connection: sqlite3.Connection, table: str) -> int:
    query = f"SELECT coalesce(max(rowid), 0) FROM {table}"  # noqa: S608 - constants
    (last,) = connection.execute(query).fetchone()
    return int(last)


def _object(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    told = document.get("data", document) if isinstance(document, dict) else {}
    return told if isinstance(told, dict) else {}


def _is_of(told: dict[str, Any], email: str) -> bool:
    """Tell whether it is about them: the customer's own e-mail goes before any other.

    What the fold and the eraser take for another's is not found here either.
    """
    customer = told.get("customer")
    theirs = customer.get("email") if isinstance(customer, dict) else None
    return str(theirs or told.get("email")).casefold() == email.casefold()


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
    for row in full_text.find(connection, typed, "customer", MOST):
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
