"""Differences between databases: connecting, clocks, invalid text, locks."""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from psycopg.adapt import Loader
from psycopg.pq import Format
from pymysql.constants import FIELD_TYPE
from sqlalchemy import LargeBinary, Text, and_, bindparam, cast, func, or_, text, tuple_
from sqlalchemy.types import NullType

from backhaul_connectors.sql.values import Bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import URL, ColumnElement, Connection

POSTGRES, MYSQL, MARIADB, SQLITE = "postgresql", "mysql", "mariadb", "sqlite"
# now() is local time, in which an hour comes twice.
_SINCE_1970 = "SELECT timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) / 1e6"
CLOCKS = {
    POSTGRES: "SELECT extract(epoch FROM clock_timestamp())",
    MYSQL: _SINCE_1970,
    MARIADB: _SINCE_1970,
    SQLITE: "SELECT (julianday('now') - 2440587.5) * 86400.0",
}
"""Seconds since 1970 by the database's own clock."""
_WINTER_AND_SUMMER = (
    "SELECT time(from_unixtime(1577836800)) != time(from_unixtime(1593561600))"
)
"""Midnight, UTC, of January 1 and of July 1."""
_TEXTS = ("text", "varchar", "bpchar", "name")
_TIMES = ("timestamp", "timestamptz", "date")


def arguments(url: URL, connect_seconds: float, statement_seconds: float) -> Any:
    """Return the driver's arguments besides the URL."""
    family = url.get_backend_name()
    if family == SQLITE:
        return {"timeout": statement_seconds}
    if family == POSTGRES:
        # Detects a vanished peer before the kernel's timeout.
        alive = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
        return {"connect_timeout": int(connect_seconds), **alive}
    patience = int(statement_seconds) + 5
    return {
        "connect_timeout": int(connect_seconds),
        "read_timeout": patience,
        "write_timeout": patience,
    }


def existing(url: URL) -> URL:
    """Return the URL in a form that never creates a new, empty file."""
    if url.get_backend_name() != SQLITE:
        return url
    file = quote(url.database or "")
    return url.set(database=f"file:{file}", query={"uri": "true", "mode": "rw"})


def prepare(family: str, connection: Any, statement_seconds: float) -> None:
    """Limit statements, and mark text that is not UTF-8."""
    milliseconds = int(statement_seconds * 1000)
    if family == SQLITE:
        connection.text_factory = lenient
        return
    if family == POSTGRES:
        _load_leniently(connection)
        connection.autocommit = True
        connection.execute(f"SET statement_timeout = {milliseconds}")
        connection.autocommit = False
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT version()")
        if "mariadb" in str(cursor.fetchone()[0]).lower():
            cursor.execute(f"SET SESSION max_statement_time = {statement_seconds:f}")
        else:
            cursor.execute(f"SET SESSION max_execution_time = {milliseconds}")


def lenient(text: bytes) -> str | Bytes:
    """Return the text, or its bytes if they are not UTF-8."""
    try:
        return bytes(text).decode()
    except UnicodeDecodeError:
        return Bytes(text)


def _load_leniently(connection: Any) -> None:
    """Prevent a single value, such as an infinite date, from breaking a page."""
    for name in _TEXTS:
        _wrap(connection, name, lenient)
    for name in _TIMES:
        _wrap(connection, name, lambda text: bytes(text).decode("utf-8", "replace"))


def _wrap(connection: Any, name: str, otherwise: Callable[[bytes], Any]) -> None:
    oid = connection.adapters.types[name].oid
    usual = connection.adapters.get_loader(oid, Format.TEXT)

    class Lenient(Loader):
        def __init__(self, oid: int, context: Any = None) -> None:
            super().__init__(oid, context)
            self._usual = usual(oid, context).load

        def load(self, data: Any) -> Any:
            try:
                found = self._usual(data)
            except Exception:  # noqa: BLE001 - each kind of value fails in its own way
                return otherwise(bytes(data))
            return (
                found if isinstance(found, str) or name in _TIMES else otherwise(data)
            )

    connection.adapters.register_loader(oid, Lenient)


def bound(family: str, value: Any) -> ColumnElement[Any]:
    """Return a value as a parameter that the database compares in its own type."""
    if isinstance(value, Bytes):
        raw = bindparam(None, bytes(value), type_=LargeBinary(), unique=True)
        if family == POSTGRES:
            return func.convert_from(raw, "SQL_ASCII")
        return cast(raw, Text())
    return bindparam(None, value, type_=NullType(), unique=True)


def later(
    family: str, at: ColumnElement[Any], id_: ColumnElement[Any], place: Any
) -> ColumnElement[bool]:
    """Return the condition for rows after a position, in a form that uses an index."""
    last_at, last_id = bound(family, place.at), bound(family, place.id)
    if family in (POSTGRES, SQLITE):
        return tuple_(at, id_) > tuple_(last_at, last_id)
    return and_(at >= last_at, or_(at > last_at, id_ > last_id))


def is_shown_in_summer_time(family: str, connection: Connection, kind: Any) -> bool:
    """Tell whether moments in a column of that kind, as the driver calls it, are shown
    in a zone that sets its clock back: two of them then look like one."""
    if family not in (MYSQL, MARIADB) or kind != FIELD_TYPE.TIMESTAMP:
        return False
    return bool(connection.execute(text(_WINTER_AND_SUMMER)).scalar_one())


def lock_number(text: str) -> int:
    """Return a 64-bit number for a lock with a text as its name."""
    digest = hashlib.sha256(text.encode()).digest()[:8]
    return int.from_bytes(digest, "big", signed=True)


def stop(family: str, connection: Any) -> None:
    """Cancel the statement that runs in another thread. Never raises."""
    with contextlib.suppress(Exception):
        if family == SQLITE:
            connection.interrupt()
        elif family == POSTGRES:
            _shut(os.dup(connection.pgconn.socket))
        else:
            connection._sock.shutdown(socket.SHUT_RDWR)


def _shut(descriptor: int) -> None:
    with socket.socket(fileno=descriptor) as held:
        held.shutdown(socket.SHUT_RDWR)
