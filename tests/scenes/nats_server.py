"""A real NATS server with JetStream: started, killed and started again on its port."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nats.aio.client import Client

from scenes.loop_guard import on_purpose
from scenes.ports import accepts, free_port, unless_ended
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from nats.js import JetStreamContext

USER, PASSWORD = "backhaul", "correct-horse-battery"
ACCESS = f"""
authorization {{ users: [
  {{ user: "{USER}", password: "{PASSWORD}" }}
  {{ user: "guest", password: "{PASSWORD}", permissions: {{
    publish: [ "$JS.API.CONSUMER.INFO.>" ], subscribe: [ "_INBOX.>" ]
  }} }}
] }}
"""


@dataclass(slots=True)
class NatsServer:
    """The server of one folder and port; `settings` are lines of its file."""

    folder: Path
    port: int
    settings: str = ACCESS
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    async def start(self) -> None:
        file = self.folder / "nats.conf"
        store = json.dumps(str(self.folder / "jetstream"))
        lines = f"listen: 127.0.0.1:{self.port}\njetstream {{ store_dir: {store} }}\n"
        file.write_text(lines + self.settings)
        started = self._spawn(file)
        ready = unless_ended(started.poll, lambda: accepts(self.port))
        # The server listens after it read its streams.
        await until(ready, "the NATS server listens")

    @on_purpose()
    def _spawn(self, file: Path) -> subprocess.Popen[bytes]:
        program = Path(sys.executable).with_name("nats-server")
        self._process = subprocess.Popen(
            [program, "-c", file], stderr=subprocess.DEVNULL
        )
        return self._process

    @on_purpose()
    def kill(self) -> None:
        """Kill the server, as a power cut does: nothing is saved."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[JetStreamContext]:
        """Connect as a user with all permissions."""
        client = Client()
        try:
            await client.connect(
                self.url, user=USER, password=PASSWORD, allow_reconnect=False
            )
            yield client.jetstream()
        finally:
            # The library itself leaves one open that it could not connect.
            await client.close()


@asynccontextmanager
async def nats_server(folder: Path) -> AsyncIterator[NatsServer]:
    server = NatsServer(folder, free_port())
    await server.start()
    try:
        yield server
    finally:
        server.kill()
