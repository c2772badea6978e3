"""Connections that run the common text on PostgreSQL, and what a URL may show."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, cast
from urllib.parse import unquote, urlsplit

import psycopg
from psycopg.adapt import Dumper, Loader
from psycopg.pq import TransactionStatus

from backhaul.errors import BackhaulError, WriterFailed
from backhaul.store.postgres import timeouts
from backhaul.store.postgres.dialect import with_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager
    from urllib.parse import SplitResult

    from psycopg.abc import Buffer


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


class Result(psycopg.ClientCursor[Any]):
    """The result of a statement.

    Values are sent as part of the text, so that PostgreSQL infers their types from
    the place where they stand.
    """

    _new_id: int | None = None

    @property
    def lastrowid(self) -> int | None:
        """The id that an INSERT returned, which ends with `new_id`."""
        if self._new_id is None:
            row = self.fetchone()
            self._new_id = None if row is None else row[0]
        return self._new_id


# Every escape is matched, so that the second of two backslashes begins none.
_ESCAPE = re.compile(r"\\u0000|\\.", re.DOTALL)


def without_zeros(text: str) -> str:
    """Return a text or document with U+FFFD in place of each zero byte.

    No text of PostgreSQL may hold one. Its escape in a document goes too: each query
    that reads a member of the document would fail, and a query over many rows with it.
    """
    if "\\u0000" in text:
        text = _ESCAPE.sub(_without_zero, text)
    return text.replace("\0", "\ufffd")


def _without_zero(escape: re.Match[str]) -> str:
    return r"\ufffd" if escape[0] == r"\u0000" else escape[0]


def sendable(values: Any) -> Any:
    """Return the values of a statement with texts that PostgreSQL can hold."""
    if isinstance(values, dict):
        return dict(zip(values, sendable([*values.values()]), strict=True))
    return [without_zeros(v) if isinstance(v, str) else v for v in values]


class YesNoDumper(Dumper):
    """Sends True as '1', which is a number or a boolean, as the place demands."""

    def dump(self, obj: bool) -> bytes:
        return b"1" if obj else b"0"


class RefusingDumper(Dumper):
    """Refuses what no column holds. The driver would send text that means it."""

    def dump(self, obj: object) -> NoReturn:
        raise psycopg.ProgrammingError(f"no column holds a {type(obj).__name__}")


class YesNoLoader(Loader):
    """Reads a boolean as 1 or 0, as SQLite has it."""

    def load(self, data: Buffer) -> int:
        return int(bytes(data) == b"t")


class NumericLoader(Loader):
    """Reads a numeric value as a whole number where it is one."""

    def load(self, data: Buffer) -> int | float:
        text = bytes(data).decode()
        return int(text) if text.lstrip("-").isdigit() else float(text)


class Connection:
    """One connection in autocommit; `BEGIN` starts a transaction.

    If the connection was lost before the first statement of a transaction, it is opened
    again and the statement runs there: a caller does not notice a failover that is over
    within `RECONNECT_SECONDS`. A connection that only reads tries this once. What a
    caller knows of the connection's past ends when `times_opened` grows.

    `lock_milliseconds`: how long a statement waits for a lock; 0 means for ever.
    `idle_seconds`: how long a client may stop inside of a transaction, before the
    server ends it.
    """

    def __init__(
        self,
        url: str,
        *,
        read_only: bool = False,
        lock_milliseconds: int = 0,
        idle_seconds: float = timeouts.IDLE_TRANSACTION_SECONDS,
    ) -> None:
        self._url = url
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

    def _open(self) -> timeouts.LimitedConnection:
        connection = timeouts.connect(
            self._url,
            row_factory=_rows,
            cursor_factory=Result,
            client_encoding="UTF8",  # PGCLIENTENCODING may name another
        )
        connection.add_notice_handler(self._on_notice)
        connection.adapters.register_dumper(bool, YesNoDumper)
        for kind in (tuple, list):
            connection.adapters.register_dumper(kind, RefusingDumper)
        connection.adapters.register_loader("bool", YesNoLoader)
        connection.adapters.register_loader("numeric", NumericLoader)
        connection.execute("SET timezone = 'UTC'")
        return connection

    @property
    def limits(self) -> timeouts.LimitedConnection:
        """The driver's connection, whose limits can be changed."""
        return self._connection

    def rest(self) -> None:
        """Let the next statement be one that may run on a new connection."""
        self._is_idle = True

    def copy(self, sql: str) -> AbstractContextManager[psycopg.Copy]:
        """Begin a COPY; its `write_row` takes the values of a row."""
        return self._connection.cursor().copy(sql.encode())

    def roll_back(self) -> None:
        """End the transaction, if there is one."""
        status = self._connection.info.transaction_status
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
        self._connection = timeouts.persistently(self._open, seconds)
        self.times_opened += 1
        return self._run(statements, values)

    def _run(self, statements: Sequence[str], values: Any) -> Result:
        """Run statements in one round trip; return the result of the last one."""
        text = with_values("; ".join(statements)).encode()
        self._is_unconfirmed = False
        try:
            result = cast("Result", self._connection.execute(text, sendable(values)))
            while result.nextset():
                pass
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
        return result

    def _on_notice(self, notice: psycopg.errors.Diagnostic) -> None:
        """Remember a commit that the server confirms though no replica did.

        `pg_cancel_backend` on a commit that waits ends the wait, not the commit: the
        server answers COMMIT, with a warning that only its source tells in every
        language.
        """
        if notice.source_function == "SyncRepWaitForLSN":
            self._is_unconfirmed = True

    def executemany(self, sql: str, values: Iterable[Any], /) -> Result:
        """Run a statement once for each set of values."""
        result = cast("Result", self._connection.cursor())
        result.executemany(with_values(sql).encode(), map(sendable, values))
        return result

    def close(self) -> None:
        self._connection.close()
