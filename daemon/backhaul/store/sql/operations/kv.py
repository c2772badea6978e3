"""Key-value state: small values that must survive a restart, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.store.sql.family import Family, write_idempotent

if TYPE_CHECKING:
    from backhaul.store.sql.family import Connection

_PUT = """
    INSERT INTO kv (name, value) VALUES (:name, :value)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""
_WITH_PREFIX = """
    SELECT name, value FROM kv WHERE name >= :prefix AND name < :end ORDER BY name
"""


class SqlKeyValues(Family):
    """Key-value state, in a table of text."""

    @write_idempotent
    def get(self, connection: Connection, name: str) -> str | None:
        return get(connection, name)

    @write_idempotent
    def put(self, connection: Connection, name: str, value: str) -> None:
        put(connection, name, value)


def get(connection: Connection, name: str) -> str | None:
    """Return a value, or None."""
    query = "SELECT value FROM kv WHERE name = :name"
    row = connection.execute(query, {"name": name}).fetchone()
    return str(row[0]) if row else None


def put(connection: Connection, name: str, value: str) -> None:
    """Store a value."""
    connection.execute(_PUT, {"name": name, "value": value})


def with_prefix(connection: Connection, prefix: str) -> dict[str, str]:
    """Return all values whose names begin with `prefix`, by the rest of the name."""
    values = {"prefix": prefix, "end": f"{prefix}\U0010ffff"}
    rows = connection.execute(_WITH_PREFIX, values)
    return {name.removeprefix(prefix): value for name, value in rows}


def number(name: str) -> str:
    """Return SQL for a value as a number, 0 if there is none; `name` is a parameter."""
    return (
        "coalesce((SELECT CAST(value AS BIGINT) FROM kv"  # noqa: S608 - a parameter
        f" WHERE name = {name}), 0)"
    )
