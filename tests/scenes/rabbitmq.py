"""A RabbitMQ server in a folder: started, killed and started again on its port."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import aio_pika
from yarl import URL

from scenes.loop_guard import on_purpose
from scenes.ports import accepts, free_port, unless_ended
from scenes.requirements import require
from scenes.waiting import await_true

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from aio_pika.abc import AbstractChannel

USER, PASSWORD = "backhaul", "correct-horse-battery"
READER = "reader"
VHOST = "shop"
MOST_BYTES = 262_144
SETTINGS = """
listeners.tcp.local = 127.0.0.1:{port}
load_definitions = {folder}/definitions.json
log.file.level = error
disk_free_limit.absolute = 1MB
max_message_size = {most_bytes}
"""
PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""Debian's /usr/sbin/rabbitmq-server would become another user first."""


def _definitions() -> dict[str, object]:
    def allowed(user: str, write: str) -> dict[str, str]:
        return {
            "user": user,
            "vhost": VHOST,
            "configure": write,
            "write": write,
            "read": ".*",
        }

    return {
        "vhosts": [{"name": VHOST}, {"name": "other"}],
        "users": [
            {"name": USER, "password": PASSWORD, "tags": ["administrator"]},
            {"name": READER, "password": PASSWORD, "tags": []},
        ],
        "permissions": [allowed(USER, ".*"), allowed(READER, "^$")],
    }


@dataclass(slots=True)
class RabbitMq:
    """The broker of one folder and port."""

    folder: Path
    port: int = field(default_factory=free_port)
    epmd_port: int = field(default_factory=free_port)
    dist_port: int = field(default_factory=free_port)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"amqp://127.0.0.1:{self.port}"

    def write_settings(self) -> None:
        text = SETTINGS.format(
            port=self.port, folder=self.folder, most_bytes=MOST_BYTES
        )
        (self.folder / "rabbitmq.conf").write_text(text)
        (self.folder / "plugins").write_text("[].\n")
        (self.folder / "definitions.json").write_text(json.dumps(_definitions()))

    def environment(self) -> dict[str, str]:
        """Return the variables that keep all files in the folder."""
        own = {
            "HOME": str(self.folder),
            "ERL_EPMD_PORT": str(self.epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"bh{self.port}@localhost",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_DIST_PORT": str(self.dist_port),
            "ERL_CRASH_DUMP": str(self.folder / "erl_crash.dump"),
            # Busy waiting of the schedulers would use a processor.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none",
        }
        return {**os.environ, **own}

    @on_purpose()
    def start(self) -> None:
        log = self.folder / "output.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [PROGRAM],
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        ready = unless_ended(self._process.poll, lambda: accepts(self.port), log)
        await_true(ready, "RabbitMQ listens")

    @on_purpose()
    def kill(self) -> None:
        """Kill the broker, as a power cut does: nothing is saved."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            await_true(lambda: not accepts(self.port), "RabbitMQ is gone")

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[AbstractChannel]:
        """Connect as a user with all permissions."""
        url = f"amqp://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{VHOST}"
        connection = aio_pika.Connection(URL(url))
        try:
            await connection.connect()
            yield await connection.channel()
        finally:
            # The library itself leaves one open that it could not connect.
            await connection.close()


@contextmanager
def rabbitmq(folder: Path) -> Iterator[RabbitMq]:
    require("rabbitmq-server")
    broker = RabbitMq(folder)
    broker.write_settings()
    # Otherwise the broker starts epmd as a daemon that keeps running.
    names = subprocess.Popen(
        ["epmd", "-address", "127.0.0.1", "-port", str(broker.epmd_port)]
    )
    try:
        named = unless_ended(names.poll, lambda: accepts(broker.epmd_port))
        await_true(named, "epmd listens")
        broker.start()
        yield broker
    finally:
        broker.kill()
        names.kill()
        names.wait()
