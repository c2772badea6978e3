"""The SQLite database: connections, read queries, cached reads and pages of rows."""

import sqlite3
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from backhaul_reference.platform.state.schema import migrate

Row = sqlite3.Row
BATCH = 200
MAX_KNOWN = 64
REVISION = "SELECT revision FROM catalogue"
T = TypeVar("T")
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


@dataclass(slots=True)
class Reader:
    """Reads committed state, each time at one moment."""

    connection: sqlite3.Connection
    _version: int = -1
    _known: dict[Hashable, Any] = field(default_factory=dict)
    _revision: int = -1
    _pages: dict[Hashable, Any] = field(default_factory=dict)

    def recall(self, key: Hashable, question: Callable[[Rows], T]) -> T:
        """Like `read`, but cached until something is committed.

        The result must depend only on the state and the key; callers must not
        change it.
        """
        # SQLite changes this number with each commit of another connection.
        version = self.connection.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version or len(self._known) >= MAX_KNOWN:
            self._version, self._known = version, {}
        if key not in self._known:
            self._known[key] = self.read(question)
        known: T = self._known[key]
        return known

    def recall_page(self, key: Hashable, question: Callable[[Rows], T]) -> T:
        """Like `recall`, for results that depend only on the catalogue and the key.

        Orders keep the cache valid as long as nothing sells out.
        """
        # Asked first: a page may be newer than its revision, and never older.
        revision = self.recall(REVISION, lambda rows: rows.value(REVISION))
        if revision != self._revision or len(self._pages) >= MAX_KNOWN:
            self._revision, self._pages = revision, {}
        if key not in self._pages:
            self._pages[key] = self.read(question)
        known: T = self._pages[key]
        return known

    def read(self, question: Callable[[Rows], T]) -> T:
        self.connection.execute("BEGIN")
        try:
            return question(Rows(self.connection))
        finally:
            self.connection.execute("ROLLBACK")


@dataclass(frozen=True, slots=True)
class Window:
    """Which part of a list is asked for, and in which order."""

    page: int = 1
    limit: int = 20
    updated_since_ms: int | None = None
    by_update: bool = False

    @property
    def offset(self) -> int:
        return (self.page - 1) * self.limit


@dataclass(frozen=True, slots=True)
class Clause:
    """A further condition on the rows of a list; its text comes from our code only."""

    sql: str
    params: Sequence[Any] = ()


@dataclass(frozen=True, slots=True)
class Listing:
    """One page and the number of all rows."""

    rows: list[Any]
    total: int


def listing(
    rows: Rows,
    table: str,
    store_id: str,
    filters: Mapping[str, Any],
    window: Window,
    *,
    newest: str = "created_ms DESC, id DESC",
    within: Clause | None = None,
) -> Listing:
    """A page of a table: equality filters on columns, `search` as a substring."""
    terms = ["store_id = ?"]
    params: list[Any] = [store_id]
    for column, value in filters.items():
        if value is not None:
            found = column == "search"
            terms.append("INSTR(search, ?) > 0" if found else f"{column} = ?")
            params.append(value)
    if window.updated_since_ms is not None:
        terms.append("updated_ms >= ?")
        params.append(window.updated_since_ms)
    if within is not None:
        terms.append(within.sql)
        params.extend(within.params)
    where = " AND ".join(terms)
    order = "updated_ms, id" if window.by_update else newest
    total = rows.value(f"SELECT COUNT(*) FROM {table} WHERE {where}", params)  # noqa: S608  - table and columns are literals of this package
    sql = f"SELECT * FROM {table} WHERE {where} ORDER BY {order} LIMIT ? OFFSET ?"  # noqa: S608  - as above
    page = rows.all(sql, (*params, window.limit, window.offset))
    return Listing(page, total)
