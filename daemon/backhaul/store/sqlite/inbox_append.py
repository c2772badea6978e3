"""Appends rows to the inbox: many rows in one statement, with consecutive ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.identity import digest_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from backhaul.store.sqlite.writer import Row

_COLUMNS = "store, kind, topic, received_at, headers, body, digest"
_BODY = 5
CHUNK_ROWS = 32
CHUNK_BYTES = 256 << 10
"""The most rows (a power of two) and bytes of bodies that one statement inserts."""


def append_batch(connection: sqlite3.Connection, rows: Sequence[Row]) -> list[int]:
    """Insert rows and return their ids.

    A statement inserts many rows, because the interpreter lock changes hands once for
    each statement. Beside a busy event loop that costs more than the insert.
    """
    ids: list[int] = []
    for chunk in _chunks(rows):
        ids += _insert(connection, chunk)
    return ids


def _chunks(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Yield the rows in order, a power of two at a time; a large body comes alone.

    A cached statement keeps a copy of its last values, and each number of rows has a
    statement of its own. Few different numbers mean few copies.
    """
    start = 0
    while left := len(rows) - start:
        number = min(CHUNK_ROWS, 1 << (left.bit_length() - 1))
        while number > 1 and _bytes(rows[start : start + number]) > CHUNK_BYTES:
            number //= 2
        yield rows[start : start + number]
        start += number


def _bytes(rows: Sequence[Row]) -> int:
    return sum(len(row[_BODY]) for row in rows)


def _insert(connection: sqlite3.Connection, rows: Sequence[Row]) -> list[int]:
    places = ",".join(["(?,?,?,?,?,?,?)"] * len(rows))
    values = [value for row in rows for value in (*row, digest_of((row[_BODY],)))]
    cursor = connection.execute(
        f"INSERT INTO inbox ({_COLUMNS}) VALUES {places}",  # noqa: S608 - constants
        values,
    )
    # With one writer and an INTEGER PRIMARY KEY the ids are consecutive.
    last = cursor.lastrowid or 0
    return list(range(last - len(rows) + 1, last + 1))
