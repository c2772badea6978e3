"""How a connection to the database file is opened, for writing and for reading."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from loguru import logger

from backhaul.store.sqlite.dialect import rendered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


LARGE_BYTES = 256 << 20
KEPT_BYTES = 64 << 20
"""What SQLite may keep of the file once it is taken up; the rest is given back."""


def log_of(database: Path) -> Path:
    """Return the path of the write-ahead log beside a database."""
    return database.with_name(f"{database.name}-wal")


class LogSize:
    """Tells once when the log has become large, and once when it is small again."""

    def __init__(self, database: Path) -> None:
        self._log = log_of(database)
        self._large = False

    def look(self) -> None:
        """Look after a commit."""
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
"""Larger pages pay with bodies of a few KiB (measured: a sixth faster)."""
CHECKPOINT_PAGES = 4_000
BUSY_MILLISECONDS = 500
READER_PAGES = 16


_FILE_TROUBLE = frozenset(
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
    """Tell trouble of disk or file from a mistake of one statement.

    After some of these SQLite has undone the whole transaction by itself.
    """
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in _FILE_TROUBLE


class DamagedText(str):
    """Text that is no UTF-8, with replacement characters. No JSON can hold it."""

    __slots__ = ()


def _as_text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return DamagedText(raw.decode(errors="replace"))


class Connection(sqlite3.Connection):
    """Runs statements of the common text.

    Damaged text becomes DamagedText: by itself sqlite3 ends a whole query at the first
    row that is no UTF-8.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.text_factory = _as_text

    def execute(self, sql: str, values: Any = (), /) -> sqlite3.Cursor:
        """Run one statement."""
        return super().execute(rendered(sql), values)

    def executemany(self, sql: str, values: Iterable[Any], /) -> sqlite3.Cursor:
        """Run a statement once for each set of values."""
        return super().executemany(rendered(sql), values)


def open_writer(path: Path) -> sqlite3.Connection:
    """Open the write connection: WAL, FULL, no implicit transactions."""
    connection = sqlite3.connect(
        path, isolation_level=None, cached_statements=512, factory=Connection
    )
    prepare_writer(connection)
    return connection


def prepare_writer(connection: sqlite3.Connection) -> None:
    """Make a fresh connection the writer's.

    `synchronous=FULL` is promise 1: with NORMAL an acknowledged commit does not survive
    a power loss.
    """
    connection.execute(f"PRAGMA page_size={PAGE_BYTES}")
    connection.execute(f"PRAGMA busy_timeout={BUSY_MILLISECONDS}")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")
    # What is deleted is overwritten with zeros: whoever is forgotten leaves no bytes.
    connection.execute("PRAGMA secure_delete=ON")
    connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
    connection.execute(f"PRAGMA journal_size_limit={KEPT_BYTES}")
    connection.execute("PRAGMA cache_size=-32768")


def end_log(path: Path) -> None:
    """Bring the log into the database and remove it, unless a program still reads it.

    The last connection that can write does this when it is closed; a reader that is
    closed after it does not.
    """
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as it,
    ):
        it.execute("PRAGMA synchronous=FULL")
        it.execute("SELECT 1 FROM sqlite_master").fetchone()


def open_reader(path: Path) -> sqlite3.Connection:
    """Open a connection that cannot write; rows come by name."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        factory=Connection,
    )
    connection.execute(f"PRAGMA busy_timeout={BUSY_MILLISECONDS}")
    # A read meets most pages once; a cache of them would grow with the mirror.
    connection.execute(f"PRAGMA cache_size={READER_PAGES}")
    connection.row_factory = sqlite3.Row
    return connection


class Readers:
    """Read-only connections that are lent out and come back."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._idle: SimpleQueue[sqlite3.Connection] = SimpleQueue()
        self._is_closed = False

    @contextmanager
    def lend(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection to one thread for one short read."""
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
        """Close what is idle now, and what comes back later as soon as it does.

        The log of a database is only removed when its last connection is closed.
        """
        self._is_closed = True
        with suppress(Empty):
            while True:
                self._idle.get_nowait().close()
