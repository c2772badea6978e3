"""systemd: socket activation, readiness, watchdog and status messages."""

from __future__ import annotations

import socket
from contextlib import suppress
from time import monotonic_ns
from typing import TYPE_CHECKING, Protocol

from backhaul.errors import ConfigurationError, Finding

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection, Mapping

    from backhaul.core.clock import Clock

FIRST_HANDED = 3
"""The file descriptor of the first socket that systemd passes."""
SEND_SECONDS = 1.0
UPGRADE_SECONDS = 3_600.0
"""How long one step of a schema upgrade may take with a large database."""
_MICRO = 1_000_000
_HINT = "each needs FileDescriptorName= with one of them, as in backhaul.socket"


class HasHeartbeat(Protocol):
    """A part with a thread that the watchdog observes."""

    @property
    def is_rewriting(self) -> bool:
        """Whether a long operation keeps the thread from answering."""
        ...

    def heartbeat(self) -> asyncio.Future[None]:
        """Return a future that ends when the thread answers, even with an error."""
        ...


class ServiceManager:
    """Talks to the service manager that the environment names, if any."""

    def __init__(
        self, environ: Mapping[str, str], process: int, first: int = FIRST_HANDED
    ) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        self.watchdog_seconds = _watchdog_seconds(environ, process)
        self._names = _handed_names(environ, process)
        self._first = first
        self._status = ""

    def sockets(self, known: Collection[str]) -> dict[str, socket.socket]:
        """Return the listening sockets that systemd passed, by name.

        Raises ConfigurationError for an unknown name: nobody would serve that socket,
        and its clients would wait forever.
        """
        strange = [name for name in self._names if name not in known]
        twice = len(set(self._names)) < len(self._names)
        if strange or twice:
            what = f"systemd passes sockets named {', '.join(self._names)}"
            problem = f"{what}; allowed, once each: {', '.join(known)}"
            raise ConfigurationError([Finding("systemd", "", problem, _HINT)])
        return {
            name: _taken(name, self._first + place)
            for place, name in enumerate(self._names)
        }

    def ready(self, status: str) -> None:
        """Report that the daemon is ready."""
        self._status = status
        self.reloaded()

    def reloaded(self) -> None:
        """Report the end of a reload."""
        self._notify("READY=1", f"STATUS={self._status}")

    def reloading(self) -> None:
        """Report the start of a reload; `reloaded` reports its end."""
        moment = f"MONOTONIC_USEC={monotonic_ns() // 1_000}"
        self._notify("RELOADING=1", moment, "STATUS=reads its configuration again")

    def stopping(self) -> None:
        """Report that the daemon stops."""
        self._notify("STOPPING=1", "STATUS=finishes what is under way")

    def busy(self, status: str, seconds: float = UPGRADE_SECONDS) -> None:
        """Report the progress of a start, and how long its next step may take."""
        extended = f"EXTEND_TIMEOUT_USEC={int(seconds * _MICRO)}"
        self._notify(extended, f"STATUS={status}")

    async def feed(
        self,
        writer: HasHeartbeat,
        clock: Clock,
    ) -> None:
        """Feed the watchdog while the event loop and the writer thread answer.

        Runs until cancelled. If the event loop hangs, this loop hangs with it.
        """
        beat = None
        while True:
            if beat is None or beat.done() or writer.is_rewriting:
                self._notify("WATCHDOG=1")
            if beat is None or beat.done():
                beat = writer.heartbeat()
                beat.add_done_callback(_ignore_failure)
            await clock.sleep(self.watchdog_seconds / 4)

    def _notify(self, *lines: str) -> None:
        """Send one datagram; ignore a manager that does not listen."""
        if not self._address:
            return
        address = self._address
        if address.startswith("@"):  # an abstract socket, not a path
            address = "\0" + address[1:]
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as way:
            way.settimeout(SEND_SECONDS)
            way.connect(address)
            way.send("\n".join(lines).encode())


def _ignore_failure(beat: asyncio.Future[None]) -> None:
    """Consume the error: the parts that write report a failing disk themselves."""
    if not beat.cancelled():
        beat.exception()


def _watchdog_seconds(environ: Mapping[str, str], process: int) -> float:
    if environ.get("WATCHDOG_PID", str(process)) != str(process):
        return 0.0
    return int(environ.get("WATCHDOG_USEC", "0")) / _MICRO


def _handed_names(environ: Mapping[str, str], process: int) -> list[str]:
    if environ.get("LISTEN_PID") != str(process):
        return []
    number = int(environ.get("LISTEN_FDS", "0"))
    names = environ.get("LISTEN_FDNAMES", "").split(":")
    return (names + ["unknown"] * number)[:number]


def _taken(name: str, number: int) -> socket.socket:
    """Return the socket of a file descriptor. Raises ConfigurationError."""
    with suppress(OSError):
        handed = socket.socket(fileno=number)
        if _listens(handed):
            handed.setblocking(False)
            handed.set_inheritable(False)
            return handed
        handed.detach()
    problem = "is not a listening TCP socket"
    raise ConfigurationError(
        [Finding("systemd", name, problem, "use ListenStream= with address and port")]
    )


def _listens(handed: socket.socket) -> bool:
    inet = handed.family in {socket.AF_INET, socket.AF_INET6}
    return inet and bool(handed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
