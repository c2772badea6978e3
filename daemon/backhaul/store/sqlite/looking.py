"""What reconciliation reads of the mirror, on connections beside the writer's."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING, TypeVar

from backhaul.core.fold import Version
from backhaul.errors import Busy
from backhaul.store.reconciling import Sweep
from backhaul.store.sqlite.connections import Readers
from backhaul.store.sqlite.mirror import FORGETS
from backhaul.store.sqlite.sweeps import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

T = TypeVar("T")

_KEYS = {
    "product": ("products", "id", "id"),
    "order": ("orders", "id", "id"),
    "customer": ("customers", "id", "id"),
    "level": ("inventory_levels", "variant_id", "product_id"),
}
"""The mirror's table of each kind, its key, and the id to ask the platform for."""
_VERSION = "updated_at, sequence, delivered, seen_at, digest, standing, confirmed_at"
_HANDED_IN = """
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
        rows = await self._rows(_HANDED_IN, (sweep, after, BODIES_AT_ONCE))
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
