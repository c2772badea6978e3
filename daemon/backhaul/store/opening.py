"""Opening a store: where it is, whether it may be used, and its schema."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlite_utils import Database

from backhaul.errors import AlreadyRunning, CorruptData
from backhaul.store.sqlite import connections
from backhaul.store.sqlite.database import SqliteStore
from backhaul.store.sqlite.migrations import migrations

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backhaul.core.clock import Clock


def open_store(path: Path, clock: Clock) -> SqliteStore:
    """Bring the file to this version's schema and return its store, not yet started.

    Raises CorruptData when the file is no database of ours, is damaged, or was made by
    a newer version.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        connection = connections.open_writer(path)
        try:
            _migrate(connection, path)
        finally:
            connection.close()
    except sqlite3.OperationalError as error:
        raise AlreadyRunning(f"{path}: cannot be opened: {error}") from None
    except sqlite3.DatabaseError as error:
        raise CorruptData(
            f"{path}: not usable as a database: {error}; restore it from a backup"
        ) from None
    return SqliteStore(path, clock)


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    database = Database(connection)
    newer = {entry.name for entry in migrations.applied(database)} - _ours()
    if newer:
        raise CorruptData(
            f"{path}: made by a newer version of Backhaul ({', '.join(sorted(newer))});"
            " install that version, or restore a backup made by this one"
        )
    migrations.apply(database)


def _ours() -> set[str]:
    return {entry.name for entry in migrations.pending(Database(memory=True))}


@contextmanager
def sole_writer(state_dir: Path) -> Iterator[None]:
    """Hold the lock of the state directory. Raises AlreadyRunning.

    The lock is a file of its own: closing a second handle on the database file would
    drop SQLite's own locks on it.
    """
    state_dir.mkdir(parents=True, exist_ok=True)
    lock = os.open(state_dir / "backhaul.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
            raise AlreadyRunning(
                f"{state_dir}: another Backhaul works here (process {holder});"
                " stop it first, or use another state_dir"
            ) from None
        os.truncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(lock)
