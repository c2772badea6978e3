"""Holds the database's write lock as another program would."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class LockOfAnotherProcess:
    """Holds the write lock from outside while the block runs."""

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
