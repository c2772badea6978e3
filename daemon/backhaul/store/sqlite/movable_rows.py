"""The tables that a move copies, and a check that rows have the declared values.

SQLite stores any value in any column, and a damaged file shows other values than were
written. PostgreSQL stores declared types only. A row that it would have to change is
refused: to change or leave out a row silently would be worse than no move.
"""

from __future__ import annotations

import re
from contextlib import closing
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from backhaul.errors import BackhaulError, CorruptData
from backhaul.store.moving import Column, Table
from backhaul.store.sqlite.connections import Connection, DamagedText
from backhaul.store.sqlite.opening import create_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from backhaul.store.moving import Row

_NAMES = """
    SELECT m.name FROM sqlite_master m JOIN pragma_table_list(m.name) l
    WHERE m.type = 'table' AND l.type = 'table' AND substr(m.name, 1, 1) != '_'
    ORDER BY m.rowid
"""
_COLUMNS = """
    SELECT name, type, "notnull", pk FROM pragma_table_info(?) ORDER BY cid
"""


JSON_COLUMNS = frozenset({"payload", "document", "evidence", "computation", "read"})
"""Columns whose members the common text reads: PostgreSQL ends a query at damage."""
_TYPES = {"INTEGER": int, "TEXT": str, "BLOB": bytes, "REAL": float}
_WORDS = {
    int: "a whole number",
    float: "a fraction",
    bytes: "bytes",
    type(None): "no value",
}
_NEEDED = {
    "INTEGER": "a whole number",
    "TEXT": "text",
    "BLOB": "bytes",
    "REAL": "a fraction",
    "JSON": "JSON",
}
# PostgreSQL stores a fraction of any size in JSON.
_DECODE = msgspec.json.Decoder(float_hook=float).decode
# Every escape is matched, so that an escaped backslash begins no other escape.
_ESCAPE = re.compile(r"\\u0000|\\.", re.DOTALL)


@cache
def tables() -> tuple[Table, ...]:
    """Return all tables, each after those that it refers to.

    The tables of the full-text index and of the migrations are SQLite's own.
    """
    with closing(Connection(":memory:", isolation_level=None)) as connection:
        create_schema(connection)
        names = [str(name) for (name,) in connection.execute(_NAMES)]
        return tuple(
            Table(
                name,
                tuple(
                    Column(column, kind, not (not_null or key), bool(key))
                    for column, kind, not_null, key in connection.execute(
                        _COLUMNS, (name,)
                    )
                ),
            )
            for name in names
        )


class RowCheck:
    """Checks the rows of one table."""

    def __init__(self, path: Path, table: Table) -> None:
        self._path = path
        self._table = table
        self._right: set[tuple[type, ...]] = set()
        """Types of values that were right before: most rows take one look-up."""
        self._texts = _places(table, lambda column: column.kind == "TEXT")
        self._json = _places(table, is_json)

    def checked(self, row: Row) -> Row:
        """Return the row as both engines have it. Raises CorruptData, BackhaulError.

        Text in a column of bytes becomes its UTF-8 bytes.
        """
        types = tuple(map(type, row))
        if types not in self._right:
            row = self._converted(row)
            if tuple(map(type, row)) == types:
                self._right.add(types)
        for place in self._texts:
            if (text := row[place]) is not None and "\0" in text:
                raise self._with_nul(row, place)
        for place in self._json:
            if (text := row[place]) is not None:
                self._require_json(row, place, text)
        return row

    def _converted(self, row: Row) -> Row:
        return tuple(
            self._value(row, place, column)
            for place, column in enumerate(self._table.columns)
        )

    def _value(self, row: Row, place: int, column: Column) -> Any:
        value = row[place]
        if value is None and column.is_nullable:
            return None
        if column.kind == "BLOB" and type(value) is str:
            return value.encode()
        if type(value) is not _TYPES[column.kind]:
            found = _WORDS.get(type(value), "text")
            if isinstance(value, DamagedText):
                found = "text that is not UTF-8"
            raise self._damaged(row, place, f"has {found} instead of", column.kind)
        return value

    def _require_json(self, row: Row, place: int, text: str) -> None:
        try:
            _DECODE(text)
        except (msgspec.DecodeError, RecursionError):
            raise self._damaged(row, place, "has other text than", "JSON") from None
        if "\\u0000" in text:
            escapes = (found[0] for found in _ESCAPE.finditer(text))
            if r"\u0000" in escapes:
                raise self._with_nul(row, place)

    def _damaged(self, row: Row, place: int, what: str, needed: str) -> CorruptData:
        return CorruptData(
            f"{self._named(row, place)} {what} {_NEEDED[needed]}, so the row is"
            " damaged; nothing was moved. Restore a backup from before the damage, or"
            " repair the row with sqlite3 while the daemon is stopped"
        )

    def _with_nul(self, row: Row, place: int) -> BackhaulError:
        return BackhaulError(
            f"{self._named(row, place)} has a NUL character, which PostgreSQL cannot"
            " store; nothing was moved. Remove the character where the text comes from,"
            " or from the row with sqlite3 while the daemon is stopped"
        )

    def _named(self, row: Row, place: int) -> str:
        """Return the name of a value: file, table, key and column."""
        columns = self._table.columns
        key = ", ".join(
            f"{column.name} {value!r}"
            for column, value in zip(columns, row, strict=True)
            if column.is_key
        )
        table, column = self._table.name, columns[place].name
        return f"{self._path}: table {table}, row with {key}: the column {column}"


def with_bytes(table: Table, rows: Iterable[Row]) -> Iterator[Row]:
    """Yield rows with UTF-8 bytes in place of text in columns of bytes."""
    places = _places(table, lambda column: column.kind == "BLOB")
    for row in rows:
        if any(type(row[place]) is str for place in places):
            values = list(row)
            for place in places:
                if type(values[place]) is str:
                    values[place] = values[place].encode()
            row = tuple(values)
        yield row


def is_json(column: Column) -> bool:
    """Return True if the common text reads members of a column."""
    return column.kind == "TEXT" and column.name in JSON_COLUMNS


def _places(table: Table, is_wanted: Callable[[Column], bool]) -> list[int]:
    return [place for place, each in enumerate(table.columns) if is_wanted(each)]
