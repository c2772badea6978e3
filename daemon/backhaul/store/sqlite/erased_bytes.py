"""Clears what erased rows leave in SQLite's files: index segments, log, free pages."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from backhaul.store.customer_erasure import holds, spellings
from backhaul.store.sql.customer_erasure.erase import SqlErasure
from backhaul.store.sqlite import full_text

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from backhaul.core.clock import Clock
    from backhaul.store.sql.family import Connection
    from backhaul.store.sqlite.engine import SqliteEngine

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
        for hit in full_text.find(connection, text, "customer", NEAREST):
            yield hit.store, hit.id, hit.title

    async def compact_search(self, *, begin: bool) -> bool:
        def unit(connection: sqlite3.Connection) -> bool:
            # A negative number first puts all segments on one level, to be merged.
            before = connection.total_changes
            connection.execute(
                "INSERT INTO searchable_fts(searchable_fts, rank) VALUES ('merge', ?)",
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
