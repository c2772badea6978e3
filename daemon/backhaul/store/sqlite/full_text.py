"""Full-text search with SQLite's FTS5; triggers keep it equal to its table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.store.read_records import SearchHit
from backhaul.store.sql.family import write
from backhaul.store.sql.mirror.search_index import CURSOR, SqlSearchIndex
from backhaul.store.sqlite.migrations import mirror

if TYPE_CHECKING:
    from backhaul.store.sql.family import Connection


class SqliteSearchIndex(SqlSearchIndex):
    """The search index with FTS5 tables."""

    @write
    def rebuild(self, connection: Connection) -> None:
        connection.execute("DROP TABLE searchable_fts")
        connection.execute("DROP TABLE searchable")
        mirror.create_search(connection)
        connection.execute("DELETE FROM marks WHERE name = :name", {"name": CURSOR})


_FIND = """
    SELECT s.kind, s.store, s.object_id AS id, s.title,
           snippet(searchable_fts, 1, '', '', '…', 12) AS found
    FROM searchable_fts JOIN searchable s ON s.id = searchable_fts.rowid
    WHERE searchable_fts MATCH :words AND (:kind IS NULL OR s.kind = :kind)
    ORDER BY bm25(searchable_fts, 10.0, 1.0), s.id DESC LIMIT :limit OFFSET :skip
"""


def find(
    connection: Connection, text: str, kind: str | None, limit: int, skip: int = 0
) -> list[SearchHit]:
    """Return objects with all words, best first; if none has, match their beginnings.

    The first `skip` are left out.
    """
    values = {"kind": kind, "limit": limit, "skip": skip}
    for prefix in ("", "*") if text.split() else ():
        words = {"words": _expression(text, prefix)}
        rows = connection.execute(_FIND, {**values, **words}).fetchall()
        if rows:
            return [
                SearchHit(kind_, store, id_, title, _line(found))
                for kind_, store, id_, title, found in rows
            ]
    return []


def _line(snippet: str) -> str:
    return " · ".join(snippet.splitlines())


def _expression(text: str, prefix: str) -> str:
    """Quote each word, so that none of its signs means anything to FTS5."""
    words = (word.replace('"', '""').replace("\0", "") for word in text.split())
    return " ".join(f'"{word}"{prefix}' for word in words)
