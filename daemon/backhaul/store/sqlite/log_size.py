"""Watches the write-ahead log: a reader that never ends makes it grow for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loguru import logger

if TYPE_CHECKING:
    from pathlib import Path

LARGE_BYTES = 256 << 20
KEPT_BYTES = 64 << 20
"""What SQLite may keep of the file once it is taken up; the rest is given back."""


class LogSize:
    """Tells once when the log has become large, and once when it is small again."""

    def __init__(self, database: Path) -> None:
        self._log = database.with_name(f"{database.name}-wal")
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
