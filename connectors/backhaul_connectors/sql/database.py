"""A database connection in its own thread, and what differs between databases."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from sqlalchemy import (
    LargeBinary,
    NullPool,
    Text,
    and_,
    bindparam,
    cast,
    column,
    create_engine,
    event,
    func,
    inspect,
    or_,
    table,
    text,
    tuple_,
)
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.sql import quoted_name
from sqlalchemy.types import NullType

from backhaul_connectors.sql.values import Bytes
from backhaul_sdk import CheckFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sqlalchemy import (
        URL,
        ColumnClause,
        ColumnElement,
        Connection,
        Engine,
        TableClause,
    )

    from backhaul_connectors.sql.settings import Settings


T = TypeVar("T")


class Database:
    """Runs blocking work in one thread, on at most one connection."""

    def __init__(self, instance: str, settings: Settings) -> None:
        self._instance = instance
        self._settings = settings
        url = settings.address()
        self.family = url.get_backend_name()
        self.shown = url.set(drivername=self.family).render_as_string()
        self._patience = settings.connect_seconds + settings.statement_seconds
        self._engine: Engine | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._connection: Any = None

    async def open(self) -> None:
        """Start the thread; nothing connects yet."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, f"sql-{self._instance}")
            self._engine = self._new_engine()

    async def close(self) -> None:
        """Close the connection."""
        thread, engine = self._thread, self._engine
        self._thread = self._engine = None
        if thread is not None and engine is not None:
            thread.submit(engine.dispose)
            # Running work has ended or was cancelled: this takes no time.
            thread.shutdown(wait=True)

    async def run(self, work: Callable[[Engine], T]) -> T:
        """Return the result of `work` in the thread; a cancellation waits for its end.

        Raises CheckFailed when the database cannot be reached, is lost or too slow, and
        SQLAlchemyError for the database's errors.
        """
        if self._thread is None or self._engine is None:
            raise CheckFailed(f"the database {self.shown} is closed")
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._thread, partial(work, self._engine))
        try:
            async with asyncio.timeout(self._patience):
                return await asyncio.shield(running)
        except TimeoutError:
            await self._stop(running)
            if running.exception() is None:
                return running.result()
            raise CheckFailed(self._says("it does not answer")) from None
        except asyncio.CancelledError:
            await self._stop(running)
            raise
        except SQLAlchemyError as error:
            if self.is_lost(error):
                raise CheckFailed(self._says(words(error))) from None
            raise

    def is_lost(self, error: SQLAlchemyError) -> bool:
        """Return True if the connection failed, rather than the statement."""
        if not isinstance(error, DBAPIError):
            return True
        return error.connection_invalidated or error.statement is None

    def _says(self, reason: str) -> str:
        return f"the database {self.shown} cannot be used: {reason}"

    async def _stop(self, running: asyncio.Future[Any]) -> None:
        if not running.done():
            stop(self.family, self._connection)
        await asyncio.wait([running])
        if not running.cancelled():
            running.exception()

    def _new_engine(self) -> Engine:
        settings = self._settings
        url = settings.address()
        engine = create_engine(
            existing(url),
            connect_args=arguments(
                url, settings.connect_seconds, settings.statement_seconds
            ),
            hide_parameters=True,
            **_pooling(self.family),
        )

        @event.listens_for(engine, "connect")
        def _connected(connection: Any, _record: object) -> None:
            self._connection = connection
            prepare(self.family, connection, settings.statement_seconds)

        return engine


def _pooling(family: str) -> dict[str, Any]:
    """A server's connection is kept and tested before use; a file is reopened.

    Otherwise a file that was moved away would be read further.
    """
    if family == SQLITE:
        return {"poolclass": NullPool}
    return {"pool_size": 1, "max_overflow": 0, "pool_pre_ping": True}


def words(error: SQLAlchemyError) -> str:
    """Return the database's error text, without the statement and its values."""
    orig = error.orig if isinstance(error, DBAPIError) else error
    primary = getattr(getattr(orig, "diag", None), "message_primary", None)
    return primary or " ".join(str(orig).split()) or type(orig).__name__


def quoted_column(name: str) -> ColumnClause[Any]:
    return column(quoted_name(name, quote=True))


def table_of(name: str, columns: Iterable[str] = ()) -> TableClause:
    """Return the table called `name` or `schema.name`."""
    schema, own = split(name)
    quoted = quoted_name(own, quote=True)
    found = tuple(map(quoted_column, columns))
    if schema is None:
        return table(quoted, *found)
    return table(quoted, *found, schema=quoted_name(schema, quote=True))


def split(name: str) -> tuple[str | None, str]:
    """Return schema and table."""
    schema, _, own = name.rpartition(".")
    return schema or None, own


def lack(connection: Connection, name: str, columns: Iterable[str]) -> str:
    """Return the missing table or column; empty if there is none."""
    schema, own = split(name)
    found = inspect(connection)
    if own not in (*found.get_table_names(schema), *found.get_view_names(schema)):
        return f"there is no table {name}"
    there = [each["name"] for each in found.get_columns(own, schema)]
    if missing := [each for each in columns if each not in there]:
        has = ", ".join(there)
        return f"table {name} has no column {missing[0]}; it has: {has}"
    return ""


def is_unique(connection: Connection, name: str, key: str) -> bool:
    """Return True if the table has a unique index on the column."""
    schema, own = split(name)
    found = inspect(connection)
    unique: list[object] = [
        each["column_names"]
        for each in found.get_indexes(own, schema)
        if each["unique"]
    ]
    unique += [
        each["column_names"] for each in found.get_unique_constraints(own, schema)
    ]
    unique.append(found.get_pk_constraint(own, schema)["constrained_columns"])
    return [key] in unique


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
    # An extra: only who reads PostgreSQL has it.
    from psycopg.adapt import Loader
    from psycopg.pq import Format

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
    if family not in (MYSQL, MARIADB):
        return False
    from pymysql.constants import FIELD_TYPE  # the driver is an extra

    if kind != FIELD_TYPE.TIMESTAMP:
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
