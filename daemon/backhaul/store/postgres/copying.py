"""Copies rows into a table and runs a query after it, in two round trips.

psycopg sends a COPY as a message of its own, so that a transaction with one takes four
round trips.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, TypeAlias

from psycopg import generators, pq
from psycopg.errors import error_from_result

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from psycopg.abc import PQGen
    from psycopg.pq.abc import PGconn, PGresult

Value: TypeAlias = int | str | bytes | None
_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END = b"\xff\xff"
_NULL = b"\xff\xff\xff\xff"
_COUNT, _SIZE, _BIGINT = struct.Struct("!h"), struct.Struct("!i"), struct.Struct("!iq")
_PART_BYTES = 131_072
"""What is handed to libpq at once. psycopg warns that libpq may never take a part that
is much larger."""


def packed(rows: Iterable[tuple[Value, ...]]) -> Iterator[bytes]:
    """Yield rows in the binary format of COPY, as PostgreSQL's manual describes it.

    An int is for a column of type bigint, a str for text, and bytes for bytea. All but
    the last part have at least `_PART_BYTES`.
    """
    pieces, size = [_SIGNATURE], 0
    for row in rows:
        for piece in _pieces(row):
            pieces.append(piece)
            size += len(piece)
        if size >= _PART_BYTES:
            yield b"".join(pieces)
            pieces, size = [], 0
    yield b"".join((*pieces, _END))


def _pieces(row: tuple[Value, ...]) -> Iterator[bytes]:
    yield _COUNT.pack(len(row))
    for value in row:
        if value is None:
            yield _NULL
        elif isinstance(value, int):
            yield _BIGINT.pack(_BIGINT.size - _SIZE.size, value)
        else:
            content = value.encode() if isinstance(value, str) else value
            yield _SIZE.pack(len(content))
            yield content


def run(
    connection: PGconn, statements: bytes, parts: Iterable[bytes]
) -> PQGen[list[PGresult]]:
    """Run statements, one of them `COPY … FROM STDIN` with what `parts` has.

    Returns the results from that of COPY on. Raises psycopg.Error.
    """
    connection.send_query(statements)
    _require((yield from generators.execute(connection)), pq.ExecStatus.COPY_IN)
    for part in parts:
        for start in range(0, len(part), _PART_BYTES):
            chunk = part[start : start + _PART_BYTES]
            yield from generators.copy_to(connection, chunk)
    while connection.put_copy_end() == 0:
        yield from generators.send(connection)
    results = yield from generators.execute(connection)
    return _require(results, pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)


def _require(results: list[PGresult], *expected: int) -> list[PGresult]:
    """Raise the server's error if the last result is another one than expected."""
    if results[-1].status not in expected:
        raise error_from_result(results[-1])
    return results
