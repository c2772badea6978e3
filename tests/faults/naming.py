"""A name server that can be told to fail, and programs that ask it and no other."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pytest

from faults.trials import LONG
from scenes.requirements import require
from scenes.waiting import await_true

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

ADDRESS = "127.0.0.77"
"""The address of the name server: all of 127.0.0.0/8 is this machine."""
NAME = "shop.backhaul.test"
PRIVATE = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'
SERVFAIL = 2
NEEDED = "needs root: port 53, and an /etc/resolv.conf of its own by unshare --mount"


@dataclass(slots=True)
class NameServer:
    """dnsmasq, whose answer for `NAME` a test sets."""

    folder: Path
    above: int
    """The port of an upstream name server that always fails."""
    process: subprocess.Popen[bytes] | None = None

    def knows(self, address: str) -> None:
        self._start(f"--address=/{NAME}/{address}")

    def knows_nothing(self) -> None:
        """Answer NXDOMAIN."""
        self._start(f"--address=/{NAME}/")

    def fails(self) -> None:
        """Answer SERVFAIL."""
        self._start(f"--server=127.0.0.1#{self.above}")

    def falls_silent(self) -> None:
        """Accept queries, and do not answer."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def wrapped(self) -> list[str]:
        """Return a prefix with which a command uses this name server."""
        resolv = self.folder / "resolv.conf"
        patience = "" if LONG else "options timeout:2 attempts:1\n"
        resolv.write_text(f"nameserver {ADDRESS}\n{patience}")
        return ["unshare", "--mount", "sh", "-c", PRIVATE, str(resolv)]

    def _start(self, *options: str) -> None:
        self.stop()
        command = [require("dnsmasq"), "--keep-in-foreground", "--conf-file=/dev/null"]
        command += ["--no-resolv", "--no-hosts", "--cache-size=0", "--pid-file="]
        command += [f"--listen-address={ADDRESS}", "--bind-interfaces", *options]
        with (self.folder / "dnsmasq.log").open("ab") as log:
            self.process = subprocess.Popen(command, stderr=log)
        await_true(_is_taken, "dnsmasq listens")


class _Failing(asyncio.DatagramProtocol):
    """Answers every question with SERVFAIL."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        flags = bytes([data[2] | 0x80, 0x80 | SERVFAIL])
        self._transport.sendto(data[:2] + flags + data[4:], addr)


@asynccontextmanager
async def name_server(folder: Path) -> AsyncIterator[NameServer]:
    """Run a name server without names; skip if it is not installed."""
    require("dnsmasq")
    if os.geteuid() != 0 or not _may("unshare", "--mount", "true"):
        pytest.skip(NEEDED)
    loop = asyncio.get_running_loop()
    above, _ = await loop.create_datagram_endpoint(
        _Failing, local_addr=("127.0.0.1", 0)
    )
    server = NameServer(folder, above.get_extra_info("sockname")[1])
    try:
        yield server
    finally:
        server.stop()
        above.close()


def _may(*command: str) -> bool:
    done = subprocess.run(command, check=False, capture_output=True, timeout=10)
    return done.returncode == 0


def _is_taken() -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.bind((ADDRESS, 53))
        except OSError:
            return True
    return False
