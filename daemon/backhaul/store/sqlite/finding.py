"""Full-text search: what a person types, and what is found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3

_FIND = """
    SELECT s.kind, s.store, s.object_id AS id, s.title,
           snippet(searchable_fts, 1, '', '', '…', 12) AS found
    FROM searchable_fts JOIN searchable s ON s.id = searchable_fts.rowid
    WHERE searchable_fts MATCH ? AND (? IS NULL OR s.kind = ?)
    ORDER BY bm25(searchable_fts, 10.0, 1.0), s.id DESC LIMIT ? OFFSET ?
"""


def find(
    connection: sqlite3.Connection,
    text: str,
    kind: str | None,
    limit: int,
    skip: int = 0,
) -> list[dict[str, Any]]:
    """Return objects with all the words, best first; if none, with words so begun.

    The first `skip` are left out.
    """
    for prefix in ("", "*") if text.split() else ():
        values = (_expression(text, prefix), kind, kind, limit, skip)
        rows = connection.execute(_FIND, values).fetchall()
        if rows:
            return [{**dict(row), "found": _line(row["found"])} for row in rows]
    return []


def _line(snippet: str) -> str:
    return " · ".join(snippet.splitlines())


def _expression(text: str, prefix: str) -> str:
    """Take each word literally: no sign of it means anything to FTS5."""
    words = (word.replace('"', '""').replace("\0", "") for word in text.split())
    return " ".join(f'"{word}"{prefix}' for word in words)
