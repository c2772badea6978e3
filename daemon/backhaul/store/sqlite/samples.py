"""One row a minute for the dashboard's charts, and counts that are too slow for it."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING

from msgspec.structs import astuple

from backhaul.store.sqlite.connections import Readers

if TYPE_CHECKING:
    from pathlib import Path

    from backhaul.store.samples import Sample
    from backhaul.store.sqlite.writer import Writer

COUNTING_PAGES = 8
_KEEP = "INSERT OR REPLACE INTO samples VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_MIRRORED = """
    SELECT (SELECT count(*) FROM orders) AS orders,
           (SELECT count(*) FROM products WHERE deleted_at IS NULL) AS products,
           (SELECT count(*) FROM customers) AS customers
"""


class SqliteSamples:
    """Writes behind the rest, and counts in a thread."""

    def __init__(self, path: Path, writer: Writer) -> None:
        self._readers = Readers(path)
        self._writer = writer

    def close(self) -> None:
        """Close what is idle."""
        self._readers.close()

    async def keep(self, sample: Sample, since: str) -> None:
        """Keep a sample; forget those before `since`. May raise Busy."""

        def unit(connection: sqlite3.Connection) -> None:
            connection.execute(_KEEP, astuple(sample))
            connection.execute("DELETE FROM samples WHERE at < ?", (since,))

        await self._writer.background(unit)

    async def mirrored(self) -> dict[str, int]:
        """Count what is mirrored, by table; nothing of a file that cannot be read."""
        return await asyncio.to_thread(self._mirrored)

    def _mirrored(self) -> dict[str, int]:
        try:
            with self._readers.lend() as connection:
                # A count meets each page once; a cache of them grows with the mirror.
                connection.execute(f"PRAGMA cache_size={COUNTING_PAGES}")
                return dict(connection.execute(_MIRRORED).fetchone())
        except sqlite3.Error:
            return {}
