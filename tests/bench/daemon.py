"""`backhaul run`, beside an absent platform unless one is given."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from time import perf_counter
from typing import TYPE_CHECKING

from backhaul.core.clock import SystemClock
from backhaul.store import open_store
from bench import machine
from bench.orders import SECRET, STORE
from bench.servers import STOP_SECONDS, DiedError
from scenes.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path

START_SECONDS = 60
LOOK_SECONDS = 0.005
_CONFIGURATION = """\
state_dir = {state_dir}
[public]
host = "127.0.0.1"
port = {public_port}
receivers = {receivers}
[admin]
port = {port}
[reconcile]
backfill_on_start = false
[stores.{store}]
base_url = "{platform}"
api_key = "{key}"
webhook_secrets = ["{secret}"]
"""
ABSENT = "http://127.0.0.1:9"
STORE_ID = "sto_1a2b3c4d5e6f"
_KNOWN = f'{{"store_id": "{STORE_ID}", "currency": "EUR"}}'


class Daemon:
    """Starts and stops a daemon whose state lies in a folder of its own."""

    def __init__(
        self,
        folder: Path,
        platform: str = ABSENT,
        key: str = "svc_live_none",
        receivers: int = 0,
    ) -> None:
        self._receivers = receivers
        self.public_port = 0
        folder.mkdir()
        self._platform = platform
        self._key = key
        self.database = folder / "backhaul.db"
        self._config = folder / "backhaul.toml"
        self.admin_port = 0
        self._process: subprocess.Popen[bytes]

    def start(self, *, on_all_cores: bool = False) -> tuple[float, int]:
        """Return the seconds from the command to `ready`, and the process id."""
        self.admin_port, self.public_port = free_port(), free_port()
        self._configure(self.admin_port)
        command = [sys.executable, "-m", "backhaul", "run", "--config"]
        started = perf_counter()
        with machine.all_cores() if on_all_cores else machine.measured_core():
            self._process = subprocess.Popen(
                [*command, str(self._config)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self._await_ready(started + START_SECONDS)
        return perf_counter() - started, self._process.pid

    def stop(self) -> None:
        """Ask it to end, and wait until it has."""
        self._process.terminate()
        self._process.wait(STOP_SECONDS)

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait(STOP_SECONDS)

    def _configure(self, port: int) -> None:
        state_dir = json.dumps(str(self.database.parent.resolve()))
        self._config.write_text(
            _CONFIGURATION.format(
                state_dir=state_dir,
                port=port,
                public_port=self.public_port,
                receivers=self._receivers,
                platform=self._platform,
                key=self._key,
                store=STORE,
                secret=SECRET.decode(),
            )
        )
        if self._platform == ABSENT:
            asyncio.run(_remember_platform(self.database))

    def _await_ready(self, until: float) -> None:
        rest = threading.Event()
        while perf_counter() < until and self._process.poll() is None:
            if self._is_ready():
                return
            rest.wait(LOOK_SECONDS)
        self._process.kill()
        raise DiedError(f"the daemon on {self.database} was not ready")

    def _is_ready(self) -> bool:
        """Ask without a client: to make one takes longer than the answer."""
        asked = HTTPConnection("127.0.0.1", self.admin_port, timeout=START_SECONDS)
        with closing(asked), suppress(OSError, HTTPException):
            asked.request("GET", "/readyz")
            return asked.getresponse().status == 200
        return False


async def _remember_platform(database: Path) -> None:
    """Store the platform's facts: a daemon that has none waits for the platform."""
    store = open_store(database, SystemClock())
    store.start()
    await store.kv.put(f"facts:{STORE}", _KNOWN)
    await store.stop()
