"""What a person asks in SQL, and whole tables page by page; nothing here can write."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backhaul.errors import BackhaulError
from backhaul.store.sqlite import copies
from backhaul.store.sqlite.published import INTERNAL, PUBLISHED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from backhaul.core.clock import Clock

LONGEST_SECONDS = 5.0
"""A read of any length keeps the write-ahead log from being taken up."""
MOST_ROWS = 100_000
PAGE_ROWS = 500
_STEPS = 10_000
"""Steps of SQLite's machine between two looks at the clock: below a millisecond."""

Values = tuple[Any, ...]


class Answer(Struct, frozen=True):
    """What a query found: names of the columns, and the rows."""

    columns: tuple[str, ...]
    rows: list[Values]


class Asker:
    """Reads on a connection of its own, beside a running daemon.

    Raises CorruptData where the file is damaged.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._clock = clock
        self._connection = copies.open_beside(path)
        self._connection.row_factory = None
        self._connection.execute("PRAGMA query_only=ON")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def ask(self, sql: str) -> Answer:
        """Run one statement that reads. Raises BackhaulError with what is wrong."""
        with self._limited():
            try:
                cursor = self._connection.execute(sql)
                rows = cursor.fetchmany(MOST_ROWS + 1)
            except (sqlite3.Error, sqlite3.Warning) as error:
                raise BackhaulError(self._why_not(error)) from None
            columns = tuple(entry[0] for entry in cursor.description or ())
            cursor.close()
        if len(rows) > MOST_ROWS:
            raise BackhaulError(
                f"more than {MOST_ROWS:,} rows; say LIMIT, or take a whole table with: "
                "backhaul export TABLE"
            )
        return Answer(columns, rows)

    def columns(self, table: str) -> tuple[str, ...]:
        """Return the published columns of a table or view, and refuse any other."""
        if table not in PUBLISHED:
            raise BackhaulError(
                f"there is no table {table!r} to export; there are: "
                + ", ".join(PUBLISHED)
            )
        found = self._connection.execute(f"SELECT * FROM {table} LIMIT 0")  # noqa: S608 - one of ours
        names = (entry[0] for entry in found.description)
        return tuple(name for name in names if name not in INTERNAL)

    def pages(self, table: str) -> Iterator[list[Values]]:
        """Yield all rows in order of their key, each page a read of its own.

        So memory stays small, and no read lasts; what changes meanwhile is shown as it
        is when its page comes.
        """
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
        try:
            yield
        finally:
            self._connection.set_progress_handler(None, 0)

    def _why_not(self, error: sqlite3.Error | sqlite3.Warning) -> str:
        text = str(error)
        if text == "interrupted":
            return (
                f"stopped after {LONGEST_SECONDS:.0f} s, so that the daemon is not held"
                " up; ask for less, or see docs/mirror.md for what is quick"
            )
        if "readonly" in text:
            return "query only reads: the daemon alone writes to its database"
        if "one statement" in text:
            return "query takes one statement at a time"
        if text.startswith("no such table"):
            return f"{text}; there are: {', '.join(PUBLISHED)}"
        return f"SQLite says: {text}"


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
