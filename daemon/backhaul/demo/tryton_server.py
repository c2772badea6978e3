"""A Tryton server for the demo, and its database; imports nothing of Tryton."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from msgspec import Struct

from backhaul.demo.demo_folder import HOST, DemoFolder
from backhaul.demo.processes import Program
from backhaul.errors import BackhaulError
from backhaul.settings import bare_environment

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul.core.clock import Clock


DATABASE, USER = "erp", "admin"
FILE = f"{DATABASE}.sqlite"
PACKAGES = ("trytond-sale", "trytond", "proteus")
FORM = 1
"""Counted up when what is made here changes: an older one is then not taken."""
MISSING = (
    "--with-tryton needs Tryton and its client library; install them beside backhaul: "
    "pip install 'trytond-sale>=8.2,<8.3' 'proteus>=8.2,<8.3'"
)


class TrytonServer(Struct, frozen=True):
    """Where the server listens, and the folder that holds its database."""

    folder: Path
    port: int
    password: str

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def config(self) -> Path:
        return self.folder / "trytond.conf"

    def set_up(self, kept: Path) -> None:
        """Give it a copy of the database that is kept."""
        shutil.copyfile(kept / FILE, self.folder / FILE)
        # It answers a GET only with a file; so one tells that it is ready.
        (self.folder / "web").mkdir()
        (self.folder / "web" / "index.html").write_text("Tryton\n")
        web = f"[web]\nlisten = {HOST}:{self.port}\nroot = {self.folder / 'web'}\n"
        self.config.write_text(_database(self.folder) + web)

    def program(self, log: Path, clock: Clock) -> Program:
        """Return the server, not started yet."""
        words = ["trytond.cli", "-c", str(self.config), "-d", DATABASE]
        return Program("Tryton", words, log, f"{self.url}/", clock)


def server_for(home: DemoFolder, port: int, kept: Path) -> TrytonServer:
    """Return a server that is ready to be started in the demo's folder."""
    folder = home.path / "tryton"
    folder.mkdir(mode=0o700)
    server = TrytonServer(folder, port, (kept / "password").read_text().strip())
    home.keep_secret("tryton_password", [server.password])
    server.set_up(kept)
    return server


def keep_database(say: Callable[[str], None]) -> Path:
    """Return the folder with the database, which is made where it is not there yet.

    Raises BackhaulError without Tryton, and when it cannot be made.
    """
    folder = kept_in(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"))
    if not folder.exists():
        say(f"making a Tryton database, once: a minute or two; it stays in {folder}")
        make_database(folder, secrets.token_urlsafe(24))
    return folder


def kept_in(cache: Path) -> Path:
    """Return where the database is kept. Raises BackhaulError without Tryton."""
    try:
        version, *_ = [metadata.version(name) for name in PACKAGES]
    except metadata.PackageNotFoundError:
        raise BackhaulError(MISSING) from None
    return cache / "backhaul" / f"tryton-{version}-{FORM}"


def make_database(folder: Path, password: str) -> None:
    """Make a furnished database; the folder is there only when it is whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent, prefix="making-") as scratch:
        made = Path(scratch) / folder.name
        made.mkdir(mode=0o700)
        (made / FILE).touch()
        (made / "password").touch(0o600)
        (made / "password").write_text(password)
        config = Path(scratch) / "trytond.conf"
        config.write_text(_database(made))
        activated = ["--all", "-u", "sale", "--activate-dependencies"]
        activated += ["--email", "demo@shop.example"]
        administer = ["trytond.cli.admin", "-c", str(config), "-d", DATABASE]
        _run(*administer, *activated, password_file=made / "password")
        _run("backhaul.demo.tryton", str(config), DATABASE)
        if not folder.exists():  # somebody else may have been faster
            made.rename(folder)


def _database(folder: Path) -> str:
    at = f"[database]\nuri = sqlite://\npath = {folder}\n"
    return f"{at}[session]\nauthentications = password\n"


def _run(*words: str, password_file: Path | str = "") -> None:
    done = subprocess.run(  # noqa: S603 - our own programs
        [sys.executable, "-m", *words],
        env=bare_environment() | {"TRYTONPASSFILE": str(password_file)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise BackhaulError(f"the Tryton database could not be created: {last}")
