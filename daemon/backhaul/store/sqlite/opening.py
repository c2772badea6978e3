"""Opens a store: creates its file, checks it, and upgrades its schema."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from loguru import logger
from sqlite_utils import Database

from backhaul.errors import AlreadyRunning, CorruptData
from backhaul.store.database import OWNER_ONLY, manifest_of, setting_errors
from backhaul.store.sql.operations import move_marks
from backhaul.store.sqlite import (
    backup_manifest,
    connections,
    file_backup,
    file_replacement,
    moved_files,
)
from backhaul.store.sqlite.database import SqliteStore
from backhaul.store.sqlite.engine import Writer
from backhaul.store.sqlite.migrations import BEFORE_RELEASE, migrations

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.store.sqlite.engine import MakeWriter

BEFORE = ".before-"
"""Stands between the database's name and the first migration, in an upgrade's copy."""


def open_store(
    path: Path,
    clock: Clock,
    writer: MakeWriter = Writer,
    notify: Callable[[str], None] = lambda _: None,
) -> SqliteStore:
    """Bring the file to this version's schema and return its store, not yet started.

    A database with tables is backed up before its schema changes. `notify` gets a text
    before each step that may take long. An interrupted restore is undone first. Raises
    CorruptData if the file is not a Backhaul database, is damaged, or was made by a
    newer version, and ConfigurationError if it or its folder cannot be created, or the
    database was moved.
    """
    path = file_replacement.real_path(path)
    with setting_errors("database.url"):
        path.parent.mkdir(OWNER_ONLY, parents=True, exist_ok=True)
        _undo_interrupted(path)
        moved_files.require_here(path)
        if problem := log_problem(path):
            raise CorruptData(problem)
        # SQLite alone would let others read it. Files beside it get the same mode.
        with suppress(FileExistsError):
            path.touch(0o600, exist_ok=False)
    try:
        if path.stat().st_size:
            # A file of another version stays untouched; a writer changes its header.
            with file_backup.open_read_only(path) as reader:
                _require_ours(reader, path)
        connection = connections.open_writer(path)
        try:
            _migrate(connection, path, clock, notify)
        finally:
            connection.close()
    except sqlite3.OperationalError as error:
        raise AlreadyRunning(f"{path}: cannot be opened: {error}") from None
    except sqlite3.DatabaseError as error:
        raise file_backup.Damaged(path, str(error)) from None
    return SqliteStore(path, clock, writer=writer)


def _require_ours(reader: sqlite3.Connection, path: Path) -> None:
    """Refuse a database of a newer version, or one that was moved."""
    database = _wrapped(reader)
    _missing(database, path)
    if migrations.applied(database):
        move_marks.require_usable(reader, moved_files.url_of(path))


def _undo_interrupted(path: Path) -> None:
    if file_replacement.undo_interrupted(path):
        logger.bind(action="database.restore_undone").warning(
            "{}: a restore was interrupted; the database from before it is back in its"
            " place; to restore the backup, stop Backhaul and run the restore again",
            path,
        )


def log_problem(path: Path) -> str:
    """Return why a database must not be opened with the log beside it, or "".

    SQLite applies the log of another database, and removes a log without a database.
    """
    if file_backup.is_foreign_log(path):
        return (
            f"{path}: the write-ahead log {path.name}-wal belongs to another"
            " database; perhaps somebody copied a backup to this place. Backhaul"
            " does not start, because it would mix the two; move both files away,"
            " then restore the backup: backhaul restore FILE"
        )
    if path.exists() and path.stat().st_size:
        return ""
    logs = (file_replacement.part(path, suffix) for suffix in ("-wal", "-journal"))
    left = next((log for log in logs if log.exists() and log.stat().st_size), None)
    if left is None:
        return ""
    return (
        f"{path}: the database is missing, but its write-ahead log {left.name} is"
        " there and can hold changes that exist nowhere else; put the database"
        " back, or restore a backup: backhaul restore FILE. To begin with an empty"
        f" database, move {left} away"
    )


def pending(path: Path) -> list[str]:
    """Return the migrations that a database lacks; this only reads it.

    Raises CorruptData as `open_store` does, and BackhaulError if the database cannot be
    read now: another program locks it, or this user has no right to.
    """
    if not path.exists():
        return _all()
    try:
        with file_backup.open_read_only(path) as connection:
            return _missing(_wrapped(connection), path)
    except sqlite3.DatabaseError as error:
        raise file_backup.unread(path, error) from None


def _migrate(
    connection: sqlite3.Connection,
    path: Path,
    clock: Clock,
    notify: Callable[[str], None],
) -> None:
    database = _wrapped(connection)
    ahead = _missing(database, path)
    if not ahead:
        return
    if not migrations.applied(database):
        create_schema(connection)
        return
    _back_up(path, ahead, clock, notify)
    notify("brings the database to this version")
    migrations.apply(database)


def create_schema(connection: sqlite3.Connection) -> None:
    """Create this version's schema in an empty database."""
    database = _wrapped(connection)
    # Nothing can be lost yet, and each commit waits for the disk.
    with database.atomic():
        migrations.apply(database)


def _wrapped(connection: sqlite3.Connection) -> Database:
    """Wrap a connection for sqlite-utils, without its installed plugins."""
    return Database(connection, execute_plugins=False)


def _missing(database: Database, path: Path) -> list[str]:
    newer = {entry.name for entry in migrations.applied(database)} - {*_all()}
    if BEFORE_RELEASE in newer:
        raise CorruptData(
            f"{path}: a version of Backhaul before 0.1.0 made this database, and"
            " this version cannot upgrade it. Move the file away and start the"
            " daemon. It creates a new database, and reads the stores again"
        )
    if newer:
        raise CorruptData(
            f"{path}: a newer version of Backhaul has upgraded this database"
            f" ({', '.join(sorted(newer))}); install that version, or restore a"
            " backup that this version made"
        )
    return [entry.name for entry in migrations.pending(database)]


def _back_up(
    path: Path, ahead: list[str], clock: Clock, notify: Callable[[str], None]
) -> None:
    """Back the database up before an upgrade; delete the copy of the last upgrade."""
    notify("backs the database up before its upgrade")
    kept = path.with_name(f"{path.name}{BEFORE}{ahead[0]}")
    backup_manifest.back_up(path, kept, clock)
    logger.bind(action="database.upgrade").info(
        "{} steps of the schema are ahead; the database as it was is kept as {}",
        len(ahead),
        kept,
    )
    # Not the database before a restore: only it has what came after the backup.
    for older in path.parent.glob(f"{path.name}{BEFORE}m*"):
        if older not in {kept, manifest_of(kept)}:
            older.unlink()


def _all() -> list[str]:
    with closing(sqlite3.connect(":memory:")) as nothing:
        return [entry.name for entry in migrations.pending(_wrapped(nothing))]
