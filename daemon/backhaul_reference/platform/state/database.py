"""SQLite connections: one writer, read-only readers."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from backhaul_reference.platform.state.schema import migrate

Row = sqlite3.Row
BATCH = 200
Params = Sequence[Any] | Mapping[str, Any]


class Rows:
    """Read queries on the state."""

    __slots__ = ("connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def one(self, sql: str, params: Params = ()) -> Row | None:
        row: Row | None = self.connection.execute(sql, params).fetchone()
        return row

    def all(self, sql: str, params: Params = ()) -> list[Row]:
        return self.connection.execute(sql, params).fetchall()

    def batches(self, sql: str, params: Params = ()) -> Iterator[list[Row]]:
        """Yield the rows in batches: a big store does not fit into memory."""
        cursor = self.connection.execute(sql, params)
        while found := cursor.fetchmany(BATCH):
            yield found

    def value(self, sql: str, params: Params = ()) -> Any:
        row = self.connection.execute(sql, params).fetchone()
        return None if row is None else row[0]


def placeholders(values: Sequence[Any]) -> str:
    """Return the placeholders of an IN list."""
    return ",".join("?" * len(values))


def open_writer(path: Path) -> sqlite3.Connection:
    """Open the only writing connection and migrate the tables."""
    connection = _connect(path)
    connection.execute("PRAGMA page_size = 8192")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    # 8 MB: the commit that moves them to the database keeps all others waiting.
    connection.execute("PRAGMA wal_autocheckpoint = 1000")
    connection.execute("PRAGMA cache_size = -65536")
    migrate(connection)
    return connection


def open_reader(path: Path) -> sqlite3.Connection:
    connection = _connect(path)
    connection.execute("PRAGMA query_only = ON")
    return connection


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, cached_statements=512
    )
    connection.row_factory = Row
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA busy_timeout = 2000")
    return connection
