"""Progress of full syncs, what each pass read, and since when the mirror is in sync."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec

from backhaul.core.fold import Drift, Version
from backhaul.store.mirror import Pass, Progress, SyncState
from backhaul.store.sql.dialect import elements
from backhaul.store.sql.family import Family, read, write
from backhaul.store.sql.mirror.rows import TABLES, VERSION
from backhaul.store.sql.mirror.write import is_erased
from backhaul.store.sql.operations import kv

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backhaul.store.sql.family import Connection

COLUMNS = (
    "id, store, job, kind, began_at, ended_at, read, missed, stale, deleted,"
    ' "foreign", unrepaired, note'
)
_BEGIN = """
    INSERT INTO passes (store, job, kind, began_at)
    VALUES (:store, :job, :kind, :now)
    ON CONFLICT (store, job, kind) WHERE ended_at IS NULL DO NOTHING
"""
_UNDER_WAY = """
    SELECT id, began_at, page, total, read FROM passes
    WHERE store = :store AND job = :job AND kind = :kind AND ended_at IS NULL
"""
_ADVANCE = """
    UPDATE passes SET page = :page, total = :total, read = :read,
        missed = missed + :missed, stale = stale + :stale,
        deleted = deleted + :deleted, "foreign" = "foreign" + :foreign
    WHERE id = :pass_id
"""
_SAW = """
    INSERT INTO pass_seen (store, kind, object_id, sweep)
    SELECT store, kind, :object_id, id FROM passes WHERE id = :pass_id
    ON CONFLICT (store, kind, object_id) DO UPDATE SET sweep = excluded.sweep
"""
_APPENDED = """
    INSERT INTO intake_repairs (sweep, event) VALUES (:pass_id, :event)
    ON CONFLICT (sweep, event) DO NOTHING
"""
_END = f"""
    UPDATE passes SET ended_at = :now, unrepaired = :unrepaired, note = :note
    WHERE id = :pass_id RETURNING {COLUMNS}
"""  # noqa: S608 - constants
_PENDING = """
    SELECT 1 FROM refetch_queue
    WHERE store = :store AND kind = :kind AND object_id = :object_id
"""


class SqlPasses(Family):
    """The table of passes; each method is one transaction."""

    @write
    def begin(
        self, connection: Connection, store: str, job: str, kind: str
    ) -> Progress:
        values = {"store": store, "job": job, "kind": kind, "now": self._now()}
        connection.execute(_BEGIN, values)
        return Progress(*connection.execute(_UNDER_WAY, values).fetchone())

    @write
    def advance(
        self,
        connection: Connection,
        progress: Progress,
        seen: Sequence[str],
        drift: Mapping[Drift, int],
        events: Sequence[int] = (),
    ) -> None:
        pass_id = progress.pass_id
        found = {kind.value: drift.get(kind, 0) for kind in Drift}
        connection.execute(_ADVANCE, msgspec.structs.asdict(progress) | found)
        rows = [{"pass_id": pass_id, "object_id": id_} for id_ in seen]
        connection.executemany(_SAW, rows)
        appended = [{"pass_id": pass_id, "event": event} for event in events]
        connection.executemany(_APPENDED, appended)

    @write
    def end(
        self, connection: Connection, pass_id: int, unrepaired: int, note: str = ""
    ) -> Pass:
        values = {"pass_id": pass_id, "unrepaired": unrepaired, "note": note}
        row = connection.execute(_END, values | {"now": self._now()}).fetchone()
        connection.execute("DELETE FROM intake_repairs WHERE sweep = :pass_id", values)
        ended = Pass(*row)
        if ended.job == "incremental" and not ended.found and not unrepaired:
            connection.execute("DELETE FROM passes WHERE id = :pass_id", values)
        return ended

    @write
    def open_conflicts(
        self, connection: Connection, store: str, kind: str
    ) -> list[tuple[str, str]]:
        query = (
            "SELECT object_id FROM refetch_queue WHERE store = :store AND kind = :kind"
        )
        rows = connection.execute(query, {"store": store, "kind": kind})
        return [(kind, object_id) for (object_id,) in rows]

    @write
    def pending_refetches(
        self, connection: Connection, store: str, objects: Sequence[tuple[str, str]]
    ) -> list[tuple[str, str]]:
        return [
            (kind, id_)
            for kind, id_ in objects
            if connection.execute(
                _PENDING, {"store": store, "kind": kind, "object_id": id_}
            ).fetchone()
        ]


_LISTS = 4
_LAST_FULL = """
    SELECT s.store, s.kind, s.note,
           (SELECT began_at FROM passes c WHERE c.store = s.store
            AND c.kind = s.kind AND c.job = 'full' AND c.ended_at IS NOT NULL
            AND c.unrepaired = 0 AND c.note = '' ORDER BY c.id DESC LIMIT 1) AS as_of,
           EXISTS (SELECT 1 FROM passes r WHERE r.store = s.store
            AND r.kind = s.kind AND r.job IN ('backfill', 'full')
            AND r.ended_at IS NOT NULL AND (r.note = '' OR r.read > 0)) AS was_read
    FROM passes s WHERE s.id IN (SELECT max(id) FROM passes
        WHERE job = 'full' AND ended_at IS NOT NULL GROUP BY store, kind)
"""


def sync_states(connection: Connection) -> dict[str, SyncState]:
    """Return for each store since when its mirror is in sync.

    A list that was never read does not count. One that was read and is refused now
    does, because the mirror still has its rows.
    """
    kinds: defaultdict[str, dict[str, str | None]] = defaultdict(dict)
    unread: defaultdict[str, list[str]] = defaultdict(list)
    bounds: defaultdict[str, list[str]] = defaultdict(list)
    for store, kind, note, as_of, was_read in connection.execute(_LAST_FULL):
        kinds[store][kind] = note or as_of
        if note:
            unread[store].append(kind)
        if was_read:
            bounds[store].append(as_of or "")
    return {
        store: SyncState(
            min(bounds[store], default=None) or None if len(lists) == _LISTS else None,
            lists,
            unread[store],
        )
        for store, lists in kinds.items()
    }


_KEYS = {kind: (table, "id", "id") for kind, table in TABLES.items()}
_KEYS["level"] = ("inventory_levels", "variant_id", "product_id")
"""The table of each kind, its key, and the id by which the platform is asked."""
_IN_IDS = f"IN (SELECT value FROM {elements(':ids', '$')})"  # noqa: S608 - constants
_NOT_DELETED = {"product": " AND deleted_at IS NULL"}
_LAST_PASSES = f"""
    SELECT {COLUMNS} FROM passes WHERE id IN (SELECT max(id) FROM passes
    WHERE store = :store AND ended_at IS NOT NULL GROUP BY job, kind)
"""  # noqa: S608 - constants
_REPAIRS = """
    SELECT h.event, i.body FROM intake_repairs h LEFT JOIN inbox i ON i.id = h.event
    WHERE h.sweep = :pass_id AND h.event > :after ORDER BY h.event LIMIT :most
"""
BODIES_AT_ONCE = 100


class SqlMirror(Family):
    """Reads of the mirror beside the writer: a slow disk must not stop the loop."""

    @read
    def get(self, connection: Connection, name: str) -> str | None:
        """Return a value of the key-value state, or None, without the writer."""
        return kv.get(connection, name)

    @read
    def versions(
        self, connection: Connection, kind: str, store: str, ids: Sequence[str]
    ) -> dict[str, Version]:
        table, key, _ = _KEYS[kind]
        rows = connection.execute(
            f"SELECT {key}, {VERSION} FROM {table}"  # noqa: S608 - constants
            f" WHERE store = :store AND {key} {_IN_IDS}",
            {"store": store, "ids": _array(ids)},
        )
        return {
            id_: Version(updated_at, sequence, bool(delivered), *rest)
            for id_, updated_at, sequence, delivered, *rest in rows
        }

    @read
    def is_erased(
        self,
        connection: Connection,
        store: str,
        customer_id: str | None,
        address: bytes | None,
    ) -> bool:
        return is_erased(connection, store, customer_id, address)

    @read
    def unseen(
        self, connection: Connection, kind: str, store: str, pass_id: int
    ) -> list[tuple[str, str]]:
        table, key, asked = _KEYS[kind]
        query = f"""
            SELECT {key}, {asked} FROM {table} t
            WHERE store = :store{_NOT_DELETED.get(kind, "")}
            AND NOT EXISTS (SELECT 1 FROM pass_seen s JOIN passes w ON w.id = :pass_id
                WHERE s.store = :store AND s.kind = w.kind AND s.object_id = t.{key}
                AND s.sweep = :pass_id)
        """  # noqa: S608 - constants
        rows = connection.execute(query, {"store": store, "pass_id": pass_id})
        return [(row[0], row[1]) for row in rows]

    @read
    def all_seen(
        self,
        connection: Connection,
        kind: str,
        store: str,
        pass_id: int,
        ids: Sequence[str],
    ) -> bool:
        query = f"""
            SELECT count(*) AS seen FROM pass_seen WHERE store = :store
            AND kind = :kind AND sweep = :pass_id AND object_id {_IN_IDS}
        """  # noqa: S608 - constants
        values = {"store": store, "kind": kind, "pass_id": pass_id, "ids": _array(ids)}
        (seen,) = connection.execute(query, values).fetchone()
        return bool(seen == len(set(ids)))

    @read
    def repairs(
        self, connection: Connection, pass_id: int, after: int
    ) -> list[tuple[int, bytes]]:
        values = {"pass_id": pass_id, "after": after, "most": BODIES_AT_ONCE}
        rows = connection.execute(_REPAIRS, values)
        return [(event, bytes(body or b"")) for event, body in rows]

    @read
    def count(self, connection: Connection, kind: str, store: str) -> int:
        query = (
            f"SELECT count(*) AS objects FROM {_KEYS[kind][0]}"  # noqa: S608 - constants
            f" WHERE store = :store{_NOT_DELETED.get(kind, '')}"
        )
        return int(connection.execute(query, {"store": store}).fetchone()[0])

    @read
    def unknown_moves(
        self, connection: Connection, store: str, moves: Sequence[tuple[str, str]]
    ) -> set[tuple[str, str]]:
        query = f"""
            SELECT adjustment_id, variant_id FROM stock_ledger
            WHERE store = :store AND adjustment_id {_IN_IDS}
        """  # noqa: S608 - constants
        values = {
            "store": store,
            "ids": _array([adjustment for adjustment, _ in moves]),
        }
        known = {(row[0], row[1]) for row in connection.execute(query, values)}
        return set(moves) - known

    @read
    def last_passes(self, connection: Connection, store: str) -> list[Pass]:
        rows = connection.execute(_LAST_PASSES, {"store": store})
        return [Pass(*row) for row in rows]


def _array(ids: Sequence[str]) -> str:
    return msgspec.json.encode(ids).decode()
