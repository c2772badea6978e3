"""A PostgreSQL database as the source or the target of a move to the other engine.

As a target it is one transaction until the copy was compared: a move that ends before
leaves nothing behind. A live move creates the tables before, for webhooks to arrive in.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from math import inf
from typing import TYPE_CHECKING, Protocol

import psycopg
from msgspec.structs import replace

from backhaul.core.clock import to_text
from backhaul.errors import AlreadyRunning, BackhaulError, DatabaseUnavailable
from backhaul.store.moving import Mark
from backhaul.store.postgres import schema
from backhaul.store.postgres.connection import (
    CommitUnknown,
    Connection,
    place_of,
    require_valid,
    without_password,
)
from backhaul.store.postgres.ownership import known_members
from backhaul.store.sql.inbox.fold import CURSOR, folded_to
from backhaul.store.sql.operations import move_marks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.store.moving import Row, Table


OLDEST = 15
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
    more = f" and {len(names) - 3} more" if names[3:] else ""
    return f"{', '.join(names[:3])}{more}"


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
    LEFT JOIN fold_cursors c ON c.store = i.store AND c.stream = i.stream
    WHERE i.id > coalesce(c.folded_to, s.folded_to)
      AND i.id < (SELECT max(id) FROM event_outcomes)
"""
_PUT_CURSOR = """
    INSERT INTO kv (name, value)
    SELECT :name, max(id)::text FROM event_outcomes HAVING max(id) > 0
    ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""
_INDEXES = """
    SELECT i.indrelid::regclass::text, c.oid::regclass::text, pg_get_indexdef(c.oid)
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE c.relnamespace = current_schema()::regnamespace
      AND NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = c.oid)
"""
# Commands and stock targets are numbered together.
_IDENTITIES = """
    SELECT table_name, column_name,
        regexp_replace(table_name, '^commands$', 'commands_and_targets')
    FROM information_schema.columns
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
            connection.execute(_PUT_CURSOR, {"name": CURSOR})

    def mark(self) -> Mark | None:
        return self._mark

    def count(self, table: Table) -> int:
        query = f"SELECT count(*) FROM {table.name}"  # noqa: S608 - a name of the schema
        return int(self._connection.execute(query).fetchall()[0][0])

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

    SHARED: frozenset[str] = frozenset()
    """Tables that daemons use during the copy."""

    def __init__(
        self, url: str, tables: Sequence[Table], connection: Connection
    ) -> None:
        self._connection = connection
        self.place, self.url = place_of(url), without_password(url)
        self._tables = tables
        self._own = [each.name for each in tables if each.name not in self.SHARED]
        self._indexes: list[str] = []

    def begin(self, source: str) -> None:
        require_suitable(self._connection, self.place)
        self._connection.execute("BEGIN")
        self._connection.execute(_WITHOUT_LIMITS)
        schema.lock(self._connection)
        self.require_free(source)
        schema.create_within(self._connection)
        self._drop_what_slows_down()

    def _drop_what_slows_down(self) -> None:
        # Members use the other tables during a live move.
        for table, name, statement in self._connection.execute(_INDEXES).fetchall():
            if table in self._own:
                self._indexes.append(statement)
                self._connection.execute(f"DROP INDEX {name}")
        self._for_each_table("ALTER TABLE {} DISABLE TRIGGER USER")

    def require_free(self, source: str) -> None:
        """Refuse a database with anything but an interrupted move of this source."""
        self._remove_interrupted(source)
        require_empty(self._connection, self.place)

    def receive(self, table: Table, rows: Iterable[Row]) -> None:
        with self._refusing(f"the rows of {table.name}"):
            _copy(self._connection, table, rows)

    def complete(self) -> None:
        for statement in self._indexes:
            with self._refusing("the values of an index"):
                self._connection.execute(statement)
        for table, column, rows in self._connection.execute(_IDENTITIES).fetchall():
            if table not in self.SHARED:
                self._connection.execute(
                    f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'),"  # noqa: S608 - names of the schema
                    f" max({column})) FROM {rows} HAVING max({column}) > 0"
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
                f"{self.place}: the database that the move wrote no longer exists;"
                " restore it with the server's tools"
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
        if mark is not None and mark.is_live:
            raise BackhaulError(
                f"{self.place}: a live move into this database has begun, and it has"
                " received webhooks since; add --live to complete that move"
            )
        if mark is not None and mark.source == source:
            schema.drop(self._connection, [table.name for table in self._tables])

    def _for_each_table(self, statement: str) -> None:
        for name in self._own:
            self._connection.execute(statement.format(name))


class LiveTarget(PostgresTarget):
    """A database that `prepare_live` made, in which daemons append events meanwhile.

    Their events belong to streams, with ids above those of the file. Everything else
    is replaced by what the file has.
    """

    SHARED = frozenset({"inbox", "kv", "webhook_secrets"})

    def begin(self, source: str) -> None:
        self._connection.execute("BEGIN")
        self._connection.execute(_WITHOUT_LIMITS)
        self._require_prepared(source)
        # A member that records the use of a secret waits, and tries again.
        self._connection.execute("LOCK TABLE webhook_secrets IN EXCLUSIVE MODE")
        self._connection.execute(f"TRUNCATE {', '.join(self._own)}")
        for each in ("inbox WHERE stream = 0", "kv", "webhook_secrets"):
            self._connection.execute(f"DELETE FROM {each}")  # noqa: S608 - constants
        self._drop_what_slows_down()

    def _require_prepared(self, source: str) -> None:
        mark = None
        if schema.exists(self._connection):
            mark = move_marks.find(self._connection, move_marks.MOVING_FROM)
        if mark is None or not mark.is_live or mark.source != source:
            raise BackhaulError(
                f"{self.place}: no live move of this file into this database has"
                " begun; run the command again, which begins one"
            )

    def complete(self) -> None:
        ((of_file,),) = self._connection.execute(_LAST_OF_FILE).fetchall()
        ((received,),) = self._connection.execute(_FIRST_RECEIVED).fetchall()
        if of_file >= received:
            raise BackhaulError(
                f"{self.place}: the file has the event {of_file:,}, and the events that"
                f" were received here begin at {received:,}; this needs a move without"
                " --live, into another database"
            )
        super().complete()

    def rows(self, table: Table) -> Iterator[Row]:
        if table.name == "inbox":
            return _rows(self._connection, table, "WHERE stream = 0")
        return super().rows(table)

    def commit(self, mark: Mark) -> None:
        super().commit(replace(mark, is_live=True))


class ReceivedMeanwhile(Protocol):
    """The file of a live move, which a daemon still uses."""

    place: str
    identity: str

    def rows(self, table: Table) -> Sequence[Row]: ...

    def last_event(self) -> int: ...


ROOM = 1_000_000_000
"""How many events the file may get until it is moved: more than any file can hold."""
_LAST_OF_FILE = "SELECT coalesce(max(id), 0) FROM inbox WHERE stream = 0"
_FIRST_RECEIVED = """
    SELECT coalesce(min(id), 9223372036854775807) FROM inbox WHERE stream != 0
"""
_MOVE_IDS = "SELECT setval(pg_get_serial_sequence('inbox', 'id'), :last)"


def prepare_live(
    url: str, tables: Sequence[Table], file: ReceivedMeanwhile, clock: Clock
) -> None:
    """Create the schema in which daemons receive webhooks until the file is moved.

    It can be repeated. Raises BackhaulError if the database cannot be used.
    """
    with _opened(url) as connection:
        place = place_of(url)
        require_suitable(connection, place)
        connection.execute("BEGIN")
        schema.lock(connection)
        if schema.exists(connection):
            mark = move_marks.find(connection, move_marks.MOVING_FROM)
            if mark is not None and mark.is_live and mark.source == file.identity:
                connection.execute("ROLLBACK")
                return
        PostgresTarget(url, tables, connection).require_free(file.identity)
        schema.create_within(connection)
        connection.execute(_MOVE_IDS, {"last": file.last_event() + ROOM})
        (secrets,) = (each for each in tables if each.name == "webhook_secrets")
        # A secret that an operator revoked must not be accepted here either.
        _copy(connection, secrets, file.rows(secrets))
        mark = Mark("", file.place, file.identity, to_text(clock.now()), is_live=True)
        move_marks.put_moving(connection, mark)
        connection.execute("COMMIT")


def _copy(connection: Connection, table: Table, rows: Iterable[Row]) -> None:
    statement = f"COPY {table.name} ({table.names}) FROM STDIN (FORMAT BINARY)"
    with connection.copy(statement) as copy:
        copy.set_types(_types(table))
        for row in rows:
            copy.write_row(row)


def _types(table: Table) -> list[str]:
    return [_TYPES[column.kind] for column in table.columns]


def _rows(connection: Connection, table: Table, where: str = "") -> Iterator[Row]:
    query = f"SELECT {table.names} FROM {table.name} {where}"  # noqa: S608 - names of the schema
    with connection.copy(f"COPY ({query}) TO STDOUT (FORMAT BINARY)") as copy:
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
            f"{place}: the schema of this database is {len(ahead)} steps behind this"
            " version of Backhaul. To upgrade the schema, run: backhaul migrate"
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
def open_target(
    url: str, tables: Sequence[Table], *, live: bool = False
) -> Iterator[PostgresTarget]:
    """Open a database that shall receive a move. Raises BackhaulError."""
    kind = LiveTarget if live else PostgresTarget
    with _opened(url) as connection:
        yield kind(url, tables, connection)


@contextmanager
def _opened(url: str) -> Iterator[Connection]:
    require_valid(url)
    place = place_of(url)
    try:
        connection = Connection(url)
    except psycopg.Error as error:
        raise DatabaseUnavailable(
            f"{place}: the database cannot be opened: {error}. Check that the server"
            " accepts connections from this machine. Also check the database name, the"
            " user and the password (PGPASSWORD or ~/.pgpass)"
        ) from None
    try:
        with closing(connection):
            connection.limits.silence_seconds = inf
            yield connection
    except (psycopg.Error, CommitUnknown) as error:
        raise BackhaulError(
            f"{place}: the move was interrupted: {error}. Run the command again. This"
            " is safe: the source is unchanged, or the copy is complete"
        ) from error
