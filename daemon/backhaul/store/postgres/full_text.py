"""Full-text search in PostgreSQL, and what is left of an erased customer."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from backhaul.store.customer_erasure import spellings
from backhaul.store.postgres import dialect
from backhaul.store.read_models import IndexProgress
from backhaul.store.read_records import SearchHit
from backhaul.store.sql.customer_erasure.erase import SqlErasure
from backhaul.store.sql.family import background, write
from backhaul.store.sql.mirror.rows import DOCUMENTS
from backhaul.store.sql.mirror.search_index import (
    CURSOR,
    Matches,
    SqlSearchIndex,
    changes_ahead,
    index_objects,
    matching,
)
from backhaul.store.sql.operations import kv
from backhaul.store.sql.schema.inbox_and_mirror import SEARCH_DOCUMENTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from backhaul.core.clock import Clock
    from backhaul.store.postgres.engine import PostgresEngine
    from backhaul.store.postgres.streams import FoldPlaces
    from backhaul.store.read_models import Describe
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
_HIT = "SELECT kind, store, object_id, title, words FROM search_documents"
_IS_KIND = "(:kind IS NULL OR kind = :kind)"
_HAS = "vector @@ CAST(:words AS tsquery)"
_IN_TITLE = "vector @@ CAST(:titled AS tsquery)"
_PAGE = "LIMIT :limit OFFSET :skip"


_MATCHES = Matches(
    count=f"SELECT count(*) FROM ({_HIT} WHERE {_HAS} LIMIT :most) found",  # noqa: S608 - constants
    ranked=f"""
        {_HIT} WHERE {_HAS} AND {_IS_KIND}
        ORDER BY ts_rank('{{0.1, 0.1, 0.1, 1.0}}', vector, CAST(:words AS tsquery), 1)
            DESC, id DESC {_PAGE}
    """,
    titled=f"{_HIT} WHERE {_IN_TITLE} AND {_IS_KIND} ORDER BY id DESC {_PAGE}",
    count_titled=f"""
        SELECT count(*) FROM ({_HIT} WHERE {_IN_TITLE} AND {_IS_KIND} LIMIT :most) found
    """,  # noqa: S608 - constants
    others=f"""
        {_HIT} WHERE {_HAS} AND NOT {_IN_TITLE} AND {_IS_KIND}
        ORDER BY id DESC {_PAGE}
    """,
)
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
    for prefix in ("", "*") if words else ():
        texts = {
            name: " & ".join(_phrase(word, title, prefix) for word in words)
            for name, title in (("words", ""), ("titled", "A"))
        }
        if rows := matching(connection, _MATCHES, {**values, **texts}):
            return [
                SearchHit(kind_, store, id_, title, _snippet(body, words))
                for kind_, store, id_, title, body in rows
            ]
    return []


def _plain(text: str) -> str:
    """Return a text in small letters and without accents, as the index has it."""
    return _ACCENT.sub("", unicodedata.normalize("NFKD", text)).lower()


def _phrase(tokens: Sequence[str], title: str, prefix: str) -> str:
    """Return a query for tokens that follow each other; the last may be a beginning.

    With the weight `title`, it finds them in titles only.
    """
    *first, last = ["'" + token.replace("'", "''") + "'" for token in tokens]
    weight = f":{title}" if title else ""
    end = f":{title}{prefix}" if title or prefix else ""
    return "(" + " <-> ".join([*(each + weight for each in first), last + end]) + ")"


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


_CHANGES = f"""
    SELECT id, kind, object_id FROM changes
    WHERE store = :store AND id > {kv.number(":cursor")} ORDER BY id LIMIT :most
"""  # noqa: S608 - a fragment
_CHANGED = "SELECT DISTINCT store FROM changes WHERE id > :seen"
_NEWEST = "SELECT coalesce(max(id), 0) AS newest FROM changes"
_FORGET_CURSORS = "DELETE FROM kv WHERE name LIKE :prefix"
STORE_CURSOR = f"{CURSOR}:"
"""Before a store's name: the last change of the store that is indexed."""
REBUILT = "search_rebuilt"
"""Counts how often the index was emptied, so that every member begins again."""


class PostgresSearchIndex(SqlSearchIndex):
    """The search index with a column of type `tsvector`.

    Each member indexes the stores that it owns. Only then the ids of a store's changes
    become visible in their order, as one connection at a time adds them.
    """

    def __init__(
        self, engine: PostgresEngine, clock: Clock, places: FoldPlaces
    ) -> None:
        super().__init__(engine, clock)
        self._places = places
        self._seen: int | None = None
        self._stores: frozenset[str] = frozenset()
        self._behind: dict[str, None] = {}
        self._rebuilt: str | None = ""

    async def follow(self, describe: Describe, slice_seconds: float) -> IndexProgress:
        try:
            return await self._follow(describe, slice_seconds)
        except BaseException:
            self._rebuilt = ""  # the slice was not committed: read the cursors again
            raise

    @background
    def _follow(
        self, connection: Connection, describe: Describe, slice_seconds: float
    ) -> IndexProgress:
        until = self._clock.monotonic() + slice_seconds
        self._find(connection)
        done, most = 0, changes_ahead(slice_seconds)
        while self._behind and done < most:
            store = next(iter(self._behind))
            done += self._index(connection, describe, store, most - done, until)
            if self._clock.monotonic() >= until:
                break
        waits = self._places.waits() or self._places.has_news(connection)
        return IndexProgress(done, bool(self._behind), waits)

    def _find(self, connection: Connection) -> None:
        """Note which stores have changed since the last look."""
        rebuilt = kv.get(connection, REBUILT)
        if rebuilt != self._rebuilt:
            self._rebuilt, self._seen, self._stores = rebuilt, None, frozenset()
        owned = self._engine.owned()
        changed: set[str] = set()
        (newest,) = connection.execute(_NEWEST).fetchone()
        if self._seen is None:  # then the stores are read from their cursors
            self._seen = 0 if owned is None else newest
        if newest > self._seen:
            found = connection.execute(_CHANGED, {"seen": self._seen})
            changed = {row[0] for row in found.fetchall()}
        self._seen = newest
        # Without owners all stores are indexed here.
        stores = self._stores | changed if owned is None else owned
        self._behind |= dict.fromkeys(sorted(stores & changed | stores - self._stores))
        self._behind = {name: None for name in self._behind if name in stores}
        self._stores = stores

    def _index(
        self,
        connection: Connection,
        describe: Describe,
        store: str,
        most: int,
        until: float,
    ) -> int:
        """Index the next changes of a store, at most so many; return how many."""
        values = {"store": store, "cursor": f"{STORE_CURSOR}{store}", "most": most}
        changes = connection.execute(_CHANGES, values).fetchall()
        done = 0
        for _, kind, id_ in changes:
            if kind in DOCUMENTS:
                index_objects(connection, [(kind, store, id_)], describe)
            done += 1
            if self._clock.monotonic() >= until:
                break
        if done:
            kv.put(connection, f"{STORE_CURSOR}{store}", str(changes[done - 1][0]))
        if done == len(changes) < most:
            del self._behind[store]
        return done

    @write
    def rebuild(self, connection: Connection) -> None:
        connection.execute("DROP TABLE search_documents")
        for statement in dialect.schema((SEARCH_DOCUMENTS,)):
            connection.execute(statement)
        create_index(connection)
        connection.execute(_FORGET_CURSORS, {"prefix": f"{STORE_CURSOR}%"})
        kv.put(connection, REBUILT, self._now())


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
