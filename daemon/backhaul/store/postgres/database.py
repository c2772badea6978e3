"""The PostgreSQL store: opens a database, and creates its schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from loguru import logger

from backhaul.errors import DatabaseUnavailable
from backhaul.store.postgres import full_text, schema
from backhaul.store.postgres.connection import Connection, place_of
from backhaul.store.postgres.engine import PostgresEngine, UnfencedEngine
from backhaul.store.postgres.fence import Fence
from backhaul.store.postgres.full_text import PostgresErasure, PostgresSearchIndex
from backhaul.store.postgres.logins import PostgresLogins
from backhaul.store.postgres.operators import OperatorEngine, PostgresRequests
from backhaul.store.postgres.ownership import PostgresOwnership
from backhaul.store.postgres.streams import FoldPlaces, StreamInbox
from backhaul.store.sql.operations import move_marks
from backhaul.store.sql.operations.operators import SqlUsers
from backhaul.store.sql.operations.tokens import SqlTokens
from backhaul.store.sql.operations.webhook_secrets import (
    SqlSealedSecrets,
    SqlWebhookSecrets,
)
from backhaul.store.sql_store import SqlStore

if TYPE_CHECKING:
    from backhaul.core.clock import Clock
    from backhaul.store.ownership import Member


def open_store(url: str, clock: Clock, member: Member | None = None) -> PostgresStore:
    """Bring a database to this version's schema; return its store, not yet started.

    A `member` writes only after it has joined; without one nothing keeps two writers
    apart, which is for tools.

    Raises CorruptData if a newer version made the schema or the database is another
    program's, DatabaseUnavailable if the server does not answer or refuses, and
    ConfigurationError if the database was moved.
    """
    try:
        connection = Connection(url)
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(f"the database cannot be opened: {error}") from None
    try:
        if schema.exists(connection):
            is_member = member is not None
            move_marks.require_usable(connection, place_of(url), to_receive=is_member)
        if waits := schema.create(connection):
            logger.bind(action="database.upgrade_waits").warning("{}", waits)
        if newer := schema.newer(connection):
            logger.bind(action="database.newer").warning(
                "a newer version has upgraded the database ({}); this version still"
                " runs with it, until it is upgraded too",
                ", ".join(newer),
            )
    except psycopg.Error as error:
        raise DatabaseUnavailable(f"the tables cannot be created: {error}") from None
    finally:
        connection.close()
    return PostgresStore(url, clock, member)


class PostgresStore(SqlStore):
    """The store of one database (or schema) of a server."""

    def __init__(self, url: str, clock: Clock, member: Member | None = None) -> None:
        fence = None if member is None else Fence(member, place_of(url))
        self.place = url
        self.engine = engine = PostgresEngine(url, clock, fence)
        places = FoldPlaces(lambda: None if fence is None else fence.folded())
        super().__init__(
            engine,
            engine.writer,
            clock,
            PostgresSearchIndex(engine, clock, places),
            PostgresErasure(engine, clock),
            full_text.find,
        )
        self.inbox = StreamInbox(engine, clock, places)
        free = UnfencedEngine(engine)
        self.webhook_secrets = SqlWebhookSecrets(free)
        self.sealed_secrets = SqlSealedSecrets(engine, free)
        self.users = SqlUsers(OperatorEngine(engine, "users"))
        self.tokens = SqlTokens(OperatorEngine(engine, "api_tokens"))
        self.logins = PostgresLogins(engine)
        if fence is not None:
            self.ownership = PostgresOwnership(url, engine, fence, places)
            self.requests = PostgresRequests(engine, fence.member)

    def start(self) -> None:
        super().start()
        self.engine.receiver.start()

    async def stop(self) -> None:
        """Finish waiting work, and close the connections."""
        await self.engine.receiver.stop()
        await self._writer.stop()
        if isinstance(self.ownership, PostgresOwnership):
            await self.ownership.leave()
        self.engine.close()
