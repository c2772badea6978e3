"""Walks over the platform's lists, kept so that a kill costs a page at most."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.clock import to_text
from backhaul.core.fold import Drift
from backhaul.store.reconciling import Progress, Sweep

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

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


class SqliteSweeps:
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
