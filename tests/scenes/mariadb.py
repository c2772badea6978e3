"""A MariaDB server of a test's own, from Debian."""

from __future__ import annotations

import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pymysql

from scenes.ports import accepts, free_port, unless_ended
from scenes.postgres import PASSWORD, USER
from scenes.requirements import require
from scenes.waiting import HANG_SECONDS, await_true

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS = ("--no-defaults", "--bind-address=127.0.0.1", "--user=root")
ROWS_AT_ONCE = "--max-recursive-iterations=10000000"
"""Without it, a recursive statement stops at a thousand rows without an error."""


@dataclass(slots=True)
class MariaDb:
    """A server that listens on 127.0.0.1; `folder` holds its data."""

    folder: Path
    port: int = field(default_factory=free_port)
    _server: subprocess.Popen[bytes] | None = None
    _names: count[int] = field(default_factory=count)

    def make(self) -> None:
        """Create the server's data, with one user who needs a password."""
        make = [require("mariadb-install-db"), "--no-defaults", "--user=root"]
        make += [f"--datadir={self.data}", "--auth-root-authentication-method=normal"]
        subprocess.run(make, check=True, capture_output=True)
        self.start()
        with pymysql.connect(unix_socket=self._socket, user="root") as connection:
            person = f"{USER}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'"
            connection.cursor().execute(f"GRANT ALL ON *.* TO {person}")

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        options = [f"--datadir={self.data}", f"--port={self.port}"]
        options += [f"--socket={self._socket}", "--innodb-flush-log-at-trx-commit=0"]
        options.append(ROWS_AT_ONCE)
        log = self.folder / "log"
        with log.open("ab") as output:
            self._server = subprocess.Popen(
                [require("mariadbd"), *SETTINGS, *options], stdout=output, stderr=output
            )
        ready = unless_ended(self._server.poll, lambda: accepts(self.port), log)
        await_true(ready, "MariaDB listens")

    def kill(self) -> None:
        """Kill the server (SIGKILL)."""
        if self._server is not None:
            self._server.kill()
            self._server.wait(HANG_SECONDS)
            self._server = None

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def new_schema(self) -> str:
        """Create a schema; return its name."""
        name = f"test_{next(self._names)}"
        with self.connect("mysql") as connection:
            connection.cursor().execute(f"CREATE SCHEMA {name}")
        return name

    def connect(self, schema: str) -> pymysql.Connection[Any]:
        """Return a connection on which || concatenates texts, as in standard SQL."""
        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user=USER,
            password=PASSWORD,
            database=schema,
            autocommit=True,
            init_command="SET sql_mode = concat(@@sql_mode, ',PIPES_AS_CONCAT')",
        )

    @property
    def _socket(self) -> str:
        return str(self.folder / "socket")


@contextmanager
def mariadb() -> Iterator[MariaDb]:
    """Run a server, and remove it at the end."""
    with tempfile.TemporaryDirectory(prefix="mariadb-", dir="/tmp") as folder:
        server = MariaDb(Path(folder))
        try:
            server.make()
            yield server
        finally:
            server.kill()
