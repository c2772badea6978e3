"""Small values that must survive a restart, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.store.sql.family import Family, write

if TYPE_CHECKING:
    from backhaul.store.sql.family import Connection

_PUT = """
    INSERT INTO marks (name, value) VALUES (:name, :value)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""


class SqlKeyValues(Family):
    """A durable dictionary of text."""

    @write
    def get(self, connection: Connection, name: str) -> str | None:
        query = "SELECT value FROM marks WHERE name = :name"
        row = connection.execute(query, {"name": name}).fetchone()
        return str(row[0]) if row else None

    @write
    def put(self, connection: Connection, name: str, value: str) -> None:
        connection.execute(_PUT, {"name": name, "value": value})
