"""A Tryton server for tests."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backhaul.demo.tryton import House
from backhaul.demo.tryton_server import DATABASE, kept_in, make_database
from scenes.loop_guard import on_purpose
from scenes.ports import accepts, free_port, unless_ended
from scenes.waiting import HANG_SECONDS, await_true

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

# the rows that tests add, children first
TABLES = ("stock_move", "stock_shipment_out", "sale_line", "sale_sale")
PASSWORD = "tryton-password-0123456789"
SETUP = Path(__file__).with_name("tryton_setup.py")
PROGRAMS = Path(sys.executable).parent


@dataclass(slots=True)
class TrytonServer:
    """A server that listens on 127.0.0.1; `folder` holds its database."""

    folder: Path
    port: int
    _server: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def config(self) -> Path:
        return self.folder / "trytond.conf"

    def start(self) -> None:
        """Start the server, and wait until it listens."""
        log = self.folder / "log"
        with log.open("ab") as output:
            self._server = subprocess.Popen(
                [PROGRAMS / "trytond", "-c", self.config, "-d", DATABASE],
                stdout=output,
                stderr=output,
            )
        ready = unless_ended(self._server.poll, lambda: accepts(self.port), log)
        await_true(ready, "trytond listens")

    def kill(self) -> None:
        """Kill the server."""
        if self._server is not None:
            self._server.send_signal(signal.SIGKILL)
            self._server.wait(HANG_SECONDS)
            self._server = None

    @property
    def file(self) -> Path:
        return self.folder / f"{DATABASE}.sqlite"

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with (
            on_purpose(),
            closing(sqlite3.connect(self.file, timeout=30)) as connection,
        ):
            return connection.execute(query).fetchall()

    def sales(self) -> list[tuple[str, str]]:
        """Return the reference and state of each sale."""
        return self.rows("SELECT reference, state FROM sale_sale")

    def shipped(self) -> list[int]:
        """Return the ids of the finished shipments, in the order of their end."""
        query = "SELECT id FROM stock_shipment_out WHERE state = 'done'"
        return [id_ for (id_,) in self.rows(f"{query} ORDER BY write_date, id")]

    def change(self, *statements: str) -> None:
        """Change the database directly, without the server."""
        with (
            on_purpose(),
            closing(sqlite3.connect(self.file, timeout=30)) as connection,
        ):
            for statement in statements:
                connection.execute(statement)
            connection.commit()

    def empty(self) -> None:
        """Delete all sales and shipments; the stock remains."""
        moves, *tables = TABLES
        self.change(
            f"DELETE FROM {moves} WHERE origin IS NOT NULL OR shipment IS NOT NULL",  # noqa: S608 - our own names
            *(f"DELETE FROM {name}" for name in tables),  # noqa: S608 - our own names
        )

    @contextmanager
    def log_in(self) -> Iterator[House]:
        """Log in as the staff of the warehouse."""
        with on_purpose():
            house = House(self.url, PASSWORD)
        try:
            yield house
        finally:
            house.close()


def common_folder(factory: pytest.TempPathFactory) -> Path:
    """Return the folder that all pytest workers of a run share."""
    own = factory.getbasetemp()
    # A worker's folder is a subfolder of the run's folder.
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@contextmanager
def tryton(folder: Path, common: Path, module: str = "") -> Iterator[TrytonServer]:
    """Start a server with products and stock, and optionally one more module.

    The database is created once, in the `common` folder.
    """
    port = free_port()
    server = TrytonServer(folder, port)
    server.config.write_text(
        f"[database]\nuri = sqlite://\npath = {folder}\nlist = True\n"
        f"[web]\nlisten = 127.0.0.1:{port}\n[session]\nauthentications = password\n"
    )
    made = common / "tryton-furnished.sqlite"
    with (common / "tryton.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            _furnish(server, common)
            shutil.copy(server.file, made)
    shutil.copy(made, server.file)
    if module:
        words = ["-c", str(server.config), "-d", DATABASE, "-u", module]
        _run("-m", "trytond.cli.admin", *words, "--activate-dependencies")
    server.start()
    try:
        yield server
    finally:
        server.kill()


def _furnish(server: TrytonServer, common: Path) -> None:
    """Create the database, which takes long."""
    bare = bare_database(common)
    shutil.copyfile(bare / server.file.name, server.file)
    _run(str(SETUP), str(server.config), DATABASE)


def _run(*words: str) -> None:
    done = subprocess.run([sys.executable, *words], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def bare_database(cache: Path) -> Path:
    """Return a folder with a database without products, as the demo caches it."""
    folder = kept_in(cache)
    with (cache / "tryton-bare.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            make_database(folder, PASSWORD)
    return folder
