"""Stands where the service manager does: hears what it is told, and keeps a socket."""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

from backhaul.app import sockets
from backhaul.app.systemd import ServiceManager

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OURS = os.getpid()


class Manager:
    """Hears every datagram, in order; `environ` is what a service of its own gets."""

    def __init__(self, ears: socket.socket, address: str) -> None:
        self._ears = ears
        self.environ = {"NOTIFY_SOCKET": address}
        self.received: list[list[str]] = []

    def has_received(self, line: str) -> bool:
        """Tell whether a line was heard since the last one that was asked for."""
        self._listen()
        for place, lines in enumerate(self.received):
            if line in lines:
                del self.received[: place + 1]
                return True
        return False

    def _listen(self) -> None:
        while True:
            try:
                self.received.append(self._ears.recv(4_096).decode().splitlines())
            except BlockingIOError:
                return


@contextmanager
def manager(address: Path | str) -> Iterator[Manager]:
    """Listen at a file, or at a name that begins with `@`."""
    name = str(address)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ears:
        ears.bind("\0" + name[1:] if name.startswith("@") else name)
        ears.setblocking(False)
        yield Manager(ears, name)


@contextmanager
def kept_socket() -> Iterator[socket.socket]:
    """A listening socket that outlives whoever serves it."""
    with sockets.bind_tcp("127.0.0.1", 0, "public") as kept:
        kept.listen(4_096)
        yield kept


def handing(
    kept: socket.socket, name: str = "public", heard: Manager | None = None
) -> ServiceManager:
    """Hand a copy of the socket over, as at a start."""
    environ = {"LISTEN_PID": str(OURS), "LISTEN_FDS": "1", "LISTEN_FDNAMES": name}
    environ |= heard.environ if heard else {}
    return ServiceManager(environ, OURS, first=os.dup(kept.fileno()))
