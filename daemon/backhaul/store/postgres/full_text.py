"""Full-text search in PostgreSQL, and what is left of an erased customer."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from backhaul.store.customer_erasure import spellings
from backhaul.store.postgres import dialect
from backhaul.store.read_records import SearchHit
from backhaul.store.sql.customer_erasure.erase import SqlErasure
from backhaul.store.sql.family import write
from backhaul.store.sql.mirror.search_index import CURSOR, SqlSearchIndex
from backhaul.store.sql.schema.inbox_and_mirror import SEARCH_DOCUMENTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from backhaul.core.clock import Clock
    from backhaul.store.postgres.engine import PostgresEngine
    from backhaul.store.sql.family import Connection

# What separates words, and the marks of accents. PostgreSQL's own parser would take
# the end of `SKU-12` for a negative number, and an address for one word.
_MARKS = r"\u0300-\u036f"
_SEPARATORS = (
    r"\u0001-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u00a9\u00ab-\u00b4\u00b6-\u00b9"
    r"\u00bb-\u00bf\u2000-\u206f\u20a0-\u20cf\u3000-\u303f"
)
_ACCENT = re.compile(f"[{_MARKS}]")
_WORD = re.compile(f"[^{_SEPARATORS}]+")
_PLAIN = (
    f"lower(regexp_replace(regexp_replace(normalize({{0}}, NFKD), '[{_MARKS}]', '',"
    f" 'g'), '[{_SEPARATORS}]+', ' ', 'g'))"
)
_VECTOR = f"""
    ALTER TABLE search_documents ADD COLUMN vector tsvector GENERATED ALWAYS AS (
        setweight(to_tsvector('simple', {_PLAIN.format("title")}), 'A')
        || to_tsvector('simple', {_PLAIN.format("words")})) STORED
"""
_INDEX = "CREATE INDEX search_documents_vector ON search_documents USING gin (vector)"
_FIND = """
    SELECT kind, store, object_id, title, words
    FROM search_documents, CAST(:words AS tsquery) query
    WHERE vector @@ query AND (:kind IS NULL OR kind = :kind)
    ORDER BY ts_rank('{0.1, 0.1, 0.1, 1.0}', vector, query, 1) DESC, id DESC
    LIMIT :limit OFFSET :skip
"""
NEAREST = 5
SNIPPET_WORDS = 12


def create_index(connection: Connection) -> None:
    """Create the index of the search; PostgreSQL keeps it equal to its table."""
    connection.execute(_VECTOR)
    connection.execute(_INDEX)


def find(
    connection: Connection, text: str, kind: str | None, limit: int, skip: int = 0
) -> list[SearchHit]:
    """Return objects with all words, best first; if none has, match their beginnings.

    The first `skip` are left out.
    """
    text = text.replace("\0", "")
    words = [found for word in text.split() if (found := _WORD.findall(_plain(word)))]
    values = {"kind": kind, "limit": limit, "skip": skip}
    for prefix in ("", ":*") if words else ():
        query = {"words": " & ".join(_phrase(word, prefix) for word in words)}
        rows = connection.execute(_FIND, {**values, **query}).fetchall()
        if rows:
            return [
                SearchHit(kind_, store, id_, title, _snippet(body, words))
                for kind_, store, id_, title, body in rows
            ]
    return []


def _plain(text: str) -> str:
    """Return a text in small letters and without accents, as the index has it."""
    return _ACCENT.sub("", unicodedata.normalize("NFKD", text)).lower()


def _phrase(tokens: Sequence[str], prefix: str) -> str:
    """Return a query for tokens that follow each other; the last may be a beginning."""
    quoted = ["'" + token.replace("'", "''") + "'" for token in tokens]
    return "(" + " <-> ".join(quoted) + prefix + ")"


def _snippet(body: str, words: Sequence[Sequence[str]]) -> str:
    """Return a part of a text, from a little before the first word that was found."""
    parts = body.split()
    wanted = tuple(word[0] for word in words)
    first = next(
        (n for n, part in enumerate(parts) if _plain(part).startswith(wanted)), 0
    )
    begin = max(0, min(first - 1, len(parts) - SNIPPET_WORDS))
    end = begin + SNIPPET_WORDS
    shown = " ".join(parts[begin:end])
    return ("…" if begin else "") + shown + ("…" if end < len(parts) else "")


class PostgresSearchIndex(SqlSearchIndex):
    """The search index with a column of type `tsvector`."""

    @write
    def rebuild(self, connection: Connection) -> None:
        connection.execute("DROP TABLE search_documents")
        for statement in dialect.schema((SEARCH_DOCUMENTS,)):
            connection.execute(statement)
        create_index(connection)
        connection.execute("DELETE FROM kv WHERE name = :name", {"name": CURSOR})


_COLUMNS = """
    SELECT c.table_name, c.column_name, c.data_type
    FROM information_schema.columns c JOIN information_schema.tables t
      ON t.table_name = c.table_name AND t.table_schema = c.table_schema
    WHERE c.table_schema = current_schema() AND t.table_type = 'BASE TABLE'
      AND c.data_type IN ('text', 'bytea') ORDER BY c.table_name, c.column_name
"""


class PostgresErasure(SqlErasure):
    """Erases rows. Their bytes leave the files by vacuum, as the server is set up."""

    def __init__(self, engine: PostgresEngine, clock: Clock) -> None:
        super().__init__(engine, clock)
        self._postgres = engine

    def _search(
        self, connection: Connection, text: str
    ) -> Iterable[tuple[str, str, str]]:
        for hit in find(connection, text, "customer", NEAREST):
            yield hit.store, hit.id, hit.title

    async def compact_search(self, *, begin: bool) -> bool:
        return False  # a vacuum of the server does it

    async def empty_log(self) -> bool:
        return True  # its log is the server's, and has an end of its own

    async def holds(self, texts: Sequence[str]) -> bool:
        wanted = spellings(texts)

        def unit(connection: Connection) -> bool:
            return any(
                _has(connection, table, column, kind, each)
                for table, column, kind in connection.execute(_COLUMNS).fetchall()
                for each in wanted
            )

        return await self._postgres.read(unit)

    async def file_bytes(self) -> int:
        def unit(connection: Connection) -> int:
            size = "SELECT pg_database_size(current_database())"
            return int(connection.execute(size).fetchone()[0])

        return await self._postgres.read(unit)

    async def rewrite(self) -> None:
        await self._postgres.writer.alone(lambda c: c.execute("VACUUM FULL"))


def _has(
    connection: Connection, table: str, column: str, kind: str, part: bytes
) -> bool:
    """Return True if any value of a column contains bytes; they are in lower case."""
    value = f'"{column}"' if kind == "bytea" else f"convert_to(\"{column}\", 'UTF8')"
    query = f"""
        SELECT EXISTS (SELECT 1 FROM "{table}"
            WHERE strpos(lower(encode({value}, 'escape')), encode(:part, 'escape')) > 0)
    """  # noqa: S608 - names from the catalog
    return bool(connection.execute(query, {"part": part}).fetchone()[0])
