"""Connections to the database file, for writing and for reading."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from loguru import logger

from backhaul.store.sqlite.dialect import numbered, rendered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


LARGE_BYTES = 256 << 20
KEPT_BYTES = 64 << 20
"""The size that SQLite may keep of the log after a checkpoint."""


def log_of(database: Path) -> Path:
    """Return the path of the write-ahead log beside a database."""
    return database.with_name(f"{database.name}-wal")


class LogSize:
    """Logs once when the write-ahead log is large, and once when it is small again."""

    def __init__(self, database: Path) -> None:
        self._log = log_of(database)
        self._large = False

    def check(self) -> None:
        """Check the size after a commit."""
        try:
            size = self._log.stat().st_size
        except OSError:
            return
        if size > LARGE_BYTES and not self._large:
            self._large = True
            logger.bind(action="database.wal_large", bytes=size).warning(
                "{} is {} MB: a program has been reading the database for long, which"
                " keeps the file from shrinking; find it with fuser, and end it",
                self._log,
                size >> 20,
            )
        elif size <= KEPT_BYTES and self._large:
            self._large = False
            logger.bind(action="database.wal_shrunk", bytes=size).info(
                "{} is {} MB again", self._log, size >> 20
            )


PAGE_BYTES = 8_192
"""Larger pages are faster with bodies of a few KiB (measured: by a sixth)."""
CHECKPOINT_PAGES = 4_000
BUSY_MILLISECONDS = 500
READER_PAGES = 16


_FILE_ERRORS = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_NOTADB,
    }
)


def concerns_the_file(error: Exception) -> bool:
    """Return True if the disk or the file failed, False if one statement did.

    After some of these errors SQLite has rolled back the whole transaction.
    """
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in _FILE_ERRORS


_execute = sqlite3.Connection.execute


class DamagedText(str):
    """Text that is not UTF-8, with replacement characters. JSON cannot hold it."""

    __slots__ = ()


def _as_text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return DamagedText(raw.decode(errors="replace"))


def _is_of_damaged_text(error: sqlite3.OperationalError) -> bool:
    """Return True if sqlite3 could not decode text. SQLite's own errors have a code."""
    return getattr(error, "sqlite_errorcode", None) is None


class Connection(sqlite3.Connection):
    """Runs statements of the common text.

    Damaged text becomes DamagedText: sqlite3 alone ends a whole query at the first row
    that is not UTF-8.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.text_factory = _as_text

    def execute(self, sql: str, values: Any = (), /) -> sqlite3.Cursor:
        """Run one statement."""
        if type(values) is not dict:
            return _execute(self, rendered(sql), values)
        text, pick = numbered(sql)
        return _execute(self, text, pick(values))

    def read_all(self, sql: str, values: Any = (), /) -> list[Any]:
        """Return all rows of a query.

        sqlite3 itself decodes the text: for a changed order this saves 3 % of the whole
        fold. If some text is damaged, the query runs again.
        """
        self.text_factory = str
        try:
            return self.execute(sql, values).fetchall()
        except sqlite3.OperationalError as error:
            if not _is_of_damaged_text(error):
                raise
        finally:
            self.text_factory = _as_text
        return self.execute(sql, values).fetchall()

    def executemany(self, sql: str, values: Iterable[Any], /) -> sqlite3.Cursor:
        """Run a statement once for each set of values."""
        rows = values if isinstance(values, list) else list(values)
        if not rows or type(rows[0]) is not dict:
            return super().executemany(rendered(sql), rows)
        text, pick = numbered(sql)
        return super().executemany(text, map(pick, rows))


def open_writer(path: Path) -> sqlite3.Connection:
    """Open the write connection: WAL, FULL, no implicit transactions."""
    connection = sqlite3.connect(
        path, isolation_level=None, cached_statements=512, factory=Connection
    )
    prepare_writer(connection)
    return connection


def prepare_writer(connection: sqlite3.Connection) -> None:
    """Set up a new connection for the writer.

    `synchronous=FULL` keeps promise 1: with NORMAL an acknowledged commit does not
    survive a power loss.
    """
    connection.execute(f"PRAGMA page_size={PAGE_BYTES}")
    connection.execute(f"PRAGMA busy_timeout={BUSY_MILLISECONDS}")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")
    # Deleted rows are overwritten with zeros: an erased customer leaves no bytes.
    connection.execute("PRAGMA secure_delete=ON")
    connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
    connection.execute(f"PRAGMA journal_size_limit={KEPT_BYTES}")
    connection.execute("PRAGMA cache_size=-32768")


def keep_savepoints_in_memory(connection: sqlite3.Connection) -> None:
    """Keep what a savepoint would restore in memory instead of a temporary file.

    SQLite copies each page that a unit of work changes. In a file these copies are up
    to 40 % of all its writes, and the pages of a unit fit into memory.
    """
    connection.execute("PRAGMA temp_store=MEMORY")


@contextmanager
def large_work(connection: sqlite3.Connection) -> Iterator[None]:
    """Work that changes most of the file: its copies of pages do not fit into memory.

    Use it outside of a transaction, in which SQLite does not change this setting.
    """
    connection.execute("PRAGMA temp_store=FILE")
    try:
        yield
    finally:
        keep_savepoints_in_memory(connection)


def end_log(path: Path) -> None:
    """Write the log into the database and remove it, unless a program still reads it.

    SQLite does this when its last connection closes, but only if that one can write.
    """
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as it,
    ):
        it.execute("PRAGMA synchronous=FULL")
        it.execute("SELECT 1 FROM sqlite_master").fetchone()


def open_reader(path: Path) -> sqlite3.Connection:
    """Open a connection that cannot write; its rows have names."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        factory=Connection,
    )
    connection.execute(f"PRAGMA busy_timeout={BUSY_MILLISECONDS}")
    # A read needs most pages once; a cache of them would grow with the mirror.
    connection.execute(f"PRAGMA cache_size={READER_PAGES}")
    connection.row_factory = sqlite3.Row
    return connection


class Readers:
    """A pool of read-only connections."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._idle: SimpleQueue[sqlite3.Connection] = SimpleQueue()
        self._is_closed = False

    @contextmanager
    def lend(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection to one thread for a short read."""
        try:
            connection = self._idle.get_nowait()
        except Empty:
            connection = open_reader(self._path)
        try:
            yield connection
        finally:
            self._idle.put(connection)
            if self._is_closed:
                self.close()

    def close(self) -> None:
        """Close the idle connections, and each lent one when it comes back.

        SQLite removes the log of a database only when its last connection closes.
        """
        self._is_closed = True
        with suppress(Empty):
            while True:
                self._idle.get_nowait().close()
