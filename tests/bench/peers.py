"""The peers: json-server from npm and localstripe from PyPI, run as they come."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import uvloop

from bench import machine
from bench.servers import DiedError
from scenes.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

JSON_SERVER = "json-server@0.17.4"
LOCALSTRIPE = "localstripe==1.15.10"
# The only place where localstripe keeps its objects.
STRIPE_STORE = Path("/tmp/localstripe.pickle")
# Filled from inside: over HTTP each object would cost a write of all, and a store of
# this size it cannot load again, because loading writes to the file that it reads.
STRIPE_START = """
import json, sys
from localstripe import resources, server
write, resources.Store.dump_to_disk = resources.Store.dump_to_disk, lambda self: None
with open(sys.argv.pop(1)) as file:
    held = json.load(file)
for values in held["products"]:
    resources.Product(**values)
for values in held["payment_intents"]:
    resources.PaymentIntent(**values)
resources.Store.dump_to_disk = write
server.start()
"""
INSTALL_SECONDS = 300
START_SECONDS = 60
STOP_SECONDS = 20
POLL_SECONDS = 0.05


class MissingError(Exception):
    """A peer cannot be had here; the message says what would bring it."""


class JsonServer:
    """json-server, installed once into a folder of its own."""

    def __init__(self, cache: Path) -> None:
        npm, self._node = shutil.which("npm"), shutil.which("node")
        if npm is None or self._node is None:
            raise MissingError("npm is missing: apt-get install nodejs npm")
        home = cache.resolve() / "json-server"
        self._program = home / "node_modules/.bin/json-server"
        if not self._program.exists():
            command = [npm, "install", "--no-audit", "--no-fund", "--prefix"]
            install([*command, str(home), JSON_SERVER], "npm")

    @contextmanager
    def run(
        self, folder: Path, held: Mapping[str, Sequence[Any]]
    ) -> Iterator[tuple[int, int]]:
        """Serve the collections; yields port and process id."""
        folder.mkdir()
        database = folder / "db.json"
        database.write_text(json.dumps(held))
        port = free_port()
        command = [str(self._node), str(self._program), "--quiet"]
        options = ["--host", "127.0.0.1", "--port", str(port), str(database)]
        with running([*command, *options], port) as pid:
            yield port, pid


class Localstripe:
    """localstripe, installed once into an environment of its own."""

    def __init__(self, cache: Path) -> None:
        if STRIPE_STORE.exists():
            raise MissingError(f"localstripe would overwrite {STRIPE_STORE}: move it")
        home = cache.resolve() / "localstripe"
        self._python = home / "bin/python"
        if not (home / "bin/localstripe").exists():
            install([sys.executable, "-m", "venv", "--clear", str(home)], "venv")
            pip = [str(self._python), "-m", "pip", "install", "--quiet"]
            install([*pip, LOCALSTRIPE], "pip")

    @contextmanager
    def run(
        self, folder: Path, held: Mapping[str, Sequence[Any]]
    ) -> Iterator[tuple[int, int]]:
        """Serve the objects; yields port and process id."""
        folder.mkdir()
        objects = folder / "objects.json"
        objects.write_text(json.dumps(held))
        port = free_port()
        start = [str(self._python), "-c", STRIPE_START, str(objects)]
        try:
            with running([*start, "--from-scratch", "--port", str(port)], port) as pid:
                yield port, pid
        finally:
            STRIPE_STORE.unlink(missing_ok=True)


def install(command: Sequence[str], tool: str) -> None:
    """Run a command of a packager. Raises MissingError with its last words."""
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
    )
    if ran.returncode != 0:
        last = (ran.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise MissingError(f"{tool} failed, is the package index reachable? {last}")


@contextmanager
def running(
    command: Sequence[str],
    port: int,
    cores: Callable[[], AbstractContextManager[None]] = machine.measured_core,
    variables: Mapping[str, str] | None = None,
) -> Iterator[int]:
    """Run a server until the end, on the measured core unless others are given."""
    with cores():
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **(variables or {})},
        )
    with process:
        try:
            uvloop.run(_until_listening(process, port))
            yield process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


async def _until_listening(process: subprocess.Popen[bytes], port: int) -> None:
    started = perf_counter()
    while process.poll() is None and perf_counter() - started < START_SECONDS:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(POLL_SECONDS)
        else:
            writer.close()
            return
    raise DiedError(f"{process.args!r} does not listen on port {port}")
