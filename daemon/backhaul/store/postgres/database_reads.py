"""A PostgreSQL database for programs beside the daemon."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, NoReturn

import psycopg

from backhaul.core.clock import SystemClock, to_text
from backhaul.errors import AlreadyRunning, BackhaulError, DatabaseUnavailable
from backhaul.store import database_at
from backhaul.store.database import Database, StoredWebhook
from backhaul.store.export_and_query import FILE, SqlConsole
from backhaul.store.postgres import durability, full_text, schema
from backhaul.store.postgres.connection import (
    LOCK_MILLISECONDS,
    Connection,
    place_of,
)
from backhaul.store.postgres.engine import SIZE
from backhaul.store.postgres.ownership import known_members
from backhaul.store.sql.commands.reference_tags import mark_restored
from backhaul.store.sql.inbox.export import SqlInboxExport
from backhaul.store.sql.mirror.compare_mirrors import differences
from backhaul.store.sql.operations import move_marks
from backhaul.store.sql.operations.alerts import of_other_stores
from backhaul.store.sql.read_models import database_reads
from backhaul.store.sql.read_models.database_reads import SqlTables
from backhaul.store.sql.read_models.reader import SqlReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.errors import Finding
    from backhaul.store import Place, Store
    from backhaul.store.database import Manifest, Restored
    from backhaul.store.export_and_query import InboxExport, QueryLimits, QueryResult
    from backhaul.store.mirror import Difference
    from backhaul.store.operations import OrphanedWork
    from backhaul.store.ownership import KnownMember
    from backhaul.store.read_models import Reader

_TABLES = """
    SELECT table_name FROM information_schema.tables
    WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'
    ORDER BY table_name
"""
_LOCK_MEMBERS = "SELECT 1 FROM members FOR UPDATE"
_END_OWNERS = (
    "UPDATE owners SET member = NULL, epoch = epoch + 1",
    "UPDATE members SET fenced_at = clock_timestamp(), stores = 0"
    " WHERE fenced_at IS NULL",
)
_DDL = """
    SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema()
    ORDER BY indexname
"""


class PostgresTables(SqlTables, SqlConsole):
    """Reads whole tables; SQL of an operator goes to `psql` instead."""

    def query(self, sql: str, limits: QueryLimits = FILE) -> QueryResult:
        raise BackhaulError(
            "backhaul query works on SQLite only; use psql with a role that may only"
            " read, and see docs/mirror.md for the tables"
        )


class PostgresDatabase(Database):
    """One database of a server, which backs up and restores it by its own tools."""

    def __init__(self, url: str) -> None:
        self._url = url

    @contextmanager
    def reader(self) -> Iterator[Reader]:
        with self.connection() as connection:
            yield SqlReader(connection, full_text.find, to_text(SystemClock().now()))

    @contextmanager
    def console(self, clock: Clock) -> Iterator[SqlConsole]:
        with self.connection() as connection:
            yield PostgresTables(connection)

    @contextmanager
    def inbox_export(self) -> Iterator[InboxExport]:
        with self.connection() as connection:
            yield SqlInboxExport(connection)

    def exists(self) -> bool:
        try:
            return not self.pending_migrations()
        except BackhaulError:
            return True  # whoever reads it says why it cannot be read

    def sizes(self) -> dict[str, int]:
        with self.connection() as connection:
            ((size,),) = connection.execute(SIZE).fetchall()
        return {"database": size}

    @contextmanager
    def readable(self) -> Iterator[Store]:
        from backhaul.store.postgres.database import PostgresStore

        store = PostgresStore(self._url, SystemClock())
        try:
            yield store
        finally:
            store.engine.close()

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        try:
            connection = Connection(
                self._url, read_only=True, lock_milliseconds=LOCK_MILLISECONDS
            )
            with closing(connection):
                yield connection
        except psycopg.errors.UndefinedTable:
            raise BackhaulError(
                "the database has no Backhaul tables, or its schema is older than this"
                " version. Start the daemon, or run: backhaul migrate"
            ) from None
        except psycopg.Error as error:
            raise BackhaulError(f"the database cannot be read: {error}") from error

    def engine_version(self) -> str:
        with self.connection() as connection:
            ((version,),) = connection.execute("SHOW server_version").fetchall()
        return f"PostgreSQL {version}"

    def differences(self, other: Place) -> Iterator[Difference]:
        with self.connection() as left, database_at(other).connection() as right:
            yield from differences(left, right)

    def problem(self) -> str:
        return ""

    def journal_mode(self) -> str:
        return "wal"

    def pending_migrations(self) -> list[str]:
        with self.connection() as connection:
            return schema.pending(connection)

    def hold_for_audit(self, stores: Iterable[str], clock: Clock) -> None:
        now = to_text(clock.now())
        with self._writing() as connection:
            move_marks.require_usable(connection, place_of(self._url))
            connection.execute("BEGIN")
            # No member writes before the commit.
            connection.execute(_LOCK_MEMBERS)
            for member in known_members(connection):
                if member.is_alive:
                    raise AlreadyRunning(
                        f"a daemon on {member.host} uses this database; stop every"
                        " daemon that is configured with it, then run the command again"
                    )
            for statement in _END_OWNERS:  # a former owner is superseded
                connection.execute(statement)
            for store in stores:
                mark_restored(connection, store, now)
            connection.execute("COMMIT")

    def finish_upgrade(self) -> str:
        with self._writing() as connection:
            return schema.create(connection)

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        try:
            with closing(Connection(self._url)) as connection:
                yield connection
        except psycopg.Error as error:
            raise DatabaseUnavailable(
                f"the database cannot be written: {error}"
            ) from None

    def faults(self, *, deep: bool = False) -> list[str]:
        return []  # the server checks its pages itself

    def members(self) -> list[KnownMember]:
        with self.connection() as connection:
            return known_members(connection)

    def durability(self, *, quorum: bool) -> tuple[Finding, ...]:
        with self.connection() as connection:
            return durability.findings(connection, quorum=quorum)

    def archiving(self) -> tuple[list[str], list[Finding]]:
        with self.connection() as connection:
            return durability.archiving(connection)

    def schema(self) -> list[str]:
        with self.connection() as connection:
            return [str(row[0]) for row in connection.execute(_DDL)]

    def row_counts(self) -> dict[str, int]:
        with self.connection() as connection:
            names = [row[0] for row in connection.execute(_TABLES)]
            counts = {}
            for name in names:
                query = f'SELECT count(*) FROM "{name}"'  # noqa: S608 - from the catalog
                ((counts[name],),) = connection.execute(query).fetchall()
            return counts

    def applied_kinds(self, store: str) -> set[str]:
        with self.connection() as connection:
            return database_reads.applied_kinds(connection, store)

    def last_event(self) -> int:
        with self.connection() as connection:
            return database_reads.last_event(connection)

    def find_test_webhook(
        self, after: int, store: str, names: Sequence[str]
    ) -> StoredWebhook | None:
        with self.connection() as connection:
            found = database_reads.find_test_webhook(connection, after, store, names)
        return None if found is None else StoredWebhook(*found)

    def orphaned_work(self, stores: Iterable[str]) -> tuple[OrphanedWork, ...]:
        try:
            with self.connection() as connection:
                return of_other_stores(connection, stores)
        except BackhaulError:
            return ()

    def back_up(
        self,
        target: Path,
        clock: Clock,
        ended: Callable[[], bool] = bool,
    ) -> Manifest:
        _of_the_server()

    def restore(self, backup: Path, stores: Iterable[str], clock: Clock) -> Restored:
        _of_the_server()


def _of_the_server() -> NoReturn:
    raise BackhaulError(
        "PostgreSQL is backed up and restored by its own tools (pg_basebackup,"
        " pgBackRest, WAL-G, or those of its provider), not by Backhaul"
    )
