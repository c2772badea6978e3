"""Copies rows into a table and runs a query behind them, in two round trips.

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
_CHUNK_BYTES = 131_072
"""What libpq gets at once: it would keep all that the server has not read yet."""


def packed(rows: Iterable[tuple[Value, ...]]) -> bytes:
    """Return rows in the binary format of COPY, as PostgreSQL's manual describes it.

    An int is for a column of type bigint, a str for text, and bytes for bytea.
    """
    return b"".join(_pieces(rows))


def _pieces(rows: Iterable[tuple[Value, ...]]) -> Iterator[bytes]:
    count, size, bigint = struct.Struct("!h"), struct.Struct("!i"), struct.Struct("!iq")
    yield _SIGNATURE
    for row in rows:
        yield count.pack(len(row))
        for value in row:
            if value is None:
                yield _NULL
            elif isinstance(value, int):
                yield bigint.pack(bigint.size - size.size, value)
            else:
                content = value.encode() if isinstance(value, str) else value
                yield size.pack(len(content))
                yield content
    yield _END


def run(connection: PGconn, statements: bytes, data: bytes) -> PQGen[PGresult]:
    """Run statements, one of them `COPY … FROM STDIN`; return the last one's result.

    They are one transaction unless there is one already. Raises psycopg.Error.
    """
    connection.send_query(statements)
    results = yield from generators.execute(connection)
    _last(results, pq.ExecStatus.COPY_IN)
    for start in range(0, len(data), _CHUNK_BYTES):
        chunk = data[start : start + _CHUNK_BYTES]
        yield from generators.copy_to(connection, chunk)
    while connection.put_copy_end() == 0:
        yield from generators.send(connection)
    results = yield from generators.execute(connection)
    return _last(results, pq.ExecStatus.TUPLES_OK)


def _last(results: list[PGresult], expected: int) -> PGresult:
    """Return the last result. Raises the server's error if it is another one."""
    if results[-1].status != expected:
        raise error_from_result(results[-1])
    return results[-1]
