"""The objects in conflict: a queue in which each stands once."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec import Struct

from backhaul.core.clock import to_text
from backhaul.store.inbox import LONGEST_REST_SECONDS, Refetch

if TYPE_CHECKING:
    import sqlite3

    from backhaul.core.clock import Clock
    from backhaul.store.sqlite.writer import Writer

_ASK = """
    INSERT INTO rereads (store, kind, object_id, reason, event, asked_at, due_at)
    VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (store, kind, object_id)
    DO UPDATE SET asks = asks + 1, reason = excluded.reason, event = excluded.event,
        due_at = CASE WHEN excluded.due_at > excluded.asked_at
                      THEN max(due_at, excluded.due_at) ELSE due_at END
"""
# A row that rests longer than any rest was put to rest by a clock that was set back.
_DUE = """
    SELECT store, kind, object_id, reason, asked_at, asks, failures
    FROM rereads
    WHERE store = ?1 AND (due_at <= ?2 OR due_at > ?3) ORDER BY due_at LIMIT ?4
"""
_ASK_FOR_PARENTS = """
    INSERT INTO rereads (store, kind, object_id, reason, asked_at, due_at)
    SELECT DISTINCT ?1, '{parent}', n.{named}, 'named by what is mirrored', ?2, ?2
    FROM changes c CROSS JOIN {children} n ON n.store = ?1 AND n.{key} = c.object_id
    WHERE c.id > ?3 AND c.id <= ?4 AND c.store = ?1 AND c.kind = '{child}'
      AND n.{named} IS NOT NULL
      AND NOT EXISTS (
        SELECT 1 FROM {parents} WHERE store = ?1 AND id = n.{named})
      AND NOT EXISTS (
        SELECT 1 FROM tombstones
        WHERE kind = '{parent}' AND store = ?1 AND id = n.{named})
    ON CONFLICT DO NOTHING
"""
_PARENTS = tuple(
    _ASK_FOR_PARENTS.format(**names)
    for names in (
        {
            "child": "order",
            "children": "orders",
            "key": "id",
            "parent": "customer",
            "parents": "customers",
            "named": "customer_id",
        },
        # A change of levels is told of their product.
        {
            "child": "level",
            "children": "inventory_levels",
            "key": "product_id",
            "parent": "product",
            "parents": "products",
            "named": "product_id",
        },
    )
)
"""Who names whom, as the change feed tells of those that name."""
PARENTS_BATCH = 500
"""Changes that one slice looks through."""
_FEED = """
    SELECT coalesce((SELECT value FROM marks WHERE name = ?), 0) + 0,
           (SELECT coalesce(max(id), 0) FROM changes)
"""
_OBJECT = "store = ? AND kind = ? AND object_id = ?"


class Conflict(Struct, frozen=True):
    """Why an object is to be read again; `event` raised the conflict."""

    store: str
    kind: str
    object_id: str
    reason: str
    event: int | None = None


def enqueue_refetch(
    connection: sqlite3.Connection, conflict: Conflict, now: str, due_at: str
) -> None:
    """Put an object into the queue, or raise the doubt about it anew."""
    connection.execute(
        _ASK,
        (
            conflict.store,
            conflict.kind,
            conflict.object_id,
            conflict.reason,
            conflict.event,
            now,
            due_at,
        ),
    )


def _ask_for_parents(
    connection: sqlite3.Connection, store: str, now: str
) -> tuple[int, bool]:
    """Follow the change feed one slice further; return how many, and if more wait."""
    mark = f"parents:{store}"
    after, newest = connection.execute(_FEED, (mark,)).fetchone()
    end = min(after + PARENTS_BATCH, newest)
    if end == after:
        return 0, False
    slice_ = (store, now, after, end)
    asked = sum(connection.execute(query, slice_).rowcount for query in _PARENTS)
    connection.execute(
        "INSERT OR REPLACE INTO marks (name, value) VALUES (?, ?)", (mark, str(end))
    )
    return asked, end < newest


class SqlRefetchQueue:
    """Every verb is one transaction."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock

    async def enqueue(self, store: str, kind: str, object_id: str, reason: str) -> None:
        """Ask for an object to be read again, durably. May raise Busy."""
        conflict = Conflict(store, kind, object_id, reason)

        def unit(connection: sqlite3.Connection) -> None:
            now = to_text(self._clock.now())
            enqueue_refetch(connection, conflict, now, now)

        await self._writer.urgent(unit)

    async def enqueue_parents(self, store: str) -> bool:
        """Ask for what newly mirrored objects name and nobody has shown yet."""

        def unit(connection: sqlite3.Connection) -> tuple[int, bool]:
            return _ask_for_parents(connection, store, to_text(self._clock.now()))

        asked, more = 0, True
        while more:
            found, more = await self._writer.background(unit)
            asked += found
        return asked > 0

    async def next(self, store: str, limit: int) -> list[Refetch]:
        """Return what is due, in the order of asking."""

        def unit(connection: sqlite3.Connection) -> list[Refetch]:
            moment = self._clock.now()
            never = to_text(moment + timedelta(seconds=LONGEST_REST_SECONDS))
            rows = connection.execute(_DUE, (store, to_text(moment), never, limit))
            return [Refetch(*row) for row in rows]

        return await self._writer.urgent(unit)

    async def next_due(self, store: str) -> str | None:
        """Return when the next row is due (it may be past), None of an empty queue."""

        def unit(connection: sqlite3.Connection) -> str | None:
            (due,) = connection.execute(
                "SELECT min(due_at) FROM rereads WHERE store = ?", (store,)
            ).fetchone()
            return None if due is None else str(due)

        return await self._writer.urgent(unit)

    async def done(self, reread: Refetch) -> None:
        """Remove the row, unless it was asked for again since `next` returned it."""
        key = (reread.store, reread.kind, reread.object_id)

        def unit(connection: sqlite3.Connection) -> None:
            connection.execute(
                f"DELETE FROM rereads WHERE {_OBJECT} AND asks = ?",  # noqa: S608 - constants
                (*key, reread.asks),
            )
            connection.execute(
                f"UPDATE rereads SET failures = 0 WHERE {_OBJECT}",  # noqa: S608 - constants
                key,
            )

        await self._writer.urgent(unit)

    async def postpone(self, reread: Refetch, due_at: str) -> None:
        """Count a failure and let the row rest until then."""

        def unit(connection: sqlite3.Connection) -> None:
            connection.execute(
                f"UPDATE rereads SET failures = failures + 1, due_at = ?"  # noqa: S608 - constants
                f" WHERE {_OBJECT}",
                (due_at, reread.store, reread.kind, reread.object_id),
            )

        await self._writer.urgent(unit)
