"""The search index: follows the change feed, one row for each object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backhaul.store.read_models import IndexProgress
from backhaul.store.read_records import RANKED
from backhaul.store.sql.dialect import is_document
from backhaul.store.sql.family import Family, background
from backhaul.store.sql.inbox.fold import CURSOR as FOLD_CURSOR
from backhaul.store.sql.mirror.rows import DOCUMENTS, document_text
from backhaul.store.sql.operations import kv

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from backhaul.core.clock import Clock
    from backhaul.store.read_models import Describe
    from backhaul.store.sql.family import Connection, Engine

CURSOR = "search_cursor"
FEWEST_CHANGES = 64
CHANGES_A_SECOND = 12_800
"""More than can be indexed in that time."""
_PUT = """
    INSERT INTO search_documents (kind, store, object_id, title, words)
    VALUES (:kind, :store, :id, :title, :words)
    ON CONFLICT (object_id, kind, store)
    DO UPDATE SET title = excluded.title, words = excluded.words
    WHERE search_documents.title != excluded.title
       OR search_documents.words != excluded.words
"""
_DELETE = """
    DELETE FROM search_documents
    WHERE kind = :kind AND store = :store AND object_id = :id
"""
_FOLDING = f"""
    SELECT (SELECT coalesce(max(id), 0) FROM inbox) > {kv.number(":cursor")}
"""  # noqa: S608 - constants
_CHANGES = f"""
    SELECT id, kind, store, object_id FROM changes
    WHERE id > {kv.number(":cursor")} ORDER BY id LIMIT :most
"""  # noqa: S608 - constants


def changes_ahead(slice_seconds: float) -> int:
    """Return how many changes a slice reads before it indexes them."""
    return max(FEWEST_CHANGES, round(CHANGES_A_SECOND * slice_seconds))


class Matches(Struct, frozen=True):
    """An engine's queries for the objects of a kind with all words.

    `count` counts those of all kinds. `ranked` puts the best first. `titled` finds
    those with all words in the title and `others` the rest, both the newest first.
    """

    count: str
    ranked: str
    titled: str
    count_titled: str
    others: str


def matching(
    connection: Connection, queries: Matches, values: Mapping[str, Any]
) -> list[Any]:
    """Return the rows of a page: the best first, or of many matches the newest."""
    counted = {**values, "most": RANKED + 1}
    (number,) = connection.execute(queries.count, counted).fetchone()
    if number <= RANKED:
        return connection.execute(queries.ranked, values).fetchall()
    limit, skip = values["limit"], values["skip"]
    rows = connection.execute(queries.titled, values).fetchall()
    if len(rows) < limit:
        counted = {**values, "most": skip}
        (before,) = connection.execute(queries.count_titled, counted).fetchone()
        rest = {"limit": limit - len(rows), "skip": skip - before}
        rows += connection.execute(queries.others, {**values, **rest}).fetchall()
    return rows


class SqlSearchIndex(Family):
    """Follows the change feed in background slices; an engine adds `rebuild`."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        super().__init__(engine)
        self._clock = clock

    @background
    def follow(
        self, connection: Connection, describe: Describe, slice_seconds: float
    ) -> IndexProgress:
        until = self._clock.monotonic() + slice_seconds
        most = changes_ahead(slice_seconds)
        values = {"cursor": CURSOR, "most": most}
        changes = connection.execute(_CHANGES, values).fetchall()
        done = 0
        for _, kind, store, id_ in changes:
            if kind in DOCUMENTS:
                index_objects(connection, [(kind, store, id_)], describe)
            done += 1
            if self._clock.monotonic() >= until:
                break
        if done:
            kv.put(connection, CURSOR, str(changes[done - 1][0]))
        (folding,) = connection.execute(_FOLDING, {"cursor": FOLD_CURSOR}).fetchone()
        more = done < len(changes) or len(changes) == most
        return IndexProgress(done, more, bool(folding))


def index_objects(
    connection: Connection,
    objects: Iterable[tuple[str, str, str]],
    describe: Describe,
) -> None:
    """Index objects (kind, store, id) as they are in the mirror.

    An object with a damaged document keeps its old entry.
    """
    for kind, store, id_ in objects:
        place = {"kind": kind, "store": store, "id": id_}
        text = document_text(connection, kind, store, id_)
        if text is None:
            connection.execute(_DELETE, place)
        elif is_document(text):
            found = describe(kind, text)
            words = {"title": found.title, "words": found.words}
            connection.execute(_PUT, {**place, **words})
