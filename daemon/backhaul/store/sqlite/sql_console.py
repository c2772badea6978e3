"""Runs an operator's SQL, and reads whole tables page by page; it cannot write."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from backhaul.errors import BackhaulError
from backhaul.store.read_models import (
    FILE,
    LONGEST_SECONDS,
    TABLE,
    QueryResult,
    SqlConsole,
)
from backhaul.store.sqlite.sql_guard import LIMITS, Guard, refusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from backhaul.core.clock import Clock
    from backhaul.store.read_models import QueryLimits


PUBLISHED: Mapping[str, tuple[str, ...]] = {
    "open_orders": ("store", "id"),
    "order_lines": ("store", "order_id", "id"),
    "stock": ("store", "variant_id"),
    "stock_moves": ("id",),
    "revenue_by_day": ("store", "day", "currency"),
    "orders": ("store", "id"),
    "order_items": ("store", "order_id", "id"),
    "shipments": ("store", "order_id", "id"),
    "products": ("store", "id"),
    "variants": ("store", "product_id", "id"),
    "inventory_levels": ("store", "variant_id"),
    "stock_ledger": ("id",),
    "customers": ("store", "id"),
    "events": ("id",),
    "commands": ("seq",),
    "stock_targets": ("seq",),
    "attempts": ("id",),
    "records": ("id",),
    "quarantine": ("id",),
    "changes": ("id",),
    "feed": ("id",),
    "parcels": ("store", "shipment_id"),
    "deliveries": ("seq",),
    "echoes": ("store", "effect"),
    "erased_customers": ("store", "customer_id"),
    "audit": ("id",),
}
"""Each table with the columns of its key, in the order of an index."""

INTERNAL = frozenset(
    {
        *("sequence", "delivered", "seen_at", "digest", "standing", "confirmed_at"),
        "request_digest",
    }
)
"""Columns of published tables that only Backhaul uses, to compare rows."""


PAGE_ROWS = 500
_STEPS = 10_000
"""Steps of SQLite's machine between two checks of the clock: below a millisecond."""
_NUMBER_BYTES = 8
MEMORY_BYTES = 256 << 20
"""The memory that SQLite can use in the process of a query."""

Values = tuple[Any, ...]


class SqliteConsole(SqlConsole):
    """Runs SQL on a connection of its own, beside a running daemon."""

    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        self._clock = clock
        self._connection = connection
        self._connection.row_factory = None
        self._connection.execute("PRAGMA query_only=ON")
        # The limit is for the whole process and cannot be raised again: this class is
        # for a program that runs one query, not for the daemon.
        self._connection.execute(f"PRAGMA hard_heap_limit={MEMORY_BYTES}")
        self._guard = Guard(self._connection)

    def query(self, sql: str, limits: QueryLimits = FILE) -> QueryResult:
        self._guard.begin(sql)
        with self._limited():
            try:
                # Our own `execute` would replace marks of the common text in it.
                cursor = sqlite3.Connection.execute(self._connection, sql)
                names = tuple(entry[0] for entry in cursor.description or ())
                rows = _fetch(cursor, names, limits)
            except (sqlite3.Error, sqlite3.Warning) as error:
                raise BackhaulError(self._why_not(error)) from None
            except MemoryError:
                raise BackhaulError(
                    f"the query needs more than {MEMORY_BYTES >> 20} MB of memory;"
                    " select fewer rows or columns"
                ) from None
            cursor.close()
        return QueryResult(names, rows, tuple(sorted(self._guard.withheld)))

    def columns(self, table: str) -> tuple[str, ...]:
        if table not in PUBLISHED:
            raise BackhaulError(
                f"there is no table {table!r} to export; the tables are: "
                + ", ".join(PUBLISHED)
            )
        found = self._connection.execute(f"SELECT * FROM {table} LIMIT 0")  # noqa: S608 - one of ours
        names = (entry[0] for entry in found.description)
        return tuple(name for name in names if name not in INTERNAL)

    def pages(self, table: str) -> Iterator[list[Values]]:
        columns, key = self.columns(table), PUBLISHED[table]
        places = [columns.index(name) for name in key]
        page = self._page(_first(table, columns, key), ())
        while page:
            yield page
            last = tuple(page[-1][place] for place in places)
            page = self._page(_next(table, columns, key), last)

    def _page(self, sql: str, after: Values) -> list[Values]:
        return self._connection.execute(sql, (*after, PAGE_ROWS)).fetchall()

    @contextmanager
    def _limited(self) -> Iterator[None]:
        until = self._clock.monotonic() + LONGEST_SECONDS
        self._connection.set_progress_handler(
            lambda: self._clock.monotonic() > until, _STEPS
        )
        # One row can take many steps: the timer interrupts after each step.
        timer = threading.Timer(LONGEST_SECONDS, self._connection.interrupt)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()  # or it would interrupt a connection that is closed
            self._connection.set_progress_handler(None, 0)

    def _why_not(self, error: sqlite3.Error | sqlite3.Warning) -> str:
        text = str(error)
        if text == "interrupted":
            return (
                f"the query was stopped after {LONGEST_SECONDS:.0f} s, because it"
                " would slow down the daemon. Select less, or see docs/mirror.md"
                " for fast queries"
            )
        if self._guard.refused:
            return refusal(self._guard.refused)
        if "readonly" in text:
            return refusal("to write")
        if "too big" in text:
            most = LIMITS[sqlite3.SQLITE_LIMIT_LENGTH] >> 20
            return (
                f"a value is larger than {most} MB; select a part of it, such as"
                " substr(column, 1, 1000)"
            )
        if "one statement" in text:
            return "write only one SQL statement"
        if text.startswith("no such table"):
            return f"{text}; the tables are: {', '.join(PUBLISHED)}"
        return f"SQLite says: {text}"


def _fetch(
    cursor: sqlite3.Cursor, names: Sequence[str], limits: QueryLimits
) -> list[Values]:
    """Read rows until there are too many of them, or bytes in them."""
    each_row = sum(map(len, names))
    rows: list[Values] = []
    left = limits.bytes
    for row in cursor:
        left -= each_row + sum(map(_bytes_of, row))
        if left < 0 or len(rows) == limits.rows:
            most = f"{limits.bytes >> 20} MB" if left < 0 else f"{limits.rows:,} rows"
            raise BackhaulError(
                f"the result has more than {most}; {_LESS[limits == TABLE]}"
            )
        rows.append(row)
    return rows


_LESS = {
    True: "add a LIMIT, select fewer columns, or use --csv, --json or --jsonl",
    False: "add a LIMIT, select fewer columns, or export a whole table: backhaul export"
    " TABLE",
}


def _bytes_of(value: object) -> int:
    return len(value) if isinstance(value, str | bytes) else _NUMBER_BYTES


def _first(table: str, columns: Sequence[str], key: Sequence[str]) -> str:
    return f"SELECT {_list(columns)} FROM {table} ORDER BY {_list(key)} LIMIT ?"  # noqa: S608 - from PUBLISHED


def _next(table: str, columns: Sequence[str], key: Sequence[str]) -> str:
    # No row values where one column is enough: SQLite would not use the rowid for them.
    if len(key) == 1:
        after = f"{key[0]} > ?"
    else:
        after = f"({_list(key)}) > ({', '.join('?' * len(key))})"
    return (
        f"SELECT {_list(columns)} FROM {table} WHERE {after}"  # noqa: S608 - from PUBLISHED
        f" ORDER BY {_list(key)} LIMIT ?"
    )


def _list(names: Sequence[str]) -> str:
    return ", ".join(names)
