"""The engine of SQLite: one writer thread, and reads in threads beside it."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from backhaul.errors import Busy, CorruptData, ReadFailed
from backhaul.store.sql.round_writer import RoundEngine, RoundWriter, Row
from backhaul.store.sqlite import connections
from backhaul.store.sqlite.connections import (
    LogSize,
    Readers,
    concerns_the_file,
    log_of,
)
from backhaul.store.sqlite.file_backup import Damaged, is_damage

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.store.sql.family import Unit


T = TypeVar("T")
Connect: TypeAlias = "Callable[[Path], sqlite3.Connection]"
AppendBatch: TypeAlias = "Callable[[sqlite3.Connection, Sequence[Row]], Sequence[int]]"
MakeWriter: TypeAlias = "Callable[[Path, AppendBatch, Connect], Writer]"


class Writer(RoundWriter):
    """Runs units one after another on the write connection of a file."""

    def __init__(
        self,
        path: Path,
        append_batch: AppendBatch,
        connect: Connect = connections.open_writer,
    ) -> None:
        super().__init__()
        self._path = path
        self._open = connect
        self._append_batch = append_batch
        self._log_size = LogSize(path)
        self._changes = 0

    def checkpoint(self) -> asyncio.Future[bool]:
        """Write the write-ahead log into the file and empty it.

        Resolves with False if a reader prevented that. May raise Busy.
        """
        return self.alone(_truncate)

    def vacuum(self) -> asyncio.Future[bool]:
        """Rewrite the whole file; every other write waits meanwhile."""
        return self.alone(_vacuum)

    def _connect(self) -> sqlite3.Connection:
        connection = self._open(self._path)
        connections.keep_savepoints_in_memory(connection)
        return connection

    def _begin(self, connection: Any) -> None:
        connection.execute("BEGIN IMMEDIATE")

    def _append_rows(self, connection: Any, rows: Sequence[Row]) -> Sequence[int]:
        return self._append_batch(connection, rows)

    def _rollback(self, connection: Any) -> None:
        with suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def _concerns_all(self, error: Exception) -> bool:
        return connections.concerns_the_file(error)

    def _fatal(self, error: Exception) -> Exception | None:
        return Damaged(self._path, str(error)) if is_damage(error) else None

    def _refusal(self, error: Exception) -> Exception:
        if isinstance(error, sqlite3.Error):
            return Busy(f"the database cannot be written now: {error}")
        return error

    def _after_round(self, connection: Any) -> None:
        if connection.total_changes != self._changes:
            self._changes = connection.total_changes
            self._log_size.check()


def _truncate(connection: sqlite3.Connection) -> bool:
    # Do not wait for a reader: accepts would wait too.
    connection.execute("PRAGMA busy_timeout=0")
    try:
        busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        connection.execute(f"PRAGMA busy_timeout={connections.BUSY_MILLISECONDS}")
    return not busy


def _vacuum(connection: sqlite3.Connection) -> bool:
    with connections.large_work(connection):
        connection.execute("VACUUM")
    return True


class ReadDamaged(ReadFailed, CorruptData):
    """A read found that the database is damaged: to read again does not help."""


class SqliteEngine(RoundEngine):
    """One file: a writer, and connections that only read."""

    writer: Writer

    def __init__(self, path: Path, writer: Writer, clock: Clock) -> None:
        super().__init__(writer, clock)
        self.path = path
        self.readers = Readers(path)

    def read_here(self, unit: Unit[T]) -> T:
        """Run a unit that only reads, in this thread. Raises ReadFailed."""
        try:
            with self.readers.lend() as connection:
                return unit(connection)
        except sqlite3.Error as error:
            if is_damage(error):
                raise ReadDamaged(str(Damaged(self.path, str(error)))) from error
            raise ReadFailed(f"{self.path}: {error}") from error

    def concerns_the_file(self, error: Exception) -> bool:
        """Return True if the whole database failed, False if one statement did."""
        return concerns_the_file(error)

    def sizes(self) -> dict[str, int]:
        """Return the bytes of the database and of its log, if they exist."""
        files = {"database": self.path, "log": log_of(self.path)}
        return {
            name: file.stat().st_size for name, file in files.items() if file.exists()
        }

    def close(self) -> None:
        """Close the connections that read; the writer stops on its own."""
        self.readers.close()
