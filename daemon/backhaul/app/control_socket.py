"""Control socket: lets local programs send requests to the running daemon."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec

from backhaul.errors import BackhaulError, Busy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

SOCKET_NAME = "backhaul.sock"
ASK_SECONDS = 10.0
_ORIGIN = "http://backhaul"


class NoDaemon(BackhaulError):
    """No daemon runs in this state directory."""


class NotAllowed(BackhaulError):
    """This user may not connect to the daemon's socket, if there is one."""


class ConnectionLost(Busy):
    """The connection ended before the daemon's response was complete."""


class Control:
    """Sends requests to the daemon that runs in `state_dir`.

    Every request may raise NoDaemon, NotAllowed, ConnectionLost, Busy if the daemon
    is busy, and BackhaulError with the daemon's own text if it refuses.
    """

    def __init__(self, state_dir: Path) -> None:
        self._socket = state_dir / SOCKET_NAME

    def get(self, path: str, seconds: float = ASK_SECONDS) -> Any:
        """Return the decoded JSON response of `path`."""
        with self._request("GET", path, None, seconds) as answer:
            return msgspec.json.decode(answer.read())

    def text(self, path: str, seconds: float = ASK_SECONDS) -> str:
        """Return the response of `path` as text."""
        with self._request("GET", path, None, seconds) as answer:
            return answer.read().decode()

    def post(self, path: str, asked: object, seconds: float = ASK_SECONDS) -> Any:
        """Send a request body as JSON; return the decoded JSON response."""
        with self._request("POST", path, asked, seconds) as answer:
            return msgspec.json.decode(answer.read())

    def follow(self, path: str, asked: object) -> Iterator[Any]:
        """Send a request body as JSON; yield the JSON lines of the response."""
        with self._request("POST", path, asked, None) as answer:
            for line in answer.iter_lines():
                yield msgspec.json.decode(line)

    @contextmanager
    def _request(
        self, method: str, path: str, asked: object, seconds: float | None
    ) -> Iterator[httpx.Response]:
        if not self._is_served():
            raise self._nobody()
        # Imported late: it loads slowly, and most commands send no request.
        import httpx

        transport = httpx.HTTPTransport(uds=str(self._socket))
        body = None if asked is None else msgspec.json.encode(asked)
        try:
            with (
                httpx.Client(transport=transport, timeout=seconds) as client,
                client.stream(method, f"{_ORIGIN}{path}", content=body) as answer,
            ):
                _check(answer)
                yield answer
        except httpx.ConnectError:
            raise self._nobody() from None
        except (httpx.HTTPError, msgspec.DecodeError) as error:
            raise ConnectionLost(
                f"the connection to the daemon was lost: {error}"
            ) from None

    def _is_served(self) -> bool:
        """Return False if there is no socket, or the one of a daemon that has ended.

        httpx would not close the connection that is refused. Raises NotAllowed: a
        command that took this for "no daemon" would act beside one that runs.
        """
        with socket.socket(socket.AF_UNIX) as probe:
            probe.setblocking(False)
            try:
                found = probe.connect_ex(str(self._socket))
            except OSError:  # the path is too long for a socket
                return False
        if found in {errno.EACCES, errno.EPERM}:
            why = f"{self._socket}: {os.strerror(found)}"
            raise NotAllowed(f"{why}; run the command as the daemon's user")
        return found in {0, errno.EAGAIN}  # a long queue is served too

    def _nobody(self) -> NoDaemon:
        return NoDaemon(
            f"no daemon answers at {self._socket}; start it with: backhaul run"
        )


def _check(answer: httpx.Response) -> None:
    if answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
        raise Busy(_why(answer))
    if answer.status_code != HTTPStatus.OK:
        raise BackhaulError(_why(answer))


def _why(answer: httpx.Response) -> str:
    try:
        return str(msgspec.json.decode(answer.read())["error"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return (
            f"the daemon answered {answer.status_code} without an error text; check"
            " that it runs the same version as this command"
        )
