"""Connections that run the common text on PostgreSQL, with time limits; their URLs."""

from __future__ import annotations

import random
import re
import time
from contextlib import contextmanager
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast
from urllib.parse import unquote, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from backhaul.core.backoff_and_circuit import delay_seconds
from backhaul.core.clock import pause
from backhaul.errors import BackhaulError, WriterFailed
from backhaul.store.postgres import copying
from backhaul.store.postgres.dialect import (
    Column,
    adapt,
    batched,
    numbered,
    sendable,
    with_values,
)
from backhaul.store.postgres.durability import losing
from backhaul.store.sql.dialect import BATCH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from urllib.parse import SplitResult

    from psycopg.abc import PQGen

    from backhaul.store.postgres.copying import Value

T = TypeVar("T")

SCHEMES = ("postgresql", "postgres")
_HOST = r"(\[[0-9a-fA-F:.]*\]|[^:@,\[\]]*)(:\d*)?"
_NETLOC = re.compile(rf"([^@:]*(:[^@:]*)?@)?{_HOST}(,{_HOST})*")
_PLACE = frozenset({"host", "port", "dbname", "options"})
"""The parameters that say where the database is."""
_SECRET = frozenset({"password", "sslpassword"})


def require_valid(url: str) -> None:
    """Refuse a URL that libpq would understand differently. Raises BackhaulError."""
    try:
        parts = urlsplit(url)
        # A password with one of / ? # ends where the path, query or fragment begins.
        is_valid = "@" not in f"{parts.path}{parts.query}{parts.fragment}"
    except ValueError:
        is_valid = False
    if not (is_valid and parts.scheme in SCHEMES and _NETLOC.fullmatch(parts.netloc)):
        raise BackhaulError(
            "the URL of the database cannot be understood; it is such as"
            " postgresql://user@db.example.com:5432/backhaul, where special characters"
            " of a name or password are percent-encoded: @ is %40, / is %2F"
        )


def place_of(url: str) -> str:
    """Return where a database is, without any credentials, to be shown and stored."""
    parts = urlsplit(url)
    query = [each for each in _parameters(parts) if _name(each) in _PLACE]
    return _joined(parts.netloc.rpartition("@")[2], parts.path, query)


def without_password(url: str) -> str:
    """Return a URL for a configuration that has the password elsewhere."""
    parts = urlsplit(url)
    account, at, hosts = parts.netloc.rpartition("@")
    query = [each for each in _parameters(parts) if _name(each) not in _SECRET]
    return _joined(f"{account.partition(':')[0]}{at}{hosts}", parts.path, query)


def _parameters(parts: SplitResult) -> list[str]:
    """Return the parameters as they are: libpq does not read `+` as a space."""
    return [each for each in parts.query.split("&") if each]


def _name(parameter: str) -> str:
    return unquote(parameter.partition("=")[0])


def _joined(netloc: str, path: str, query: list[str]) -> str:
    return f"postgresql://{netloc}{path}{'?' if query else ''}{'&'.join(query)}"


_TYPES_OF_VALUES = """
    SELECT array_to_string(parameter_types, ',') FROM pg_prepared_statements
    WHERE name = 'batch'
"""
_PLANNED = re.compile(rb"\s*(SELECT|WITH|INSERT|UPDATE|DELETE)\b")
"""What the server makes a plan for. Other texts may hold several statements."""
_types_of_values: dict[str, tuple[str, ...]] = {}
_CHANCE = random.SystemRandom()
CONNECT_SECONDS = 10
"""Limit for one server to accept a connection; each host of a URL has its own."""
SILENCE_SECONDS = 30.0
"""Limit without a byte from the server while a statement runs.

The kernel's limits below end at the next hop. Behind a pooler or a load balancer that
keeps its own side open, only this limit finds out that the server is gone.
"""
IDLE_TRANSACTION_SECONDS = 5
"""Limit for a client that stops inside of a transaction: the server ends it then, and
its locks are free for the daemon that takes its place."""

# libpq's parameters; a URL that has one of them overrides it.
_NETWORK = {
    "connect_timeout": CONNECT_SECONDS,
    # A dead peer is found within about ten seconds: by probes while nothing is sent,
    # and by bytes that nobody acknowledges otherwise.
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
# There is no `statement_timeout`: exports may run for minutes. The server itself ends
# the statement of a client that has hung up.
_SESSION = "SET client_connection_check_interval = '5s'"


class ServerSilent(psycopg.OperationalError):
    """The server sent nothing for too long; the connection is closed."""


class LimitedConnection(psycopg.Connection[Any]):
    """A connection that is closed when the server is silent for too long."""

    silence_seconds = SILENCE_SECONDS

    def wait(self, gen: PQGen[Any], *args: Any, **options: Any) -> Any:
        """Run a statement to its end. Raises ServerSilent."""
        try:
            return super().wait(_limited(gen, self.silence_seconds), *args, **options)
        except ServerSilent:
            self.pgconn.finish()
            raise


def connect(url: str, **options: Any) -> LimitedConnection:
    """Open a connection with all limits. Raises psycopg.OperationalError."""
    given: dict[str, Any] = {**_NETWORK, **conninfo_to_dict(url), **options}
    connection = LimitedConnection.connect(autocommit=True, **given)
    connection.execute(_SESSION)
    return connection


def persistently(connect: Callable[[], T], seconds: float) -> T:
    """Connect, and after a failure again for so long, with growing, random pauses.

    Raises psycopg.OperationalError.
    """
    end, attempt = time.monotonic() + seconds, 0
    while True:
        attempt += 1
        try:
            return connect()
        except psycopg.OperationalError:
            rest = delay_seconds(
                attempt, base_seconds=0.1, cap_seconds=1, chance=_CHANCE.random()
            )
            if time.monotonic() + rest > end:
                raise
            pause(rest)


def _limited(gen: PQGen[Any], seconds: float) -> PQGen[Any]:
    """Pass everything on to `gen`; raise ServerSilent after so long without a byte."""
    end = time.monotonic() + seconds
    try:
        state = next(gen)
        while True:
            if ready := (yield state):
                end = time.monotonic() + seconds
            elif time.monotonic() > end:
                raise ServerSilent(f"the server sent nothing for {seconds:g} seconds")
            state = gen.send(ready)
    except StopIteration as done:
        return done.value


LOCK_MILLISECONDS = 500
"""How long the daemon waits for a lock, as SQLite waits for that of its file."""
RECONNECT_SECONDS = 5.0
"""How long a writer tries to connect again before its callers are told."""


class CommitUnknown(WriterFailed):
    """A commit without a valid answer: nobody knows whether it will last."""


def concerns_the_server(error: Exception) -> bool:
    """Return True if the whole database failed, False if one statement did.

    InternalError stands for a server that only reads, as after a failover, and for
    damage.
    """
    return isinstance(error, (psycopg.OperationalError, psycopg.InternalError))


class Row(tuple[Any, ...]):
    """A row that also knows the names of its columns."""

    __slots__ = ()
    _places: ClassVar[dict[str, int]] = {}

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return tuple.__getitem__(self, self._places[key])
        return tuple.__getitem__(self, key)

    def keys(self) -> list[str]:
        """Return the names of the columns, so that `dict(row)` works."""
        return list(self._places)


@cache
def _kind_of_row(names: tuple[str, ...]) -> type[Row]:
    places = {name: place for place, name in enumerate(names)}
    return type("Row", (Row,), {"__slots__": (), "_places": places})


def _rows(cursor: psycopg.Cursor[Any] | psycopg.AsyncCursor[Any]) -> Any:
    names = tuple(column.name for column in cursor.description or ())
    return _kind_of_row(names)


class _NewId:
    """What an INSERT of one row returned."""

    _new_id: int | None = None
    fetchone: Any

    @property
    def lastrowid(self) -> int | None:
        """The id that an INSERT returned, which ends with `new_id`."""
        if self._new_id is None:
            row = self.fetchone()
            self._new_id = None if row is None else row[0]
        return self._new_id


class Result(_NewId, psycopg.Cursor[Any]):
    """The result of a statement, which the server prepares when it comes again.

    All values but bytes are sent without a type, so that the server infers each type
    from the place where the value stands.
    """


class ResultOfMany(_NewId, psycopg.ClientCursor[Any]):
    """The result of several statements in one message, with the values in the text."""


class Connection:
    """One connection in autocommit; `BEGIN` starts a transaction.

    If the connection was lost before the first statement of a transaction, it is opened
    again and the statement runs there: a caller does not notice a failover that is over
    within `RECONNECT_SECONDS`. A connection that only reads tries this once. What a
    caller knows of the connection's past ends when `times_opened` grows.

    `lock_milliseconds`: how long a statement waits for a lock; 0 means for ever.
    `idle_seconds`: how long a client may stop inside of a transaction, before the
    server ends it. `name`: what `pg_stat_activity` shows instead of the URL's name.
    `quorum`: refuse a server that confirms commits before a replica has them.
    """

    def __init__(
        self,
        url: str,
        *,
        read_only: bool = False,
        lock_milliseconds: int = 0,
        idle_seconds: float = IDLE_TRANSACTION_SECONDS,
        name: str = "",
        quorum: bool = False,
    ) -> None:
        self._url = url
        self._quorum = quorum
        self._named = {"application_name": name} if name else {}
        self._read_only = read_only
        # For a transaction, not a session: a pooler gives the session to others.
        self._settings = (
            f"SET LOCAL lock_timeout = {lock_milliseconds}",
            "SET LOCAL idle_in_transaction_session_timeout ="
            f" {int(idle_seconds * 1_000)}",
            *(("SET TRANSACTION READ ONLY",) if read_only else ()),
        )
        self._is_idle = False
        self._is_unconfirmed = False
        self.times_opened = 1
        self._connection = self._open()

    def _open(self) -> LimitedConnection:
        connection = connect(
            self._url,
            row_factory=_rows,
            cursor_factory=ResultOfMany,
            client_encoding="UTF8",  # PGCLIENTENCODING may name another
            **self._named,
        )
        connection.add_notice_handler(self._on_notice)
        adapt(connection)
        connection.execute("SET timezone = 'UTC'")
        session = connection.execute("SELECT pg_backend_pid()").fetchall()[0][0]
        if session != connection.info.backend_pid:
            # A pooler gives each transaction another session, without our statements.
            connection.prepare_threshold = None
        if self._quorum and (found := losing(cast("Any", connection))):
            connection.close()
            raise psycopg.OperationalError(str(found))
        return connection

    @property
    def limits(self) -> LimitedConnection:
        """The driver's connection, whose limits can be changed."""
        return self._connection

    def rest(self) -> None:
        """Let the next statement be one that may run on a new connection."""
        self._is_idle = True

    def copy(self, sql: str) -> AbstractContextManager[psycopg.Copy]:
        """Begin a COPY; its `write_row` takes the values of a row."""
        return self._connection.cursor().copy(sql.encode())

    def copy_in(
        self, copy: str, rows: Iterable[tuple[Value, ...]], query: str
    ) -> list[int]:
        """Copy rows into a table; return the numbers that a query then finds.

        Outside of a transaction this is one of its own, durable when this returns.
        Raises psycopg.Error, CommitUnknown. After an OperationalError nobody knows
        whether such a transaction was committed.
        """
        statements: tuple[str, ...] = (copy, query)
        if self._connection.info.transaction_status is TransactionStatus.IDLE:
            # A pooler that sees no BEGIN might give the session to others while the
            # rows of a COPY that failed still arrive.
            statements = ("BEGIN", *self._settings, *statements, "COMMIT")
        text, parts = "; ".join(statements).encode(), copying.packed(rows)
        with self._answered():
            running = copying.run(self._connection.pgconn, text, parts)
            _, found, *_ = self._connection.wait(running)
        return [int(found.get_value(row, 0)) for row in range(found.ntuples)]

    def roll_back(self) -> None:
        """End the transaction, if there is one."""
        status = self._connection.info.transaction_status
        if status is TransactionStatus.ACTIVE:
            self._connection.close()  # a COPY whose rows could not all be sent
        if status in {TransactionStatus.INTRANS, TransactionStatus.INERROR}:
            self._connection.execute("ROLLBACK")

    def begin(self, first: str, values: Any) -> Result:
        """Begin a transaction with its first statement, in one round trip."""
        return self._run_first(("BEGIN", *self._settings, first), values)

    def execute(self, sql: str, values: Any = (), /) -> Result:
        """Run one statement of the common text. Raises psycopg.Error, CommitUnknown."""
        is_first = self._is_idle or sql == "BEGIN"
        self._is_idle = False
        statements: tuple[str, ...] = (sql,)
        if sql == "BEGIN":
            statements = sql, *self._settings
        elif self._read_only:
            statements = *self._settings, sql
        try:
            return (self._run_first if is_first else self._run)(statements, values)
        except psycopg.OperationalError as error:
            if sql == "COMMIT" and self._connection.closed:
                raise CommitUnknown(
                    f"the connection was lost during a commit: {error}"
                ) from error
            raise

    def _run_first(self, statements: Sequence[str], values: Any) -> Result:
        """Run statements before which nothing was done: they may be tried again."""
        try:
            if not self._connection.closed:
                return self._run(statements, values)
        except psycopg.OperationalError:
            if not self._connection.closed:
                raise
        seconds = 0 if self._read_only else RECONNECT_SECONDS
        self._connection = persistently(self._open, seconds)
        self.times_opened += 1
        return self._run(statements, values)

    def _run(self, statements: Sequence[str], values: Any) -> Result:
        """Run statements in one round trip; return the result of the last one."""
        text = with_values("; ".join(statements)).encode()
        is_alone = len(statements) == 1 and _PLANNED.match(text) is not None
        with self._answered():
            result: Any = (Result if is_alone else ResultOfMany)(self._connection)
            result.execute(text, sendable(values), binary=is_alone)
            while result.nextset():
                pass
        return cast("Result", result)

    @contextmanager
    def _answered(self) -> Iterator[None]:
        """Refuse a server that only reads, and a commit that no replica confirmed."""
        self._is_unconfirmed = False
        try:
            yield
        except psycopg.errors.ReadOnlySqlTransaction as error:
            if self._read_only:
                raise
            self._connection.close()  # the next one may find the new primary
            raise psycopg.OperationalError(f"the server only reads: {error}") from error
        if self._is_unconfirmed:
            raise CommitUnknown(
                "the wait for a replica was cancelled: the commit is on the disk of"
                " the server only"
            )

    def _on_notice(self, notice: psycopg.errors.Diagnostic) -> None:
        """Remember a commit that the server confirms though no replica did.

        `pg_cancel_backend` on a commit that waits ends the wait, not the commit: the
        server answers COMMIT, with a warning that only its source tells in every
        language.
        """
        if notice.source_function == "SyncRepWaitForLSN":
            self._is_unconfirmed = True

    def executemany(self, sql: str, values: Iterable[Any], /) -> Result:
        """Run a statement once for each set of values, or for all at once."""
        result = Result(self._connection)
        rows = [*values]
        if rows and BATCH in sql:
            if sql not in _types_of_values:
                _types_of_values[sql] = self._types(sql)
            types = _types_of_values[sql]
            if isinstance(rows[0], dict):
                rows = [*map(itemgetter(*numbered(sql)[1]), rows)]
            columns = [*map(Column, zip(*rows, strict=True), types)]
            return result.execute(batched(sql, types), columns, prepare=True)
        result.executemany(with_values(sql).encode(), map(sendable, rows))
        return result

    def _types(self, sql: str) -> tuple[str, ...]:
        """Return the types that the server infers for the values of a statement."""
        text, _ = numbered(sql)
        self.execute(f"PREPARE batch AS {text}")
        types: str = self.execute(_TYPES_OF_VALUES).fetchall()[0][0]
        self.execute("DEALLOCATE batch")
        return tuple(types.split(","))

    def close(self) -> None:
        self._connection.close()
