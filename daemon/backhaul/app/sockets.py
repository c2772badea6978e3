"""Listening sockets, connection limits, and logging of malformed requests."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections import Counter
from contextlib import asynccontextmanager
from time import monotonic
from typing import TYPE_CHECKING, Protocol, cast

from aiohttp import web
from aiohttp.http_exceptions import (
    BadHttpMethod,
    BadStatusLine,
    HttpProcessingError,
    InvalidURLError,
    LineTooLong,
)
from loguru import logger

from backhaul.errors import PortInUse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path


QUIET_SECONDS = 60.0
"""At most one line per kind in this time; the next line counts the others."""
_KINDS: tuple[tuple[type[Exception], str], ...] = (
    (BadHttpMethod, "not HTTP"),
    (BadStatusLine, "not HTTP"),
    (LineTooLong, "too long"),
    (InvalidURLError, "bad address"),
    (HttpProcessingError, "malformed"),
    (ConnectionError, "cut off"),
)


_REQUEST_MODULES = frozenset(
    {"aiohttp.streams", "aiohttp.http_writer", "aiohttp.base_protocol"}
)
"""The modules through which aiohttp reads bodies and writes answers."""


class BadRequests(logging.Filter):
    """Logs and counts malformed requests; passes the daemon's own errors through.

    It filters the log of aiohttp's server. `counted` has the requests by kind.
    """

    def __init__(
        self, counted: Counter[tuple[str, ...]], now: Callable[[], float] = monotonic
    ) -> None:
        super().__init__()
        self._counted = counted
        self._now = now
        self._logged: dict[str, tuple[float, int]] = {}

    def logger(self) -> logging.Logger:
        """Return a separate logger for one server."""
        made = logging.Logger("aiohttp.server", logging.DEBUG)
        made.parent = logging.getLogger()
        made.addFilter(self)
        return made

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log the record unchanged."""
        error = record.exc_info[1] if record.exc_info else None
        kind = kind_of(error)
        if kind is None:
            return record.levelno >= logging.getLogger().getEffectiveLevel()
        remote = record.args[0] if isinstance(record.args, tuple) else None
        self._counted[kind,] += 1
        why = str(getattr(error, "message", error))
        self._log(kind, str(remote or "an unknown address"), why)
        return False

    def _log(self, kind: str, remote: str, error: str) -> None:
        total, now = self._counted[kind,], self._now()
        at, before = self._logged.get(kind, (-QUIET_SECONDS, total - 1))
        if now - at < QUIET_SECONDS:
            return
        self._logged[kind] = now, total
        first = (error.strip() or "no reason").splitlines()[0].rstrip(":")
        logger.bind(action="request.bad", kind=kind, requests=total - before).info(
            "a request from {} was refused, {}: {:.120}", remote, kind, first
        )


def kind_of(error: BaseException | None) -> str | None:
    """Return what was wrong with a request; None for an error of the daemon."""
    for shape, kind in _KINDS:
        if isinstance(error, shape):
            is_cut = shape is ConnectionError
            return kind if not is_cut or _is_of_the_request(error) else None
    return None


def _is_of_the_request(error: BaseException | None) -> bool:
    """Return whether the broken connection is the client's.

    A handler may use other connections, and their errors are the daemon's own.
    """
    trace = error.__traceback__ if error is not None else None
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__") in _REQUEST_MODULES:
            return True
        trace = trace.tb_next
    return False


KEEPALIVE_SECONDS = 15.0
BACKLOG = 4_096
"""Connections that may wait, for example during a restart."""
SHUTDOWN_SECONDS = 5.0
LINGER_SECONDS = 1.0
"""How long the rest of a refused body is read, so that the response arrives."""
ROUNDS_TO_BE_MADE = 3
"""Iterations of the event loop from accepting a connection to creating it."""
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
    b"Content-Length: 0\r\nConnection: close\r\n\r\n"
)


class _Refusal(asyncio.Protocol):
    """Answers a connection above the limit and closes it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not by isinstance: uvloop's transports are no subclasses of asyncio's.
        writable = cast("asyncio.Transport", transport)
        writable.write(_FULL)
        writable.close()


class ConnectionGuard(Protocol):
    """Wraps and limits new connections."""

    def watch(self, handler: web.RequestHandler) -> asyncio.Protocol:
        """Return the protocol between a new connection and aiohttp."""
        ...

    def make_room(self) -> bool:
        """Close a slow connection to make room; return whether there was one."""
        ...

    def start(self) -> None: ...

    def stop(self) -> None: ...

    async def finish(self) -> None:
        """Wait shortly for the responses to requests that have begun."""
        ...


@asynccontextmanager
async def serving(
    listeners: Sequence[tuple[Listener, socket.socket | None]],
) -> AsyncIterator[None]:
    """Start each listener that has a socket, and stop all at the end."""
    try:
        for listener, sock in listeners:
            if sock is not None:
                await listener.start(sock)
        yield
    finally:
        for listener, _ in listeners:
            await listener.stop()


class Listener:
    """Serves one aiohttp application on one socket."""

    def __init__(
        self,
        app: web.Application,
        max_connections: int = 512,
        guard: ConnectionGuard | None = None,
        bad_requests: Counter[tuple[str, ...]] | None = None,
    ) -> None:
        counted = Counter() if bad_requests is None else bad_requests
        self._runner = web.AppRunner(
            app,
            logger=BadRequests(counted).logger(),
            access_log=None,
            keepalive_timeout=KEEPALIVE_SECONDS,
            auto_decompress=False,
            handle_signals=False,
            shutdown_timeout=SHUTDOWN_SECONDS,
            lingering_time=LINGER_SECONDS,
        )
        self._guard = guard
        self._max_connections = max_connections
        self._server: asyncio.Server | None = None

    async def start(self, sock: socket.socket) -> None:
        """Begin to accept on a bound socket."""
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._factory(), sock=sock, backlog=BACKLOG
        )
        if self._guard is not None:
            self._guard.start()

    def _factory(self) -> Callable[[], asyncio.Protocol]:
        serve = self._runner.server
        if serve is None:
            raise RuntimeError("the listener is not set up")

        guard = self._guard

        def accept() -> asyncio.Protocol:
            full = len(serve.connections) >= self._max_connections
            if full and not (guard and guard.make_room()):
                return _Refusal()
            return guard.watch(serve()) if guard else serve()

        return accept

    async def stop(self) -> None:
        """Stop accepting, and finish the open requests. Safe to call twice."""
        if self._guard is not None:
            self._guard.stop()
        server, self._server = self._server, None
        if server is not None:
            await _close(server)
            if self._guard is not None:
                await self._guard.finish()
        await self._runner.cleanup()


async def _close(server: asyncio.Server) -> None:
    """Stop accepting, after every accepted connection has got its protocol.

    A closed server creates no protocol for a connection that it has just accepted, so
    nobody would ever answer it.
    """
    loop = asyncio.get_running_loop()
    for sock in server.sockets:
        # No effect on uvloop, which creates the connection while it accepts it.
        loop.remove_reader(sock.fileno())
    await _rounds()
    server.close()
    await _rounds()


async def _rounds() -> None:
    for _ in range(ROUNDS_TO_BE_MADE):
        await asyncio.sleep(0)


def bind_tcp(host: str, port: int, setting: str) -> socket.socket:
    """Bind an address; port 0 picks a free port. Raises PortInUse."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, port))
        except BaseException:
            sock.close()
            raise
    except OSError as error:
        raise PortInUse(_why(host, port, setting, error)) from None
    sock.setblocking(False)
    return sock


def _why(host: str, port: int, setting: str, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        remedy = f"stop it, or set {setting}.port"
        return f"{host}:{port} is in use by another program; {remedy}"
    return _why_not(f"{host}:{port}", setting, error)


def _why_not(where: object, setting: str, error: OSError) -> str:
    return f"cannot listen on {where} ({setting}): {error.strerror or error}"


def bind_unix(path: Path) -> socket.socket:
    """Bind a socket file that only its owner may use; replace a stale one.

    Raises PortInUse.
    """
    path.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(str(path))
    except OSError as error:
        sock.close()
        raise PortInUse(_why_not(path, "state_dir", error)) from None
    path.chmod(0o600)
    sock.setblocking(False)
    return sock


def url_of(sock: socket.socket) -> str:
    """Return the URL to show to people."""
    host, port = sock.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)  # noqa: S104 - only compared
    return f"http://{shown}:{port}"
