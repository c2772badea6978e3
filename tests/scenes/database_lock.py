"""Locks the database as another program would."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def idle_reader(path: Path) -> Iterator[None]:
    """Leave a read transaction open, so that the log cannot shrink."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM inbox").fetchone()
        yield


class LockOfAnotherProcess:
    """Holds the write lock from another connection within the block."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        script = (
            "import sqlite3, sys\n"
            "c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
            "c.execute('BEGIN IMMEDIATE')\n"
            "sys.stdout.write('locked\\n'); sys.stdout.flush()\n"
            "sys.stdin.read()\n"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", script, str(self._path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"locked\n"

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
