"""The engine of SQLite: one writer thread, and reads in threads beside it."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, TypeVar

from backhaul.errors import CorruptData, ReadFailed
from backhaul.store.sql.round_writer import RoundEngine
from backhaul.store.sqlite.connections import Readers, concerns_the_file, log_of
from backhaul.store.sqlite.file_backup import Damaged, is_damage

if TYPE_CHECKING:
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.store.sql.family import Unit
    from backhaul.store.sqlite.writer import Writer

T = TypeVar("T")


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
