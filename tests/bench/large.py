"""A mirror of many orders: one is folded, the others are copies of its rows."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from typing import TYPE_CHECKING

from backhaul.core.clock import SystemClock, to_text
from backhaul.ingest.topics import fold_for
from backhaul.maintenance.search_indexer import describe
from backhaul.store.inbox import Arrival
from backhaul.store.sql.mirror.search_index import CURSOR
from backhaul.store.sqlite.opening import open_store
from bench.orders import FIRST, ITEMS, STORE, bodies

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import TypeAlias

    Value: TypeAlias = str | bytes | int | float | None

COPIED = (
    "inbox",
    "event_outcomes",
    "changes",
    "delivery_digests",
    "orders",
    "order_items",
)
NUMBERED = {
    "inbox": "id",
    "event_outcomes": "id",
    "changes": "id",
    "delivery_digests": "id",
    "search_documents": "id",
}
"""Columns that count from 1, an event each."""
OWN = {
    # A body is long gone by the time there are a million of them.
    ("inbox", "body"): "x''",
    ("delivery_digests", "digest"): f"delivery_digest({FIRST} + n)",
}
CACHE_KIBIBYTES = 1_000_000


def fill(
    database: Path, count: int, items: int = ITEMS, *, is_indexed: bool = False
) -> None:
    """Make a database that mirrors `count` orders with so many lines.

    If `is_indexed`, the search finds all of them.
    """
    asyncio.run(_fold_one(database, items))
    connection = sqlite3.connect(database, isolation_level=None)
    connection.create_function("numbered", 2, _numbered, deterministic=True)
    connection.create_function("delivery_digest", 1, _delivery_digest)
    # Otherwise all of it would be written twice, and lie in the WAL first.
    connection.execute("PRAGMA journal_mode=OFF")
    connection.execute("PRAGMA synchronous=OFF")
    connection.execute("PRAGMA foreign_keys=OFF")
    connection.execute(f"PRAGMA cache_size=-{CACHE_KIBIBYTES}")
    connection.execute("BEGIN")
    for table in COPIED if count > 1 else ():
        _copy(connection, table, count)
    if is_indexed:
        _index(connection, count)
    connection.execute("UPDATE kv SET value = ? WHERE name = 'fold_cursor'", [count])
    connection.execute("COMMIT")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    # What was not waited for so far would be written while the first round is measured.
    os.sync()


def _index(connection: sqlite3.Connection, count: int) -> None:
    """Make the index as it is after all orders were indexed, in a shorter time."""
    # The triggers would index row by row.
    triggers = connection.execute(
        "SELECT name, sql FROM sqlite_master"
        " WHERE type = 'trigger' AND tbl_name = 'search_documents'"
    ).fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    _copy(connection, "search_documents", count)
    for _, statement in triggers:
        connection.execute(statement)
    connection.execute(
        "INSERT INTO search_documents_fts(search_documents_fts) VALUES ('rebuild')"
    )
    connection.execute("UPDATE kv SET value = ? WHERE name = ?", [count, CURSOR])


async def _fold_one(database: Path, items: int) -> None:
    clock = SystemClock()
    store = open_store(database, clock)
    store.start()
    (body,) = bodies(1, items=items)
    now = to_text(clock.now())
    arrival = Arrival(STORE, "delivery", "orders/create", now, b"{}", body)
    await store.inbox.append(arrival)
    await store.inbox.fold(fold_for({}), slice_seconds=1)
    await store.search.follow(describe, slice_seconds=1)
    await store.stop()


def _numbered(value: Value, number: int) -> Value:
    """Return the value as the order of another number has it."""
    if isinstance(value, str):
        return value.replace(str(FIRST), str(number))
    return number if value == FIRST else value


def _delivery_digest(sequence: int) -> bytes:
    """Return what the fold keeps of a body: its number, and a digest."""
    return sequence.to_bytes(4, "big") + os.urandom(16)


def _copy(connection: sqlite3.Connection, table: str, count: int) -> None:
    connection.execute(f"CREATE TEMP TABLE first AS SELECT * FROM {table}")  # noqa: S608 - constants
    found = connection.execute("SELECT * FROM first")
    names = [name for name, *_ in found.description]
    columns = zip(names, zip(*found, strict=True), strict=True)
    values = ", ".join(_copied(table, name, values) for name, values in columns)
    connection.execute(
        f"""
        WITH RECURSIVE copies(n) AS (
            SELECT 1 UNION ALL SELECT n + 1 FROM copies WHERE n < ?)
        INSERT INTO {table} SELECT {values} FROM copies CROSS JOIN first
        """,  # noqa: S608 - constants
        (count - 1,),
    )
    connection.execute("DROP TABLE first")


def _copied(table: str, column: str, values: Iterable[Value]) -> str:
    """Return the expression for a column with these values in the first rows."""
    if (table, column) in OWN:
        return OWN[table, column]
    if column == NUMBERED.get(table) or column in {"event", "delivered"}:
        return "n + 1"
    if not any(str(FIRST) in str(value) for value in values):
        return column
    return f"numbered({column}, {FIRST} + n)"
