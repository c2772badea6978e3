"""Who is known by an e-mail only: found in orders and kept bodies, beside the writer.

A guest has no id to go by, and the search index may be behind. Everything is read in
short statements, so that no long one keeps the log from being emptied.
"""

from __future__ import annotations

import json
import re
from contextlib import closing
from typing import TYPE_CHECKING, Any

from backhaul.store.sqlite import connections

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
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
