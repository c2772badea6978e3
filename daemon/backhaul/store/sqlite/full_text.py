"""Full-text search in SQLite, and erasing the bytes of erased customers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from backhaul.store.customer_erasure import holds, spellings
from backhaul.store.read_records import SearchHit
from backhaul.store.sql.customer_erasure.erase import SqlErasure
from backhaul.store.sql.mirror.search_index import (
    CURSOR,
    Matches,
    SqlSearchIndex,
    matching,
)
from backhaul.store.sql.schema.inbox_and_mirror import SEARCH_DOCUMENTS
from backhaul.store.sqlite import connections

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from backhaul.core.clock import Clock
    from backhaul.store.sql.family import Connection
    from backhaul.store.sqlite.engine import SqliteEngine


_INDEX = (
    """
    CREATE VIRTUAL TABLE search_documents_fts USING fts5(
        title, words, content='search_documents', content_rowid='id',
        tokenize='unicode61 remove_diacritics 2')
    """,
    """
    CREATE TRIGGER search_documents_ai AFTER INSERT ON search_documents BEGIN
        INSERT INTO search_documents_fts (rowid, title, words)
        VALUES (new.id, new.title, new.words);
    END
    """,
    """
    CREATE TRIGGER search_documents_ad AFTER DELETE ON search_documents BEGIN
        INSERT INTO search_documents_fts (search_documents_fts, rowid, title, words)
        VALUES ('delete', old.id, old.title, old.words);
    END
    """,
    """
    CREATE TRIGGER search_documents_au AFTER UPDATE ON search_documents BEGIN
        INSERT INTO search_documents_fts (search_documents_fts, rowid, title, words)
        VALUES ('delete', old.id, old.title, old.words);
        INSERT INTO search_documents_fts (rowid, title, words)
        VALUES (new.id, new.title, new.words);
    END
    """,
)


def create_index(connection: Connection) -> None:
    """Create the index of the search; triggers keep it equal to its table.

    sqlite-utils could create it, but it would commit the running transaction.
    """
    for statement in _INDEX:
        connection.execute(statement)


class SqliteSearchIndex(SqlSearchIndex):
    """The search index with FTS5 tables."""

    def __init__(self, engine: SqliteEngine, clock: Clock) -> None:
        super().__init__(engine, clock)
        self._writer = engine.writer

    async def rebuild(self) -> None:
        await self._writer.alone(_clear)


def _clear(connection: sqlite3.Connection) -> None:
    """Remove all documents and their index in one transaction."""
    with connections.large_work(connection):
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute("DROP TABLE search_documents_fts")
            connection.execute("DROP TABLE search_documents")
            connection.execute(SEARCH_DOCUMENTS)
            create_index(connection)
            connection.execute("DELETE FROM kv WHERE name = :name", {"name": CURSOR})
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # a full disk may have ended it
                connection.execute("ROLLBACK")
            raise


_HIT = """
    SELECT s.kind, s.store, s.object_id AS id, s.title,
           snippet(search_documents_fts, 1, '', '', '…', 12) AS found
    FROM search_documents_fts
    JOIN search_documents s ON s.id = search_documents_fts.rowid
"""
_IS_KIND = "(:kind IS NULL OR s.kind = :kind)"


def _newest(words: str) -> str:
    return f"""
        {_HIT} WHERE search_documents_fts MATCH {words} AND {_IS_KIND}
        ORDER BY search_documents_fts.rowid DESC LIMIT :limit OFFSET :skip
    """


_MATCHES = Matches(
    count="""
        SELECT count(*) FROM (SELECT 1 FROM search_documents_fts
            WHERE search_documents_fts MATCH :words LIMIT :most)
    """,
    ranked=f"""
        {_HIT} WHERE search_documents_fts MATCH :words AND {_IS_KIND}
        ORDER BY bm25(search_documents_fts, 10.0, 1.0), s.id DESC
        LIMIT :limit OFFSET :skip
    """,
    titled=_newest(":titled"),
    count_titled=f"""
        SELECT count(*) FROM ({_HIT} WHERE search_documents_fts MATCH :titled
            AND {_IS_KIND} LIMIT :most)
    """,  # noqa: S608 - constants
    others=_newest(":others"),
)


def find(
    connection: Connection, text: str, kind: str | None, limit: int, skip: int = 0
) -> list[SearchHit]:
    """Return objects with all words, best first; if none has, match their beginnings.

    The first `skip` are left out.
    """
    values = {"kind": kind, "limit": limit, "skip": skip}
    for prefix in ("", "*") if text.split() else ():
        words = _expression(text, prefix)
        titled = f"title : ({words})"
        texts = {"words": words, "titled": titled, "others": f"({words}) NOT {titled}"}
        if rows := matching(connection, _MATCHES, {**values, **texts}):
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


MERGE_PAGES = 64
NEAREST = 5


class SqliteErasure(SqlErasure):
    """Erases rows, and their bytes in the database file and its log."""

    def __init__(self, engine: SqliteEngine, clock: Clock) -> None:
        super().__init__(engine, clock)
        self._path = engine.path
        self._writer = engine.writer

    def _search(
        self, connection: Connection, text: str
    ) -> Iterable[tuple[str, str, str]]:
        for hit in find(connection, text, "customer", NEAREST):
            yield hit.store, hit.id, hit.title

    async def compact_search(self, *, begin: bool) -> bool:
        def unit(connection: sqlite3.Connection) -> bool:
            # A negative number first puts all segments on one level, to be merged.
            before = connection.total_changes
            connection.execute(
                "INSERT INTO search_documents_fts(search_documents_fts, rank)"
                " VALUES ('merge', ?)",
                (-MERGE_PAGES if begin else MERGE_PAGES,),
            )
            return connection.total_changes - before >= 2

        return await self._writer.background(unit)

    async def empty_log(self) -> bool:
        return await self._writer.checkpoint()

    async def holds(self, texts: Sequence[str]) -> bool:
        return await asyncio.to_thread(holds, self._path, spellings(texts))

    async def file_bytes(self) -> int:
        return self._path.stat().st_size

    async def rewrite(self) -> None:
        await self._writer.vacuum()
