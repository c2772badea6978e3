"""A database file as the source or the target of a move to the other engine."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from backhaul.errors import AlreadyRunning, BackhaulError, why
from backhaul.store.database import OWNER_ONLY, setting_errors
from backhaul.store.sql.operations import move_marks
from backhaul.store.sqlite import (
    connections,
    file_backup,
    file_replacement,
    moved_files,
    opening,
)
from backhaul.store.sqlite.connections import Connection
from backhaul.store.sqlite.movable_rows import RowCheck, with_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from backhaul.store.moving import Mark, Row, Table

_EXTRAS = """
    SELECT type, name, sql FROM sqlite_master
    WHERE type IN ('index', 'trigger') AND sql IS NOT NULL ORDER BY rowid
"""
_FILL_SEARCH = """
    INSERT INTO search_documents_fts (search_documents_fts) VALUES ('rebuild')
"""
# The quarantine has the row of a record as text here, and as bytes on PostgreSQL.
_RECORDS_AS_TEXT = """
    UPDATE quarantine SET raw = CAST(raw AS TEXT) WHERE source = 'record'
"""


class SqliteSource:
    """A file that no program has open; it is only read until its copy is complete."""

    def __init__(
        self, path: Path, tables: Sequence[Table], connection: sqlite3.Connection
    ) -> None:
        self._path = path
        self.tables = tables
        self._connection = connection
        self.place = moved_files.url_of(path)
        self.identity = _identity(path)
        self._version = self._data_version()
        connection.execute("BEGIN")
        self._mark = move_marks.find(connection, move_marks.MOVED_TO)
        if self._mark is None:
            move_marks.require_usable(connection, self.place)

    def mark(self) -> Mark | None:
        return self._mark

    def count(self, table: Table) -> int:
        query = f"SELECT count(*) FROM {table.name}"  # noqa: S608 - a name of the schema
        return int(self._connection.execute(query).fetchone()[0])

    def rows(self, table: Table) -> Iterator[Row]:
        check = RowCheck(self._path, table)
        query = f"SELECT {table.names} FROM {table.name}"  # noqa: S608 - names of the schema
        try:
            for row in self._connection.execute(query):
                yield check.checked(row)
        except sqlite3.DatabaseError as error:
            raise file_backup.unread(self._path, error) from None

    def put_mark(self, mark: Mark) -> None:
        self._connection.execute("COMMIT")
        with _changing(self._path) as writer:
            if self._data_version() != self._version:
                raise AlreadyRunning(
                    f"{self._path}: another program has changed the database since the"
                    " move began; stop that program, then run the command again"
                    f" (fuser -v {self._path} names it)"
                )
            self._connection.close()
            move_marks.put_moved(writer, mark)

    def rename(self) -> Path | None:
        self._connection.close()
        connections.end_log(self._path)
        return moved_files.rename(self._path)

    def _data_version(self) -> int:
        """Return a number that differs once another connection has written."""
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])


class SqliteTarget:
    """A new file. It gets its name when it is complete."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.place = self.url = moved_files.url_of(path)
        self._fresh = path.with_name(f".{path.name}.moving")
        self._connection: Connection | None = None
        self._extras: list[tuple[str, str, str]] = []

    def begin(self, source: str) -> None:
        with setting_errors("database.url"):
            self._path.parent.mkdir(OWNER_ONLY, parents=True, exist_ok=True)
            self._require_free(source)
            file_backup.discard(self._fresh)
            self._fresh.touch(0o600)
        self._connection = connection = Connection(self._fresh, isolation_level=None)
        connection.execute(f"PRAGMA page_size={connections.PAGE_BYTES}")
        # An incomplete file is thrown away, so nothing protects it.
        connection.execute("PRAGMA journal_mode=OFF")
        connection.execute("PRAGMA synchronous=OFF")
        opening.create_schema(connection)
        connection.execute("BEGIN")
        self._extras = connection.execute(_EXTRAS).fetchall()
        for kind, name, _ in self._extras:
            connection.execute(f'DROP {kind} "{name}"')

    def receive(self, table: Table, rows: Iterable[Row]) -> None:
        places = ", ".join("?" * len(table.columns))
        statement = f"INSERT INTO {table.name} ({table.names}) VALUES ({places})"  # noqa: S608 - names of the schema
        # Our own `executemany` would make a list of all rows.
        sqlite3.Connection.executemany(self._open, statement, rows)

    def complete(self) -> None:
        connection = self._open
        connection.execute(_RECORDS_AS_TEXT)
        connection.execute(_FILL_SEARCH)
        for _, _, statement in self._extras:
            connection.execute(statement)
        connection.execute("COMMIT")
        connection.close()
        self._connection = None

    def rows(self, table: Table) -> Iterator[Row]:
        query = f"SELECT {table.names} FROM {table.name}"  # noqa: S608 - names of the schema
        with file_backup.open_read_only(self._fresh) as connection:
            yield from with_bytes(table, connection.execute(query))

    def commit(self, mark: Mark) -> None:
        with _changing(self._fresh) as writer:
            move_marks.put_moving(writer, mark)
        file_replacement.give_to_owner(self._fresh, self._path)
        file_backup.sync(self._fresh)
        self._fresh.rename(self._path)
        file_backup.sync(self._path.parent)

    def finish(self, move: str) -> None:
        if not self._path.is_file():
            raise BackhaulError(
                f"{self._path}: this file, which the move wrote, no longer exists."
                " Put the file back, or restore a backup: backhaul restore FILE"
            )
        with _changing(self._path) as writer:
            move_marks.remove_moving(writer, move)

    def close(self) -> None:
        """Remove an incomplete file."""
        if self._connection is not None:
            self._connection.close()
        file_backup.discard(self._fresh)

    @property
    def _open(self) -> Connection:
        if self._connection is None:
            raise RuntimeError("begin() comes first")
        return self._connection

    def _require_free(self, source: str) -> None:
        """Remove the copy of an interrupted move. Refuses every other file."""
        if problem := opening.log_problem(self._path):
            raise BackhaulError(problem)
        if not file_replacement.parts_of(self._path):
            return
        if _copied_from(self._path) != source:
            raise BackhaulError(
                f"{self._path}: this file exists already, and a move needs a new"
                " file. Name another file, or move this file away"
            )
        file_backup.discard(self._path)


def _copied_from(path: Path) -> str | None:
    """Return the source of an incomplete copy, None if the file is anything else."""
    try:
        with file_backup.open_read_only(path) as connection:
            mark = move_marks.find(connection, move_marks.MOVING_FROM)
    except (sqlite3.Error, BackhaulError):
        return None
    return None if mark is None else mark.source


@contextmanager
def open_source(path: Path, tables: Sequence[Table]) -> Iterator[SqliteSource]:
    """Open a file to be moved. Raises BackhaulError with what to do first."""
    moved_files.require_here(path)
    path = file_replacement.real_path(path)
    require_movable(path)
    try:
        with file_backup.open_read_only(path) as connection:
            yield SqliteSource(path, tables, connection)
    except OSError as error:
        place = error.filename or path
        raise BackhaulError(
            f"{place}: the move cannot write this file ({why(error)}); correct"
            " this, then run the command again"
        ) from None
    except sqlite3.DatabaseError as error:
        raise file_backup.unread(path, error) from None


class FileInUse:
    """What a live move reads of a file while a daemon works on it."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.place = moved_files.url_of(path)
        self.identity = _identity(path)
        self._connection = connection
        self.is_moved = move_marks.find(connection, move_marks.MOVED_TO) is not None

    def rows(self, table: Table) -> list[Row]:
        query = f"SELECT {table.names} FROM {table.name}"  # noqa: S608 - names of the schema
        return self._connection.execute(query).fetchall()

    def last_event(self) -> int:
        """Return the highest id of an event, 0 if there is none."""
        found = self._connection.execute("SELECT coalesce(max(id), 0) FROM inbox")
        return int(found.fetchone()[0])


def _identity(path: Path) -> str:
    return f"{path} {path.stat().st_ino}"


@contextmanager
def read_in_use(path: Path) -> Iterator[FileInUse]:
    """Read a file that a daemon may use. Raises BackhaulError."""
    moved_files.require_here(path)
    path = file_replacement.real_path(path)
    _require_current(path)
    try:
        with file_backup.open_read_only(path) as connection:
            file = FileInUse(path, connection)
            if not file.is_moved:
                move_marks.require_usable(connection, file.place)
                moved_files.require_new_name(path)
            yield file
    except sqlite3.DatabaseError as error:
        raise file_backup.unread(path, error) from None


def require_movable(path: Path) -> None:
    """Refuse a file that must not be moved as it is. Raises BackhaulError."""
    _require_current(path)
    file_replacement.require_unused(path)
    moved_files.require_new_name(path)


def _require_current(path: Path) -> None:
    """Refuse a file that is not a whole database of this version."""
    if not path.is_file():
        raise BackhaulError(
            f"{path}: there is no database to move. To start with an empty"
            " database, set url in [database] and start the daemon"
        )
    if file_replacement.is_interrupted(path):
        raise BackhaulError(
            f"{path}: a restore of this database was interrupted. Run the restore"
            " again. Or start the daemon, which puts the previous database back"
        )
    if problem := opening.log_problem(path):
        raise BackhaulError(problem)
    if ahead := opening.pending(path):
        raise BackhaulError(
            f"{path}: the schema of this database is {len(ahead)} steps behind this"
            " version of Backhaul. To upgrade the schema, run: backhaul migrate"
        )


@contextmanager
def open_target(path: Path) -> Iterator[SqliteTarget]:
    """Prepare a move into a file; an incomplete one is removed at the end."""
    target = SqliteTarget(file_replacement.real_path(path))
    try:
        yield target
    except OSError as error:
        place = error.filename or path
        raise BackhaulError(f"{place}: cannot be written: {why(error)}") from None
    except sqlite3.Error as error:
        raise BackhaulError(f"{path}: cannot be written: {error}") from None
    finally:
        target.close()


@contextmanager
def _changing(path: Path) -> Iterator[Connection]:
    """Run one durable transaction, and leave no log that anything depends on."""
    with closing(Connection(path, isolation_level=None)) as writer:
        writer.execute(f"PRAGMA busy_timeout={connections.BUSY_MILLISECONDS}")
        writer.execute("PRAGMA synchronous=FULL")
        writer.execute("BEGIN IMMEDIATE")
        yield writer
        writer.execute("COMMIT")
        writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
