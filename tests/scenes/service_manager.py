"""A fake service manager: receives notifications, and keeps a socket open."""

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
    """Receives every datagram, in order; `environ` is for the service's process."""

    def __init__(self, receiver: socket.socket, address: str) -> None:
        self._receiver = receiver
        self.environ = {"NOTIFY_SOCKET": address}
        self.received: list[list[str]] = []

    def has_received(self, line: str) -> bool:
        """Return True if a line was received after the line of the last True result."""
        self._listen()
        for place, lines in enumerate(self.received):
            if line in lines:
                del self.received[: place + 1]
                return True
        return False

    def _listen(self) -> None:
        while True:
            try:
                self.received.append(self._receiver.recv(4_096).decode().splitlines())
            except BlockingIOError:
                return


@contextmanager
def manager(address: Path | str) -> Iterator[Manager]:
    """Listen on a socket's path, or on an abstract name that begins with `@`."""
    name = str(address)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind("\0" + name[1:] if name.startswith("@") else name)
        receiver.setblocking(False)
        yield Manager(receiver, name)


@contextmanager
def kept_socket() -> Iterator[socket.socket]:
    """Open a listening socket that outlives the daemons that use it."""
    with sockets.bind_tcp("127.0.0.1", 0, "public") as kept:
        kept.listen(4_096)
        yield kept


def handing(
    kept: socket.socket, name: str = "public", heard: Manager | None = None
) -> ServiceManager:
    """Return a service manager that passes a copy of the socket, as at a start."""
    environ = {"LISTEN_PID": str(OURS), "LISTEN_FDS": "1", "LISTEN_FDNAMES": name}
    environ |= heard.environ if heard else {}
    return ServiceManager(environ, OURS, first=os.dup(kept.fileno()))
