"""A database connection in its own thread, and checks of its tables."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import NullPool, column, create_engine, event, inspect, table
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.sql import quoted_name

from backhaul_connectors.sql.dialects import SQLITE, arguments, existing, prepare, stop
from backhaul_sdk import CheckFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sqlalchemy import ColumnClause, Connection, Engine, TableClause

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
