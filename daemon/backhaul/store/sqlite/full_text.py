"""The search index, behind the change feed, and the full-text search in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul.store.read_models import Followed
from backhaul.store.sql.documents import is_document
from backhaul.store.sql.inbox.fold import CURSOR as FOLD_CURSOR
from backhaul.store.sql.mirror.rows import DOCUMENTS, document_text
from backhaul.store.sqlite.migrations import mirror

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from backhaul.core.clock import Clock
    from backhaul.store.read_models import Describe
    from backhaul.store.sqlite.writer import Writer


CURSOR = "search_cursor"
BATCH = 64
"""Changes read ahead by one slice."""
_PUT = """
    INSERT INTO searchable (kind, store, object_id, title, words)
    VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (object_id, kind, store)
    DO UPDATE SET title = excluded.title, words = excluded.words
    WHERE title != excluded.title OR words != excluded.words
"""
_DROP = "DELETE FROM searchable WHERE kind = ? AND store = ? AND object_id = ?"
_BEHIND = """
    SELECT (SELECT coalesce(max(id), 0) FROM inbox)
           > coalesce((SELECT value FROM marks WHERE name = ?), 0) + 0
"""
_CHANGES = """
    SELECT id, kind, store, object_id FROM changes
    WHERE id > coalesce((SELECT value FROM marks WHERE name = ?), 0) + 0
    ORDER BY id LIMIT ?
"""

Object = tuple[str, str, str]
"""Kind, store and id."""


class SqliteSearch:
    """Follows the change feed in the writer's background slices."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock

    async def follow(self, describe: Describe, slice_seconds: float) -> Followed:
        """Index what changed, for about `slice_seconds`. May raise Busy."""

        def unit(connection: sqlite3.Connection) -> Followed:
            return _follow(connection, self._clock, describe, slice_seconds)

        return await self._writer.background(unit)

    async def rebuild(self) -> None:
        """Empty the index and begin at the first change again. May raise Busy."""
        await self._writer.urgent(_empty)


def index(
    connection: sqlite3.Connection, objects: Iterable[Object], describe: Describe
) -> None:
    """Bring these objects into the index as the mirror has them now.

    What is damaged stays there as it was.
    """
    for kind, store, id_ in objects:
        text = document_text(connection, kind, store, id_)
        if text is None:
            connection.execute(_DROP, (kind, store, id_))
        elif is_document(text):
            found = describe(kind, text)
            connection.execute(_PUT, (kind, store, id_, found.title, found.words))


def _follow(
    connection: sqlite3.Connection,
    clock: Clock,
    describe: Describe,
    slice_seconds: float,
) -> Followed:
    changes = connection.execute(_CHANGES, (CURSOR, BATCH)).fetchall()
    until = clock.monotonic() + slice_seconds
    done = 0
    for _, kind, *place in changes:
        if kind in DOCUMENTS:
            index(connection, [(kind, place[0], place[1])], describe)
        done += 1
        if clock.monotonic() >= until:
            break
    if done:
        connection.execute(
            "INSERT OR REPLACE INTO marks (name, value) VALUES (?, ?)",
            (CURSOR, str(changes[done - 1][0])),
        )
    (behind,) = connection.execute(_BEHIND, (FOLD_CURSOR,)).fetchone()
    more = done < len(changes) or len(changes) == BATCH
    return Followed(done, more, bool(behind))


def _empty(connection: sqlite3.Connection) -> None:
    connection.execute("DROP TABLE searchable_fts")
    connection.execute("DROP TABLE searchable")
    mirror.create_search(connection)
    connection.execute("DELETE FROM marks WHERE name = ?", (CURSOR,))


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
