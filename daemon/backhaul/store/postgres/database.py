"""The PostgreSQL store: opens a database, and creates its schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from backhaul.errors import DatabaseUnavailable
from backhaul.store.postgres import full_text, schema
from backhaul.store.postgres.connection import Connection
from backhaul.store.postgres.engine import PostgresEngine
from backhaul.store.postgres.full_text import PostgresErasure, PostgresSearchIndex
from backhaul.store.sql_store import SqlStore

if TYPE_CHECKING:
    from backhaul.core.clock import Clock


def open_store(url: str, clock: Clock) -> PostgresStore:
    """Bring a database to this version's schema; return its store, not yet started.

    Raises CorruptData if a newer version made the schema or the database is another
    program's, and DatabaseUnavailable if the server does not answer or refuses.
    """
    try:
        connection = Connection(url)
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(f"the database cannot be opened: {error}") from None
    try:
        schema.create(connection)
    except psycopg.Error as error:
        raise DatabaseUnavailable(f"the tables cannot be created: {error}") from None
    finally:
        connection.close()
    return PostgresStore(url, clock)


class PostgresStore(SqlStore):
    """The store of one database (or schema) of a server."""

    def __init__(self, url: str, clock: Clock) -> None:
        self.place = url
        self.engine = engine = PostgresEngine(url, clock)
        super().__init__(
            engine,
            engine.writer,
            clock,
            PostgresSearchIndex(engine, clock),
            PostgresErasure(engine, clock),
            full_text.find,
        )

    async def stop(self) -> None:
        """Finish waiting work, and close the connections."""
        await self._writer.stop()
        self.engine.close()
