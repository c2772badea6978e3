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
"""The file descriptor of the first socket that is handed over."""
SEND_SECONDS = 1.0
UPGRADE_SECONDS = 3_600.0
"""What a large database may take until its next step to a new version."""
_MICRO = 1_000_000
_HINT = "each needs FileDescriptorName= with one of them, as in backhaul.socket"


class HasHeartbeat(Protocol):
    """What has a thread of its own that must live."""

    @property
    def is_rewriting(self) -> bool:
        """Whether it is at something long that lets it answer nothing."""
        ...

    def pulse(self) -> asyncio.Future[None]:
        """Resolve once the thread has answered, be it that the disk refuses."""
        ...


class ServiceManager:
    """Speaks with the manager that the environment names, if it names one."""

    def __init__(
        self, environ: Mapping[str, str], process: int, first: int = FIRST_HANDED
    ) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        self.watchdog_seconds = _watchdog_seconds(environ, process)
        self._names = _handed_names(environ, process)
        self._first = first
        self._status = ""

    def sockets(self, known: Collection[str]) -> dict[str, socket.socket]:
        """Return the listening sockets that were handed over, by name.

        Raises ConfigurationError where one has a name that nobody serves: who connects
        to it would wait for ever.
        """
        strange = [name for name in self._names if name not in known]
        twice = len(set(self._names)) < len(self._names)
        if strange or twice:
            what = f"hands over sockets called {', '.join(self._names)}"
            problem = f"{what}; known, once each: {', '.join(known)}"
            raise ConfigurationError([Finding("systemd", "", problem, _HINT)])
        return {
            name: _taken(name, self._first + place)
            for place, name in enumerate(self._names)
        }

    def ready(self, status: str) -> None:
        """Tell that everything runs."""
        self._status = status
        self.reloaded()

    def reloaded(self) -> None:
        """Tell that everything runs as before the reload."""
        self._tell("READY=1", f"STATUS={self._status}")

    def reloading(self) -> None:
        """Tell that the configuration is being read again; `reloaded` ends it."""
        moment = f"MONOTONIC_USEC={monotonic_ns() // 1_000}"
        self._tell("RELOADING=1", moment, "STATUS=reads its configuration again")

    def stopping(self) -> None:
        """Tell that what is under way is being finished."""
        self._tell("STOPPING=1", "STATUS=finishes what is under way")

    def busy(self, status: str, seconds: float = UPGRADE_SECONDS) -> None:
        """Tell what a start is at, and that the next word may take so long."""
        extended = f"EXTEND_TIMEOUT_USEC={int(seconds * _MICRO)}"
        self._tell(extended, f"STATUS={status}")

    async def feed(
        self,
        writer: HasHeartbeat,
        clock: Clock,
    ) -> None:
        """Feed the watchdog for as long as loop and writer live; never ends.

        The loop lives where this runs.
        """
        beat = None
        while True:
            if beat is None or beat.done() or writer.is_rewriting:
                self._tell("WATCHDOG=1")
            if beat is None or beat.done():
                beat = writer.pulse()
                beat.add_done_callback(_ignore_failure)
            await clock.sleep(self.watchdog_seconds / 4)

    def _tell(self, *lines: str) -> None:
        """Send one datagram. A manager that does not listen does no harm."""
        if not self._address:
            return
        address = self._address
        if address.startswith("@"):  # a name that is no file
            address = "\0" + address[1:]
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as way:
            way.settimeout(SEND_SECONDS)
            way.connect(address)
            way.send("\n".join(lines).encode())


def _ignore_failure(beat: asyncio.Future[None]) -> None:
    """Take the failure off: a disk that refuses is told of by whoever needs it."""
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
    problem = "is no TCP socket that listens"
    raise ConfigurationError(
        [Finding("systemd", name, problem, "use ListenStream= with address and port")]
    )


def _listens(handed: socket.socket) -> bool:
    inet = handed.family in {socket.AF_INET, socket.AF_INET6}
    return inet and bool(handed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
