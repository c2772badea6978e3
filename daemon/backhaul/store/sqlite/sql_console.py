"""Runs an operator's SQL, and reads whole tables page by page; it cannot write."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from backhaul.errors import BackhaulError
from backhaul.store.read_models import (
    FILE,
    LONGEST_SECONDS,
    TABLE,
    QueryResult,
    SqlConsole,
)
from backhaul.store.sql.read_models.tables import PUBLISHED, SqlTables, Values
from backhaul.store.sqlite.sql_guard import LIMITS, Guard, refusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backhaul.core.clock import Clock
    from backhaul.store.read_models import QueryLimits


_STEPS = 10_000
"""Steps of SQLite's machine between two checks of the clock: below a millisecond."""
_NUMBER_BYTES = 8
MEMORY_BYTES = 256 << 20
"""The memory that SQLite can use in the process of a query."""


class SqliteConsole(SqlTables, SqlConsole):
    """Runs SQL on a connection of its own, beside a running daemon."""

    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        super().__init__(connection)
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
