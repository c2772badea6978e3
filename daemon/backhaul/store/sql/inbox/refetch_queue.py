"""The queue of objects to refetch; each object is in it once."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict

from backhaul.core.clock import from_text, to_text
from backhaul.store.inbox import LONGEST_REST_SECONDS, Refetch
from backhaul.store.sql.dialect import greatest, hint, is_damaged
from backhaul.store.sql.family import Family, write
from backhaul.store.sql.operations import kv

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.store.sql.family import Connection

_ENQUEUE = f"""
    INSERT INTO refetch_queue (store, kind, object_id, reason, event, asked_at, due_at)
    VALUES (:store, :kind, :object_id, :reason, :event, :now, :due_at)
    ON CONFLICT (store, kind, object_id) DO UPDATE SET asks = refetch_queue.asks + 1,
        reason = excluded.reason, event = excluded.event,
        due_at = CASE WHEN excluded.due_at > excluded.asked_at
                      THEN {greatest("refetch_queue.due_at", "excluded.due_at")}
                      ELSE refetch_queue.due_at END
"""  # noqa: S608 - constants
# A row due later than any postponement allows was postponed before the clock went back.
_DUE = """
    SELECT store, kind, object_id, reason, asked_at, asks, failures
    FROM refetch_queue
    WHERE store = :store AND (due_at <= :now OR due_at > :never)
    ORDER BY due_at LIMIT :most
"""
MOST_DAMAGED = 50
"""The damaged rows behind which the next intact row is found."""
_NEXT_DUE = """
    SELECT kind, object_id, due_at FROM refetch_queue
    WHERE store = :store ORDER BY due_at LIMIT :most
"""
_ENQUEUE_PARENTS = """
    INSERT INTO refetch_queue (store, kind, object_id, reason, asked_at, due_at)
    SELECT DISTINCT :store, '{parent}', n.{named}, 'named by what is mirrored', :now,
           :now
    FROM changes c {cross} JOIN {children} n
      ON n.store = :store AND n.{key} = c.object_id
    WHERE c.id > :after AND c.id <= :end AND c.store = :store AND c.kind = '{child}'
      AND n.{named} IS NOT NULL
      AND NOT EXISTS (
        SELECT 1 FROM {parents} WHERE store = :store AND id = n.{named})
      AND NOT EXISTS (
        SELECT 1 FROM tombstones
        WHERE kind = '{parent}' AND store = :store AND id = n.{named})
    ON CONFLICT (store, kind, object_id) DO NOTHING
"""
_PARENTS = tuple(
    _ENQUEUE_PARENTS.format(**names, cross=hint("CROSS"))
    for names in (
        {
            "child": "order",
            "children": "orders",
            "key": "id",
            "parent": "customer",
            "parents": "customers",
            "named": "customer_id",
        },
        # A change of levels has the id of their product.
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
"""One statement for each kind of object that refers to a parent."""
PARENTS_BATCH = 500
"""The changes that one slice scans."""
_PROGRESS = f"""
    SELECT {kv.number(":cursor")} AS after,
           (SELECT coalesce(max(id), 0) FROM changes) AS newest
"""  # noqa: S608 - constants
_OBJECT = "store = :store AND kind = :kind AND object_id = :object_id"
_REMOVE = f"DELETE FROM refetch_queue WHERE {_OBJECT} AND asks = :asks"  # noqa: S608 - constants
_RESET_FAILURES = f"UPDATE refetch_queue SET failures = 0 WHERE {_OBJECT}"  # noqa: S608 - constants
_POSTPONE = f"""
    UPDATE refetch_queue SET failures = failures + 1, due_at = :due_at WHERE {_OBJECT}
"""  # noqa: S608 - constants


class Conflict(Struct, frozen=True):
    """Why an object is to be refetched; `event` is the event that conflicts, if any."""

    store: str
    kind: str
    object_id: str
    reason: str
    event: int | None = None


def enqueue_refetch(
    connection: Connection, conflict: Conflict, now: str, due_at: str
) -> None:
    """Put an object into the queue, or count one more request for it."""
    enqueue_refetches(connection, [(conflict, due_at)], now)


def enqueue_refetches(
    connection: Connection, conflicts: Sequence[tuple[Conflict, str]], now: str
) -> None:
    """Put objects into the queue, each with the time when its refetch is due."""
    if conflicts:
        values = [asdict(one) | {"now": now, "due_at": due} for one, due in conflicts]
        connection.executemany(_ENQUEUE, values)


class SqlRefetchQueue(Family):
    """Every method is one transaction, but `enqueue_parents` is several."""

    @write
    def enqueue(
        self, connection: Connection, store: str, kind: str, object_id: str, reason: str
    ) -> None:
        now = self._now()
        conflict = Conflict(store, kind, object_id, reason)
        enqueue_refetch(connection, conflict, now, now)

    async def enqueue_parents(self, store: str) -> bool:
        enqueued, more = 0, True
        while more:
            found, more = await self._engine.background(
                lambda connection: self._enqueue_parents(connection, store)
            )
            enqueued += found
        return enqueued > 0

    def _enqueue_parents(self, connection: Connection, store: str) -> tuple[int, bool]:
        """Scan the next changes; return the number queued, True if there is more."""
        cursor = f"parents:{store}"
        progress = connection.execute(_PROGRESS, {"cursor": cursor})
        after, newest = progress.fetchone()
        end = min(after + PARENTS_BATCH, newest)
        if end == after:
            return 0, False
        values = {"store": store, "now": self._now(), "after": after, "end": end}
        queued = sum(connection.execute(query, values).rowcount for query in _PARENTS)
        kv.put(connection, cursor, str(end))
        return queued, end < newest

    @write
    def next(self, connection: Connection, store: str, limit: int) -> list[Refetch]:
        now = self._now()
        never = from_text(now) + timedelta(seconds=LONGEST_REST_SECONDS)
        values = {
            "store": store,
            "now": now,
            "never": to_text(never),
            "most": limit + MOST_DAMAGED,
        }
        # No statement can address a damaged row: its object waits for a full sync.
        rows = connection.execute(_DUE, values).fetchall()
        intact = [Refetch(*row) for row in rows if not any(map(is_damaged, row))]
        return intact[:limit]

    @write
    def next_due(self, connection: Connection, store: str) -> str | None:
        values = {"store": store, "most": MOST_DAMAGED}
        for row in connection.execute(_NEXT_DUE, values).fetchall():
            if not any(map(is_damaged, row)):
                return str(row[-1])
        return None

    @write
    def done(self, connection: Connection, refetch: Refetch) -> None:
        values = _key(refetch)
        connection.execute(_REMOVE, values | {"asks": refetch.asks})
        connection.execute(_RESET_FAILURES, values)

    @write
    def postpone(self, connection: Connection, refetch: Refetch, due_at: str) -> None:
        connection.execute(_POSTPONE, _key(refetch) | {"due_at": due_at})


def _key(refetch: Refetch) -> dict[str, object]:
    return {
        "store": refetch.store,
        "kind": refetch.kind,
        "object_id": refetch.object_id,
    }
