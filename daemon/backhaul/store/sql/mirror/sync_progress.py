"""Progress of full syncs, what each pass read, and since when the mirror is in sync."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import defaultdict
from typing import TYPE_CHECKING, Any, TypeVar

from backhaul.core.clock import to_text
from backhaul.core.fold import Drift, Version
from backhaul.errors import Busy
from backhaul.store.mirror import Progress, Sweep
from backhaul.store.sql.mirror.write import FORGETS
from backhaul.store.sqlite.connections import Readers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.store.sqlite.writer import Writer


COLUMNS = (
    "id, store, job, kind, began_at, ended_at, read, missed, stale, deleted,"
    ' "foreign", unrepaired, note'
)
_ADVANCE = """
    UPDATE sweeps SET page = ?, total = ?, read = ?, missed = missed + ?,
        stale = stale + ?, deleted = deleted + ?, "foreign" = "foreign" + ?
    WHERE id = ?
"""
_SAW = """
    INSERT INTO sightings (store, kind, object_id, sweep)
    SELECT store, kind, ?2, id FROM sweeps WHERE id = ?1
    ON CONFLICT DO UPDATE SET sweep = excluded.sweep
"""
_HANDED_IN = "INSERT OR IGNORE INTO handed_in (sweep, event) VALUES (?, ?)"
_PENDING = "SELECT 1 FROM rereads WHERE store = ? AND kind = ? AND object_id = ?"


class SqlSweeps:
    """Every verb is one transaction."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock

    async def begin(self, store: str, job: str, kind: str) -> Progress:
        """Begin a walk, or go on with the one that has not ended."""
        now = to_text(self._clock.now())

        def unit(connection: sqlite3.Connection) -> Progress:
            connection.execute(
                "INSERT OR IGNORE INTO sweeps (store, job, kind, began_at)"
                " VALUES (?, ?, ?, ?)",
                (store, job, kind, now),
            )
            row = connection.execute(
                "SELECT id, began_at, page, total, read FROM sweeps WHERE store = ?"
                " AND job = ? AND kind = ? AND ended_at IS NULL",
                (store, job, kind),
            ).fetchone()
            return Progress(*row)

        return await self._writer.urgent(unit)

    async def advance(
        self,
        progress: Progress,
        seen: Sequence[str],
        drift: Mapping[Drift, int],
        events: Sequence[int] = (),
    ) -> None:
        """Keep that the rows up to `progress.page` are durable, and which they were.

        `events` are those by which the walk handed rows in.
        """
        found = [drift.get(kind, 0) for kind in Drift]
        at = (progress.page, progress.total, progress.read)

        def unit(connection: sqlite3.Connection) -> None:
            connection.execute(_ADVANCE, (*at, *found, progress.sweep))
            connection.executemany(_SAW, [(progress.sweep, id_) for id_ in seen])
            connection.executemany(
                _HANDED_IN, [(progress.sweep, id_) for id_ in events]
            )

        await self._writer.urgent(unit)

    async def end(self, sweep: int, unrepaired: int, note: str = "") -> Sweep:
        """End a walk; a clean incremental one leaves no row behind."""
        now = to_text(self._clock.now())

        def unit(connection: sqlite3.Connection) -> Sweep:
            connection.execute(
                "UPDATE sweeps SET ended_at = ?, unrepaired = ?, note = ? WHERE id = ?",
                (now, unrepaired, note, sweep),
            )
            connection.execute("DELETE FROM handed_in WHERE sweep = ?", (sweep,))
            ended = Sweep(
                *connection.execute(
                    f"SELECT {COLUMNS} FROM sweeps WHERE id = ?",  # noqa: S608 - constants
                    (sweep,),
                ).fetchone()
            )
            if ended.job == "incremental" and not ended.found and not unrepaired:
                connection.execute("DELETE FROM sweeps WHERE id = ?", (sweep,))
            return ended

        return await self._writer.urgent(unit)

    async def open_doubts(self, store: str, kind: str) -> list[tuple[str, str]]:
        """Return the (kind, id) of everything of a kind that is in doubt now."""

        def unit(connection: sqlite3.Connection) -> list[tuple[str, str]]:
            query = "SELECT kind, object_id FROM rereads WHERE store = ? AND kind = ?"
            return connection.execute(query, (store, kind)).fetchall()

        return await self._writer.urgent(unit)

    async def pending_rereads(
        self, store: str, objects: Sequence[tuple[str, str]]
    ) -> list[tuple[str, str]]:
        """Return which of these (kind, id) are still to be read again."""

        def unit(connection: sqlite3.Connection) -> list[tuple[str, str]]:
            return [
                each
                for each in objects
                if connection.execute(_PENDING, (store, *each)).fetchone()
            ]

        return await self._writer.urgent(unit)


_LISTS = 4
_WALKED = """
    SELECT s.store, s.kind, s.note,
           (SELECT began_at FROM sweeps c WHERE c.store = s.store
            AND c.kind = s.kind AND c.job = 'full' AND c.ended_at IS NOT NULL
            AND c.unrepaired = 0 AND c.note = '' ORDER BY c.id DESC LIMIT 1) AS as_of,
           EXISTS (SELECT 1 FROM sweeps r WHERE r.store = s.store
            AND r.kind = s.kind AND r.job IN ('backfill', 'full')
            AND r.ended_at IS NOT NULL AND (r.note = '' OR r.read > 0)) AS was_read
    FROM sweeps s WHERE s.id IN (SELECT max(id) FROM sweeps
        WHERE job = 'full' AND ended_at IS NOT NULL GROUP BY store, kind)
"""


def consistency(connection: sqlite3.Connection) -> dict[str, dict[str, Any]]:
    """Return since when each store's mirror is known to be equal, and what not.

    The start of the last full walk over each list that left nothing unrepaired. A
    list that was never read has no say; one that can be read no longer has: the mirror
    still holds what it showed. `unread` names both.
    """
    found: dict[str, dict[str, Any]] = {}
    bounds: defaultdict[str, list[str]] = defaultdict(list)
    for row in connection.execute(_WALKED):
        blank: dict[str, Any] = {"as_of": None, "kinds": {}, "unread": []}
        store = found.setdefault(row["store"], blank)
        store["kinds"][row["kind"]] = row["note"] or row["as_of"]
        if row["note"]:
            store["unread"].append(row["kind"])
        if row["was_read"]:
            bounds[row["store"]].append(row["as_of"] or "")
    for name, store in found.items():
        if len(store["kinds"]) == _LISTS and all(bounds[name]):
            store["as_of"] = min(bounds[name], default=None)
    return found


T = TypeVar("T")

_KEYS = {
    "product": ("products", "id", "id"),
    "order": ("orders", "id", "id"),
    "customer": ("customers", "id", "id"),
    "level": ("inventory_levels", "variant_id", "product_id"),
}
"""The mirror's table of each kind, its key, and the id to ask the platform for."""
_VERSION = "updated_at, sequence, delivered, seen_at, digest, standing, confirmed_at"
_HANDED_IN_REPAIRS = """
    SELECT h.event, coalesce(i.body, x'') FROM handed_in h
    LEFT JOIN inbox i ON i.id = h.event
    WHERE h.sweep = ? AND h.event > ? ORDER BY h.event LIMIT ?
"""
IDS_AT_ONCE = 1_000
"""Ids in one query: SQLite takes so many values and no more."""
BODIES_AT_ONCE = 100
_ALIVE = {"product": " AND deleted_at IS NULL"}


class SqliteLook:
    """Reads in threads: a cold disk must not hold up the loop."""

    def __init__(self, path: Path) -> None:
        self._readers = Readers(path)

    def close(self) -> None:
        """Close what is idle."""
        self._readers.close()

    async def get(self, name: str) -> str | None:
        """Return the mark of this name, or None."""
        query = "SELECT value FROM marks WHERE name = ?"
        found = await self._rows(query, (name,))
        return found[0][0] if found else None

    async def versions(
        self, kind: str, store: str, ids: Sequence[str]
    ) -> dict[str, Version]:
        """Return the versions held of `product`, `order`, `customer` or `level`."""
        found: dict[str, Version] = {}
        for start in range(0, len(ids), IDS_AT_ONCE):
            found |= await self._versions(kind, store, ids[start : start + IDS_AT_ONCE])
        return found

    async def _versions(
        self, kind: str, store: str, ids: Sequence[str]
    ) -> dict[str, Version]:
        table, key, _ = _KEYS[kind]
        query = (
            f"SELECT {key}, {_VERSION} FROM {table}"  # noqa: S608 - constants
            f" WHERE store = ? AND {key} IN ({_places(ids)})"
        )
        rows = await self._rows(query, (store, *ids))
        return {row[0]: Version(row[1], row[2], bool(row[3]), *row[4:]) for row in rows}

    async def forgets(
        self, store: str, customer_id: str | None, address: bytes | None
    ) -> bool:
        """Tell whether a person is to be forgotten, by id or digest of the e-mail."""
        ((found,),) = await self._rows(FORGETS, (store, customer_id, address))
        return bool(found)

    async def unseen(self, kind: str, store: str, sweep: int) -> list[tuple[str, str]]:
        """Return (id, product id or id) of what is held but was not seen in a walk."""
        table, key, asked = _KEYS[kind]
        query = f"""
            SELECT {key}, {asked} FROM {table} t WHERE store = ?1{_ALIVE.get(kind, "")}
            AND NOT EXISTS (SELECT 1 FROM sightings s JOIN sweeps w ON w.id = ?2
                WHERE s.store = ?1 AND s.kind = w.kind AND s.object_id = t.{key}
                AND s.sweep = ?2)
        """  # noqa: S608 - constants
        return [(row[0], row[1]) for row in await self._rows(query, (store, sweep))]

    async def all_seen(
        self, kind: str, store: str, sweep: int, ids: Sequence[str]
    ) -> bool:
        """Tell whether a walk saw each of these."""
        query = (
            "SELECT count(*) FROM sightings WHERE store = ? AND kind = ? AND sweep = ?"  # noqa: S608 - only places
            f" AND object_id IN ({_places(ids)})"
        )
        ((seen,),) = await self._rows(query, (store, kind, sweep, *ids))
        return bool(seen == len(set(ids)))

    async def handed_in(self, sweep: int, after: int) -> list[tuple[int, bytes]]:
        """Return (event, body) of what an open walk handed in, beyond an event.

        The oldest come first, some at a time; a body is empty where it was erased.
        """
        rows = await self._rows(_HANDED_IN_REPAIRS, (sweep, after, BODIES_AT_ONCE))
        return [(row[0], bytes(row[1])) for row in rows]

    async def count(self, kind: str, store: str) -> int:
        """Return how many the mirror holds that are not deleted."""
        query = (
            f"SELECT count(*) FROM {_KEYS[kind][0]} WHERE store = ?"  # noqa: S608 - constants
            f"{_ALIVE.get(kind, '')}"
        )
        ((found,),) = await self._rows(query, (store,))
        return int(found)

    async def unknown_moves(
        self, store: str, moves: Sequence[tuple[str, str]]
    ) -> set[tuple[str, str]]:
        """Return which (adjustment id, variant id) the ledger lacks."""
        ids = [adjustment for adjustment, _ in moves]
        query = (
            "SELECT adjustment_id, variant_id FROM stock_ledger WHERE store = ?"  # noqa: S608 - only places
            f" AND adjustment_id IN ({_places(ids)})"
        )
        known = {(row[0], row[1]) for row in await self._rows(query, (store, *ids))}
        return set(moves) - known

    async def sweeps(self, store: str) -> list[Sweep]:
        """Return the last ended walk of each job and kind."""
        query = f"""
            SELECT {COLUMNS} FROM sweeps WHERE id IN (SELECT max(id) FROM sweeps
            WHERE store = ? AND ended_at IS NOT NULL GROUP BY job, kind)
        """  # noqa: S608 - constants
        return [Sweep(*row) for row in await self._rows(query, (store,))]

    async def _rows(self, query: str, values: tuple[object, ...]) -> list[sqlite3.Row]:
        return await self._read(lambda c: c.execute(query, values).fetchall())

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def run() -> T:
            try:
                with self._readers.lend() as connection:
                    return work(connection)
            except sqlite3.OperationalError as error:
                # Locked, or no file may be opened for a moment: not the end of us.
                raise Busy(f"the database cannot be read now: {error}") from None

        return await asyncio.to_thread(run)


def _places(values: Sequence[str]) -> str:
    return ",".join("?" * len(values))
