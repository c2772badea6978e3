"""Runs an operator's SQL within limits, and reads whole tables; it cannot write."""

from __future__ import annotations

import re
import sqlite3
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from backhaul.errors import BackhaulError
from backhaul.store.export_and_query import (
    FILE,
    LONGEST_SECONDS,
    TABLE,
    QueryResult,
    SqlConsole,
)
from backhaul.store.sql.read_models.database_reads import PUBLISHED, SqlTables, Values

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from backhaul.core.clock import Clock
    from backhaul.store.export_and_query import QueryLimits


WITHHELD: Mapping[str, frozenset[str]] = {
    "users": frozenset({"secret", "totp", "recovery_codes"}),
    "api_tokens": frozenset({"digest"}),
    "erased_emails": frozenset({"digest"}),
}
"""Columns that are shown as NULL: secrets of users, hashes of tokens and addresses."""
LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 16 << 20,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 500,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 250_000,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1_000,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
"""Limits of one value, in bytes, and of one statement."""

_READING = frozenset({"SELECT", "VALUES", "WITH"})
_WRITING = frozenset(
    {
        *("ALTER", "ANALYZE", "ATTACH", "BEGIN", "COMMIT", "CREATE", "DELETE"),
        *("DETACH", "DROP", "END", "EXPLAIN", "INSERT", "PRAGMA", "REINDEX"),
        *("RELEASE", "REPLACE", "ROLLBACK", "SAVEPOINT", "UPDATE", "VACUUM"),
    }
)
"""The other words that begin a statement in SQLite."""
_ALLOWED = "SELECT, VALUES, WITH, EXPLAIN, or a PRAGMA that shows something"
_SHOWN = 20
_BLANK = re.compile(r"(?:\s|\ufeff|--[^\n]*(?:\n|$)|/\*.*?(?:\*/|$))*", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_]*")
_SHOWS_AN_OBJECT = frozenset(
    {
        *("table_info", "table_xinfo", "table_list", "index_list", "index_info"),
        *("index_xinfo", "foreign_key_list"),
    }
)
_SHOWS = _SHOWS_AN_OBJECT | {
    *("application_id", "auto_vacuum", "collation_list", "compile_options"),
    *("data_version", "database_list", "encoding", "freelist_count"),
    *("function_list", "journal_mode", "module_list", "page_count", "page_size"),
    *("pragma_list", "query_only", "schema_version", "user_version"),
}
"""Pragmas that only show something; those of the first set take a table's name."""
_OPEN_TABLES = frozenset(
    {"sqlite_master", "sqlite_schema", "json_each", "json_tree"}
    | {f"pragma_{name}" for name in _SHOWS}
)
_CLOSED_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer"})
_RAW_TABLES = ("sqlite_dbpage", "sqlite_stat")
"""Tables of SQLite that show values of other tables, withheld ones included."""
_DOES = {
    getattr(sqlite3, f"SQLITE_{name}"): name.replace("_", " ")
    for name in (
        *("ALTER_TABLE", "ANALYZE", "ATTACH", "CREATE_INDEX", "CREATE_TABLE"),
        *("CREATE_TEMP_INDEX", "CREATE_TEMP_TABLE", "CREATE_TEMP_TRIGGER"),
        *("CREATE_TEMP_VIEW", "CREATE_TRIGGER", "CREATE_VIEW", "CREATE_VTABLE"),
        *("DELETE", "DETACH", "DROP_INDEX", "DROP_TABLE", "DROP_TEMP_INDEX"),
        *("DROP_TEMP_TABLE", "DROP_TEMP_TRIGGER", "DROP_TEMP_VIEW", "DROP_TRIGGER"),
        *("DROP_VIEW", "DROP_VTABLE", "INSERT", "REINDEX", "SAVEPOINT"),
        *("TRANSACTION", "UPDATE"),
    )
}


class Guard:
    """Allows a connection only to read, and records what it refused or withheld.

    It applies to every statement of the connection from its construction on.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        names = connection.execute("SELECT lower(name) FROM sqlite_master")
        self._tables = {str(name) for (name,) in names} | _OPEN_TABLES
        self.refused = ""
        self.withheld: set[str] = set()
        for limit, most in LIMITS.items():
            connection.setlimit(limit, most)
        connection.set_authorizer(self._judge)

    def begin(self, sql: str) -> None:
        """Refuse a statement that does not only read. Raises BackhaulError."""
        self.refused = ""
        self.withheld.clear()
        try:
            sql.encode()
        except UnicodeEncodeError:
            raise BackhaulError("the SQL statement is not UTF-8 text") from None
        _require_reading(sql)
        _require_conditions(sql)

    def _judge(
        self, action: int, first: str | None, second: str | None, *_: str | None
    ) -> int:
        """Return SQLITE_OK, SQLITE_DENY, or SQLITE_IGNORE, which reads NULL."""
        match action:
            case sqlite3.SQLITE_SELECT | sqlite3.SQLITE_RECURSIVE:
                return sqlite3.SQLITE_OK
            case sqlite3.SQLITE_READ:
                return self._judge_column(str(first), str(second))
            case sqlite3.SQLITE_FUNCTION if second not in _CLOSED_FUNCTIONS:
                return sqlite3.SQLITE_OK
            case sqlite3.SQLITE_FUNCTION:
                return self._deny(f"the function {second}()")
            case sqlite3.SQLITE_UPDATE if first == "sqlite_master":
                # SQLite asks this when it opens json_each or a pragma as a table. It
                # refuses a real change of the schema later.
                return sqlite3.SQLITE_OK
            case sqlite3.SQLITE_PRAGMA if _only_shows(str(first), second):
                return sqlite3.SQLITE_OK
            case sqlite3.SQLITE_PRAGMA:
                return self._deny(f"PRAGMA {first}")
        return self._deny(_DOES.get(action, f"this statement (action {action})"))

    def _judge_column(self, table: str, column: str) -> int:
        if not column:  # it only counts rows; the name may be one of WITH
            return sqlite3.SQLITE_OK
        if table.lower() not in self._tables:
            return self._deny(f"the table {table}")
        if column.lower() in WITHHELD.get(table.lower(), ()):
            self.withheld.add(f"{table}.{column}")
            return sqlite3.SQLITE_IGNORE
        return sqlite3.SQLITE_OK

    def _deny(self, what: str) -> int:
        self.refused = self.refused or what
        return sqlite3.SQLITE_DENY


def _only_shows(pragma: str, argument: str | None) -> bool:
    name = pragma.lower()
    return name in _SHOWS and (argument is None or name in _SHOWS_AN_OBJECT)


def _require_reading(sql: str) -> None:
    """Refuse by its first word a statement that SQLite does not ask about: VACUUM."""
    word, rest = _first_word(sql)
    if word == "EXPLAIN":
        word, rest = _first_word(rest)
        if word == "QUERY":
            word, rest = _first_word(_first_word(rest)[1])
    elif word == "PRAGMA":
        return
    if word in _READING:
        return
    if word in _WRITING:
        raise BackhaulError(refusal(word))
    begun = sql[:_SHOWN].strip()
    what = f"{begun!r} does not begin an SQL statement" if begun else "there is no SQL"
    raise BackhaulError(f"{what}; the statement must begin with {_ALLOWED}")


def _require_conditions(sql: str) -> None:
    """Refuse to join a table with withheld columns by USING or NATURAL.

    SQLite does not ask about such a column, and a FULL JOIN would show its value.
    """
    text = sql.lower()
    named = [name for name in (*WITHHELD, *_RAW_TABLES) if name in text]
    if named and ("using" in text or "natural" in text):
        raise BackhaulError(
            f"`backhaul query` cannot join {named[0]} with USING or NATURAL; write"
            " the condition with ON"
        )


def _first_word(sql: str) -> tuple[str, str]:
    """Return the first word in capitals, and the text after it."""
    blank = _BLANK.match(sql)
    word = _WORD.match(sql, blank.end() if blank else 0)
    return (word.group().upper(), sql[word.end() :]) if word else ("", sql)


def refusal(what: str) -> str:
    """Return the error text for what a statement is not allowed to do."""
    return (
        f"`backhaul query` only reads, so it refuses {what}; only the daemon writes"
        f" to the database. Use {_ALLOWED}"
    )


_STEPS = 10_000
"""Steps of SQLite's machine between two checks of the clock: below a millisecond."""
_NUMBER_BYTES = 8
MEMORY_BYTES = 256 << 20
"""The memory that SQLite can use in the process of a query."""


class SqliteConsole(SqlTables, SqlConsole):
    """Runs SQL on a connection of its own, beside a running daemon."""

    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        super().__init__(connection)
        self._clock = clock
        self._connection = connection
        self._connection.row_factory = None
        self._connection.execute("PRAGMA query_only=ON")
        # The limit is for the whole process and cannot be raised again: this class is
        # for a program that runs one query, not for the daemon.
        self._connection.execute(f"PRAGMA hard_heap_limit={MEMORY_BYTES}")
        self._guard = Guard(self._connection)

    def query(self, sql: str, limits: QueryLimits = FILE) -> QueryResult:
        self._guard.begin(sql)
        with self._limited():
            try:
                # Our own `execute` would replace marks of the common text in it.
                cursor = sqlite3.Connection.execute(self._connection, sql)
                names = tuple(entry[0] for entry in cursor.description or ())
                rows = _fetch(cursor, names, limits)
            except (sqlite3.Error, sqlite3.Warning) as error:
                raise BackhaulError(self._why_not(error)) from None
            except MemoryError:
                raise BackhaulError(
                    f"the query needs more than {MEMORY_BYTES >> 20} MB of memory;"
                    " select fewer rows or columns"
                ) from None
            cursor.close()
        return QueryResult(names, rows, tuple(sorted(self._guard.withheld)))

    @contextmanager
    def _limited(self) -> Iterator[None]:
        until = self._clock.monotonic() + LONGEST_SECONDS
        self._connection.set_progress_handler(
            lambda: self._clock.monotonic() > until, _STEPS
        )
        # One row can take many steps: the timer interrupts after each step.
        timer = threading.Timer(LONGEST_SECONDS, self._connection.interrupt)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()  # or it would interrupt a connection that is closed
            self._connection.set_progress_handler(None, 0)

    def _why_not(self, error: sqlite3.Error | sqlite3.Warning) -> str:
        text = str(error)
        if text == "interrupted":
            return (
                f"the query was stopped after {LONGEST_SECONDS:.0f} s, because it"
                " would slow down the daemon. Select less, or see docs/mirror.md"
                " for fast queries"
            )
        if self._guard.refused:
            return refusal(self._guard.refused)
        if "readonly" in text:
            return refusal("to write")
        if "too big" in text:
            most = LIMITS[sqlite3.SQLITE_LIMIT_LENGTH] >> 20
            return (
                f"a value is larger than {most} MB; select a part of it, such as"
                " substr(column, 1, 1000)"
            )
        if "one statement" in text:
            return "write only one SQL statement"
        if text.startswith("no such table"):
            return f"{text}; the tables are: {', '.join(PUBLISHED)}"
        return f"SQLite says: {text}"


def _fetch(
    cursor: sqlite3.Cursor, names: Sequence[str], limits: QueryLimits
) -> list[Values]:
    """Read rows until there are too many of them, or bytes in them."""
    each_row = sum(map(len, names))
    rows: list[Values] = []
    left = limits.bytes
    for row in cursor:
        left -= each_row + sum(map(_bytes_of, row))
        if left < 0 or len(rows) == limits.rows:
            most = f"{limits.bytes >> 20} MB" if left < 0 else f"{limits.rows:,} rows"
            raise BackhaulError(
                f"the result has more than {most}; {_LESS[limits == TABLE]}"
            )
        rows.append(row)
    return rows


_LESS = {
    True: "add a LIMIT, select fewer columns, or use --csv, --json or --jsonl",
    False: "add a LIMIT, select fewer columns, or export a whole table: backhaul export"
    " TABLE",
}


def _bytes_of(value: object) -> int:
    return len(value) if isinstance(value, str | bytes) else _NUMBER_BYTES
