"""A mirror of many orders on PostgreSQL: one is folded, the server copies its rows."""

from __future__ import annotations

import asyncio
from contextlib import closing

from backhaul.core.clock import SystemClock
from backhaul.store import open_store
from backhaul.store.postgres.connection import Connection
from bench.draining import append, fold_all
from bench.large import COPIED, NUMBERED
from bench.orders import FIRST, bodies

FILL_SECONDS = 7_200.0
"""How long one table may take."""
OWN = {
    # A body is long gone by the time there are a million of them.
    ("inbox", "body"): "''::bytea",
    # The stream of events that were moved from a file: up to a number all are folded.
    ("inbox", "stream"): "0",
    ("delivery_digests", "digest"): "sha256(n::text::bytea)",
}
_COLUMNS = """
    SELECT column_name, data_type FROM information_schema.columns
    WHERE table_schema = current_schema() AND table_name = ?
    ORDER BY ordinal_position
"""


def fill(url: str, count: int) -> None:
    """Make an empty database mirror `count` orders, each of the usual size."""
    asyncio.run(_fold_one(url))
    with closing(Connection(url)) as connection:
        connection.limits.silence_seconds = FILL_SECONDS
        # Without foreign keys: all rows are copies of rows that hold.
        connection.execute("SET session_replication_role = replica")
        connection.execute("SET synchronous_commit = off")
        for table in COPIED:
            _copy(connection, table, count)
        moved = "UPDATE streams SET folded_to = ? WHERE id = 0"
        connection.execute(moved, (count + 1,))
        for table in ("inbox", "changes"):
            following = "SELECT setval(pg_get_serial_sequence(?, 'id'), ?)"
            connection.execute(following, (table, count + 1))
        connection.execute("VACUUM (ANALYZE)")
        connection.execute("CHECKPOINT")


async def _fold_one(url: str) -> None:
    store = open_store(url, SystemClock())
    store.start()
    await append(store, "orders/create", bodies(1))
    await fold_all(store)
    await store.stop()


def _copy(connection: Connection, table: str, count: int) -> None:
    columns = connection.execute(_COLUMNS, (table,)).fetchall()
    names = ", ".join(name for name, _ in columns)
    values = ", ".join(_copied(table, name, type_) for name, type_ in columns)
    connection.execute(
        f"INSERT INTO {table} ({names}) SELECT {values}"  # noqa: S608 - constants
        f" FROM generate_series(1, {count - 1}) n CROSS JOIN {table} t"
    )


def _copied(table: str, column: str, type_: str) -> str:
    """Return the value of a column in the row of another order."""
    if (table, column) in OWN:
        return OWN[table, column]
    if column == NUMBERED.get(table) or column == "event":
        return "t.id + n" if column == "id" else "t.event + n"
    if type_ == "text":
        return f"replace(t.{column}, '{FIRST}', ({FIRST} + n)::text)"
    if column == "number":
        return "t.number + n"
    return f"t.{column}"
