"""A PostgreSQL database as the source or the target of a move to the other engine.

As a target it is one transaction until the copy was compared: a move that ends before
leaves nothing behind.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from math import inf
from typing import TYPE_CHECKING

import psycopg

from backhaul.errors import AlreadyRunning, BackhaulError, DatabaseUnavailable
from backhaul.store.postgres import schema
from backhaul.store.postgres.connection import (
    CommitUnknown,
    Connection,
    place_of,
    require_valid,
    without_password,
)
from backhaul.store.postgres.ownership import known_members
from backhaul.store.sql.inbox.fold import folded_to
from backhaul.store.sql.operations import move_marks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from backhaul.store.moving import Mark, Row, Table


OLDEST = 15
_SHOWN = 3
_SERVER = """
    SELECT current_setting('server_version_num')::int / 10000,
           current_setting('server_encoding'),
           pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean,
           current_schema(), current_user,
           coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)
"""
# What an extension made, such as its views, belongs to the extension.
_RELATIONS = """
    SELECT c.relname FROM pg_class c
    WHERE c.relnamespace = current_schema()::regnamespace
      AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
      AND NOT EXISTS (SELECT 1 FROM pg_depend d
        WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
    ORDER BY c.relkind = 'S', c.relname
"""


def require_suitable(connection: Connection, place: str) -> None:
    """Refuse a server or schema that Backhaul cannot use. Raises BackhaulError."""
    ((version, encoding, is_read_only, schema, user, may_create),) = connection.execute(
        _SERVER
    ).fetchall()
    if version < OLDEST:
        raise BackhaulError(
            f"{place}: this is PostgreSQL {version}, and Backhaul needs {OLDEST} or"
            " newer; upgrade the server, or use another one"
        )
    if encoding != "UTF8":
        raise BackhaulError(
            f"{place}: the encoding of this database is {encoding}; create one with"
            " UTF8: createdb --encoding UTF8 --template template0 NAME"
        )
    if is_read_only:
        raise BackhaulError(
            f"{place}: this database can only be read; name the primary server, and a"
            " user whose default_transaction_read_only is off"
        )
    if schema is None:
        raise BackhaulError(
            f"{place}: the user {user} has no schema there; create one:"
            f" CREATE SCHEMA AUTHORIZATION {user}"
        )
    if not may_create:
        raise BackhaulError(
            f"{place}: the user {user} is not allowed to create tables; as the owner of"
            f" the database: GRANT USAGE, CREATE ON SCHEMA {schema} TO {user}"
        )


def require_empty(connection: Connection, place: str) -> None:
    """Refuse a schema with anything in it. Raises BackhaulError."""
    names = [str(name) for (name,) in connection.execute(_RELATIONS)]
    if names:
        raise BackhaulError(
            f"{place}: this database is not empty: it has {_listed(names)}; a move"
            " needs an empty one, so create another: createdb --encoding UTF8 NAME"
        )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


_TYPES = {"INTEGER": "int8", "TEXT": "text", "BLOB": "bytea", "REAL": "float8"}
LOCK_SECONDS = 10
_NOT_STORABLE = (
    psycopg.DataError,
    psycopg.IntegrityError,
    psycopg.errors.ProgramLimitExceeded,
)
# An idle transaction is not a fault: meanwhile the other engine builds its indexes.
_WITHOUT_LIMITS = """
    SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0
"""
# All events that are moved belong to one stream, which ends where the file's fold was.
_FOLDED = "UPDATE streams SET folded_to = :id WHERE id = 0"
# A file has one fold cursor: an event behind it must not be folded, nor one before it
# be left out.
_OUT_OF_ORDER = """
    SELECT count(*) FROM inbox i JOIN streams s ON s.id = i.stream
    WHERE i.id > s.folded_to AND i.id < (SELECT max(id) FROM event_outcomes)
"""
_INDEXES = """
    SELECT c.oid::regclass::text, pg_get_indexdef(c.oid)
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE c.relnamespace = current_schema()::regnamespace
      AND NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = c.oid)
"""
_IDENTITIES = """
    SELECT table_name, column_name FROM information_schema.columns
    WHERE table_schema = current_schema() AND is_identity = 'YES'
"""
_REFUSE_WRITES = """
    CREATE FUNCTION refuse_writes() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'this database was moved to %', TG_ARGV[0]; END $$
"""


class PostgresSource:
    """A database in which nothing can be written until its move ends."""

    def __init__(
        self, url: str, tables: Sequence[Table], connection: Connection
    ) -> None:
        self._connection = connection
        self.place = place_of(url)
        self.tables = tables
        _require_ours(connection, self.place)
        _require_alone(connection, self.place)
        # The lock comes before the snapshot, so that nothing is committed in between.
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        connection.execute(_WITHOUT_LIMITS)
        every = ", ".join(table.name for table in tables)
        connection.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
        try:
            connection.execute(f"LOCK TABLE {every} IN EXCLUSIVE MODE")
        except psycopg.errors.LockNotAvailable:
            raise AlreadyRunning(
                f"{self.place}: another program uses the database; stop every Backhaul"
                " daemon that is configured with it, then run the command again"
            ) from None
        ((oid,),) = connection.execute("SELECT 'kv'::regclass::oid").fetchall()
        self.identity = f"{self.place} {oid}"
        self._mark = move_marks.find(connection, move_marks.MOVED_TO)
        if self._mark is None:
            move_marks.require_usable(connection, self.place)
            _require_in_order(connection, self.place)

    def mark(self) -> Mark | None:
        return self._mark

    def count(self, table: Table) -> int:
        query = f"SELECT count(*) FROM {table.name}"  # noqa: S608 - a name of the schema
        ((number,),) = self._connection.execute(query).fetchall()
        return int(number)

    def rows(self, table: Table) -> Iterator[Row]:
        return _rows(self._connection, table)

    def put_mark(self, mark: Mark) -> None:
        """Mark it, and refuse later writes of a daemon on any other machine."""
        move_marks.put_moved(self._connection, mark)
        self._connection.execute(_REFUSE_WRITES)
        place = mark.place.replace("'", "''")
        for table in self.tables:
            self._connection.execute(
                f"CREATE TRIGGER moved BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON"
                f" {table.name} EXECUTE FUNCTION refuse_writes('{place}')"
            )
        self._connection.execute("COMMIT")

    def rename(self) -> Path | None:
        return None


class PostgresTarget:
    """An empty schema of a server that Backhaul can use."""

    def __init__(
        self, url: str, tables: Sequence[Table], connection: Connection
    ) -> None:
        self._connection = connection
        self.place, self.url = place_of(url), without_password(url)
        self._tables = tables
        self._indexes: list[str] = []

    def begin(self, source: str) -> None:
        require_suitable(self._connection, self.place)
        self._connection.execute("BEGIN")
        self._connection.execute(_WITHOUT_LIMITS)
        schema.lock(self._connection)
        self._remove_interrupted(source)
        require_empty(self._connection, self.place)
        schema.create_within(self._connection)
        for name, statement in self._connection.execute(_INDEXES).fetchall():
            self._indexes.append(statement)
            self._connection.execute(f"DROP INDEX {name}")
        self._for_each_table("ALTER TABLE {} DISABLE TRIGGER USER")

    def receive(self, table: Table, rows: Iterable[Row]) -> None:
        statement = f"COPY {table.name} ({table.names}) FROM STDIN (FORMAT BINARY)"
        with (
            self._refusing(f"the rows of {table.name}"),
            self._connection.copy(statement) as copy,
        ):
            copy.set_types(_types(table))
            for row in rows:
                copy.write_row(row)

    def complete(self) -> None:
        for statement in self._indexes:
            with self._refusing("the values of an index"):
                self._connection.execute(statement)
        for table, column in self._connection.execute(_IDENTITIES).fetchall():
            self._connection.execute(
                f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'),"  # noqa: S608 - names of the schema
                f" max({column})) FROM {table} HAVING max({column}) > 0"
            )
        self._connection.execute(_FOLDED, {"id": folded_to(self._connection)})
        self._for_each_table("ALTER TABLE {} ENABLE TRIGGER USER")
        self._for_each_table("ANALYZE {}")

    def rows(self, table: Table) -> Iterator[Row]:
        return _rows(self._connection, table)

    def commit(self, mark: Mark) -> None:
        move_marks.put_moving(self._connection, mark)
        self._connection.execute("COMMIT")

    def finish(self, move: str) -> None:
        if not schema.exists(self._connection):
            raise BackhaulError(
                f"{self.place}: the moved database is no longer there; restore it with"
                " the tools of the server"
            )
        move_marks.remove_moving(self._connection, move)

    @contextmanager
    def _refusing(self, what: str) -> Iterator[None]:
        """Report rows that break a rule of the schema or a limit of the server."""
        try:
            yield
        except _NOT_STORABLE as error:
            raise BackhaulError(
                f"{self.place}: PostgreSQL cannot store {what}: {error}; nothing was"
                " moved. Correct the row, or restore a backup from before it"
            ) from error

    def _remove_interrupted(self, source: str) -> None:
        """Remove the copy of an interrupted move of this source."""
        if not schema.exists(self._connection):
            return
        mark = move_marks.find(self._connection, move_marks.MOVING_FROM)
        if mark is not None and mark.source == source:
            schema.drop(self._connection, [table.name for table in self._tables])

    def _for_each_table(self, statement: str) -> None:
        for table in self._tables:
            self._connection.execute(statement.format(table.name))


def _types(table: Table) -> list[str]:
    return [_TYPES[column.kind] for column in table.columns]


def _rows(connection: Connection, table: Table) -> Iterator[Row]:
    statement = f"COPY {table.name} ({table.names}) TO STDOUT (FORMAT BINARY)"
    with connection.copy(statement) as copy:
        copy.set_types(_types(table))
        yield from copy.rows()


def _require_ours(connection: Connection, place: str) -> None:
    if not schema.exists(connection):
        raise BackhaulError(
            f"{place}: there is no Backhaul database to move; check the name of the"
            " database and its search_path"
        )
    if ahead := schema.pending(connection):
        raise BackhaulError(
            f"{place}: its schema is {len(ahead)} steps behind this version; upgrade it"
            " first: start the daemon once"
        )
    if newer := schema.newer(connection):
        raise BackhaulError(
            f"{place}: a newer version has upgraded its schema ({', '.join(newer)});"
            " move it with that version"
        )


def _require_alone(connection: Connection, place: str) -> None:
    """Refuse a database that a daemon uses, as its owner or as a standby."""
    for member in known_members(connection):
        if member.is_alive:
            raise AlreadyRunning(
                f"{place}: a daemon on {member.host} uses this database; stop every"
                " daemon that is configured with it, then run the command again"
            )


def _require_in_order(connection: Connection, place: str) -> None:
    """Refuse an inbox in which events wait that arrived before others were folded."""
    ((waiting,),) = connection.execute(_OUT_OF_ORDER).fetchall()
    if waiting:
        raise BackhaulError(
            f"{place}: {waiting:,} events wait behind others that are folded already,"
            " which a file cannot represent; start the daemon until backhaul status"
            " shows that no event waits, then run the command again"
        )


@contextmanager
def open_source(url: str, tables: Sequence[Table]) -> Iterator[PostgresSource]:
    """Open a database to be moved. Raises BackhaulError with what to do first."""
    with _opened(url) as connection:
        yield PostgresSource(url, tables, connection)


@contextmanager
def open_target(url: str, tables: Sequence[Table]) -> Iterator[PostgresTarget]:
    """Open a database that shall receive a move. Raises BackhaulError."""
    with _opened(url) as connection:
        yield PostgresTarget(url, tables, connection)


@contextmanager
def _opened(url: str) -> Iterator[Connection]:
    require_valid(url)
    place = place_of(url)
    try:
        connection = Connection(url)
    except psycopg.Error as error:
        raise DatabaseUnavailable(
            f"{place}: cannot be opened: {error}; check that the server runs and"
            " accepts connections from this machine, the name of the database, and the"
            " user and password (PGPASSWORD, or the file ~/.pgpass)"
        ) from None
    try:
        with closing(connection):
            connection.limits.silence_seconds = inf
            yield connection
    except (psycopg.Error, CommitUnknown) as error:
        raise BackhaulError(
            f"{place}: the move was interrupted: {error}; the source is unchanged, or"
            " the copy is complete: run the command again"
        ) from error
