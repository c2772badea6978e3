"""Small facts that must survive a restart, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

    from backhaul.store.sqlite.writer import Writer


class SqlMarks:
    """A durable dictionary of text."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def get(self, name: str) -> str | None:
        """Return the mark, or None. One that is damaged may be no text any more."""

        def unit(connection: sqlite3.Connection) -> str | None:
            row = connection.execute(
                "SELECT CAST(value AS BLOB) FROM marks WHERE name = ?", (name,)
            ).fetchone()
            return row[0].decode(errors="replace") if row else None

        return await self._writer.urgent(unit)

    async def put(self, name: str, value: str) -> None:
        """Set the mark, durably."""

        def unit(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT OR REPLACE INTO marks (name, value) VALUES (?, ?)",
                (name, value),
            )

        await self._writer.urgent(unit)
