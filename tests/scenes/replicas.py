"""Several daemons on one PostgreSQL database, each with its own process and folder."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import httpx

from backhaul.core.webhook import TOPICS
from scenes.daemon import UNUSED_ADDRESS, DaemonProcess, Office
from scenes.loop_guard import on_purpose
from scenes.ports import free_ports
from scenes.waiting import await_true

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from scenes.reference_process import ReferenceProcess


@dataclass(slots=True)
class Replica:
    """A daemon that can be started again with its folder and its ports."""

    office: Office
    url: str
    public_port: int
    admin_port: int
    environ: dict[str, str] = field(default_factory=dict)
    wrapped: Sequence[str] = ()
    process: DaemonProcess | None = None
    logs: list[Path] = field(default_factory=list)
    """The log of each run."""

    def start(self) -> None:
        """Start the daemon, and wait until it serves as the owner or as a standby."""
        self.launch()
        await_true(self.status, "the replica serves")

    def launch(self) -> None:
        given = {
            "BACKHAUL_DATABASE__URL": self.url,
            "BACKHAUL_CLUSTER__DURABILITY": "single",
            "BACKHAUL_PUBLIC__PORT": str(self.public_port),
            "BACKHAUL_ADMIN__PORT": str(self.admin_port),
        }
        self.process = DaemonProcess(self.office, given | self.environ, self.wrapped)
        self.logs.append(self.process.log)

    @on_purpose()
    def status(self) -> str | None:
        """Return `ready` (owner) or `standby`; None while there is no answer."""
        assert self.process is not None
        code = self.process.process.poll()
        assert code is None, f"it ended with {code}: {self.log()[-3_000:]}"
        try:
            answer = httpx.get(f"http://127.0.0.1:{self.admin_port}/readyz", timeout=5)
        except httpx.HTTPError:
            return None
        return str(answer.json()["status"]) if answer.status_code == 200 else None

    def is_owner(self) -> bool:
        return self.status() == "ready"

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()

    def ended(self) -> int | None:
        """Return the exit code, None while the daemon runs."""
        assert self.process is not None
        return self.process.process.poll()

    def log(self) -> str:
        assert self.process is not None
        return self.process.log.read_text()

    def stop(self) -> None:
        """Kill the daemon if it runs."""
        if self.process is not None and self.ended() is None:
            os.kill(self.process.process.pid, signal.SIGCONT)
            self.process.kill()

    def _signal(self, number: int) -> None:
        assert self.process is not None
        os.kill(self.process.process.pid, number)


@contextmanager
def replicas(
    platform: ReferenceProcess, url: str, count: int, more: str = ""
) -> Iterator[list[Replica]]:
    """Create replicas that serve the demo store; none is started.

    The platform sends its webhooks to the last replica.
    """
    ports = free_ports(2 * count)
    body = {"address": UNUSED_ADDRESS, "topics": TOPICS}
    hook = platform.v1("POST", "/webhooks", body).data()
    key = platform.store().api_key
    made = []
    for number in range(count):
        office = Office(
            platform.public_url, key, webhook_secret=hook["secret"], more=more
        )
        made.append(Replica(office, url, ports[2 * number], ports[2 * number + 1]))
    address = f"http://127.0.0.1:{made[-1].public_port}/webhooks/main"
    platform.v1("PUT", f"/webhooks/{hook['id']}", {"address": address})
    try:
        yield made
    finally:
        for each in made:
            each.stop()
            each.office.remove()
