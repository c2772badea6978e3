"""Public HTTP application: limits on slow clients, open requests and bodies."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import suppress
from ipaddress import ip_address, ip_network
from time import monotonic
from typing import TYPE_CHECKING, cast

from aiohttp import web
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from aiohttp.typedefs import Handler

    from backhaul.settings import Public

GRACE_SECONDS = 1.0
"""A request that is older than this is slow."""
FAREWELL_SECONDS = 1.0
FINISH_SECONDS = 2.0
"""How long a request may still arrive after the daemon began to stop."""
SMALL_BYTES = 16 << 10
"""A smaller request may stay in memory with an idle connection: copying costs more."""
CHECKS = 20
"""How often slow requests are checked during the time that a request may take."""
PAUSE_SECONDS = 1.0
"""A check that is later than that: the whole process stood still, or its machine."""
_TOO_SLOW = (
    b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
)
_TOO_MUCH = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
    b"Content-Length: 0\r\nConnection: close\r\n\r\n"
)


class _TooLarge(Exception):
    """A body has more bytes than the setting allows."""


class _Connection(asyncio.Protocol):
    """Records when a request begins, and passes everything on to aiohttp."""

    def __init__(self, inner: web.RequestHandler, arrivals: RequestLimits) -> None:
        self._inner = inner
        self._arrivals = arrivals
        self.address = ""
        self.began: float | None = None
        self.serving = False
        self.bytes = 0
        self.refused = False
        self.deadline: asyncio.Timeout | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not by isinstance: uvloop's transports are no subclasses of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self.address = str((transport.get_extra_info("peername") or ("",))[0])
        self.began = self._arrivals.now()
        self._arrivals.open[self._inner] = self
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self.began is None and not self.serving:
            self.began = self._arrivals.now()
        if self.refused:
            return  # discard the data: the client may still read the response
        self.refused = not self._arrivals.has_room(self, len(data))
        if self.refused:
            self._hurry()
        self._inner.data_received(data)

    def _hurry(self) -> None:
        """Answer the request now, or soon if its handler has not started."""
        if self.deadline is not None:
            self.deadline.reschedule(0)
        elif not self.serving:
            loop = asyncio.get_running_loop()
            loop.call_later(GRACE_SECONDS, self._give_up)

    def _give_up(self) -> None:
        if self.refused and not self.serving:
            self.close(_TOO_MUCH)

    def extend(self, seconds: float, now: float) -> None:
        """Give a request that has begun more time."""
        if self.began is not None:
            self.began = min(self.began + seconds, now)
        if self.deadline is not None and (due := self.deadline.when()) is not None:
            self.deadline.reschedule(due + seconds)

    def eof_received(self) -> None:
        self._inner.eof_received()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._arrivals.open.pop(self._inner, None)
        # A body that waits for the disk stays in memory until it is answered.
        if not self.serving:
            self._arrivals.release(self)
        self._arrivals.fewer.set()
        self._inner.connection_lost(exc)

    def answered(self, whole: bool) -> None:
        """Prepare for the next request, unless the rest of this one still arrives."""
        self.began = self.deadline = None
        self.refused = self.serving = self.refused and not whole
        self._arrivals.release(self)
        self._arrivals.fewer.set()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def close(self, farewell: bytes = b"") -> None:
        """Close the connection, even if the client still sends."""
        if farewell and not self._transport.is_closing():
            self._transport.write(farewell)
            self._transport.close()
        else:
            self._transport.abort()


class Limits(Struct, frozen=True):
    """The limits of the public listener; the settings themselves take 20 MB to load."""

    request_seconds: float
    slow_per_address: int
    max_waiting_bytes: int
    max_body_bytes: int
    max_connections: int
    trusted_proxies: tuple[str, ...]


class RequestLimits:
    """Limits the time, the number and the total size of requests.

    Every request has `request_seconds` to arrive, headers and body together. An address
    may have `per_address` requests that are older than a second; a trusted proxy has no
    such limit. All requests together may use `most_bytes` of memory, from their first
    byte to their response. `refused` is called with the path and the response, `busy`,
    `slow` or `large`, of each refused request.
    """

    def __init__(
        self,
        request_seconds: float,
        per_address: int,
        most_bytes: int,
        trusted: Iterable[str] = (),
        now: Callable[[], float] | None = None,
        refused: Callable[[str, str], object] = lambda _path, _answer: None,
    ) -> None:
        # Part of the time is for the response to a body that did not arrive.
        self._seconds = request_seconds - min(FAREWELL_SECONDS, request_seconds / 2)
        self._per_address = per_address
        self._most_bytes = most_bytes
        self._bytes = 0
        self._trusted = [ip_network(network, strict=False) for network in trusted]
        self.now = now or monotonic
        self._refused = refused
        self._timer: asyncio.TimerHandle | None = None
        self._checked_at = 0.0
        self.open: dict[web.RequestHandler, _Connection] = {}
        self.fewer = asyncio.Event()

    @classmethod
    def of(
        cls, settings: Public | Limits, refused: Callable[[str, str], object]
    ) -> RequestLimits:
        """Return the limits that the settings of the public port state."""
        return cls(
            settings.request_seconds,
            settings.slow_per_address,
            settings.max_waiting_bytes,
            settings.trusted_proxies,
            refused=refused,
        )

    def watch(self, handler: web.RequestHandler) -> asyncio.Protocol:
        """Return the protocol between a new connection and aiohttp."""
        return _Connection(handler, self)

    def make_room(self) -> bool:
        """Close the slowest request to make room for a new connection."""
        slow = list(self._slow(GRACE_SECONDS))
        if slow:
            slow[0].close()
        return bool(slow)

    def has_room(self, connection: _Connection, number: int) -> bool:
        """Count received bytes; return whether they fit into the limit."""
        connection.bytes += number
        self._bytes += number
        return self._bytes <= self._most_bytes

    def release(self, connection: _Connection) -> None:
        """Stop counting a request: it is answered, or its connection is closed."""
        self._bytes -= connection.bytes
        connection.bytes = 0

    def start(self) -> None:
        """Start the checks of slow requests. Call from the running loop."""
        self.stop()
        self._checked_at = self.now()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._seconds / CHECKS, self._check_due)

    def stop(self) -> None:
        """Stop the checks. Safe to call twice."""
        if self._timer is not None:
            self._timer.cancel()

    async def finish(self) -> None:
        """Wait shortly for the responses to requests that have begun; close the rest.

        Call it before aiohttp stops: then aiohttp no longer reads any body.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(FINISH_SECONDS):
                while self._arriving():
                    self.fewer.clear()
                    await self._one_less()
        for connection in self._arriving():
            connection.close()

    async def _one_less(self) -> None:
        """Wait for a response, or until a connection without a byte is old."""
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS / 10):
                await self.fewer.wait()

    def _arriving(self) -> list[_Connection]:
        """Return the requests that have begun; a new connection counts as one."""
        latest = self.now() - GRACE_SECONDS
        held = [one for one in self.open.values() if one.began is not None]
        return [one for one in held if one.bytes or (one.began or 0) > latest]

    def _check_due(self) -> None:
        # What clients sent while the process stood still has not been read yet.
        now = self.now()
        late = now - self._checked_at - self._seconds / CHECKS
        if late > PAUSE_SECONDS:
            for connection in self.open.values():
                connection.extend(late, now)
        self.start()
        self.check()

    def check(self) -> None:
        """Close requests that are too slow, and those above the limit per address."""
        # Close one check early: the next check would come after the time limit.
        for connection in self._slow(self._seconds * (1 - 1 / CHECKS)):
            if not connection.serving:
                self._refused("", "slow")
                connection.close(_TOO_SLOW)
        for connection in self._too_many():
            connection.close()

    def _slow(self, seconds: float) -> Iterator[_Connection]:
        """Yield connections whose request is older than that, the oldest first."""
        latest = self.now() - seconds
        slow = [c for c in self.open.values() if c.began and c.began <= latest]
        yield from sorted(slow, key=lambda connection: connection.began or 0)

    def _too_many(self) -> Iterator[_Connection]:
        held: dict[str, list[_Connection]] = defaultdict(list)
        for connection in self._slow(GRACE_SECONDS):
            held[connection.address].append(connection)
        for address, connections in held.items():
            if not self._trusts(address):
                yield from connections[self._per_address :]

    def _trusts(self, address: str) -> bool:
        try:
            found = ip_address(address)
        except ValueError:
            return False
        # A dual-stack listener reports an IPv4 address in IPv6 form.
        found = getattr(found, "ipv4_mapped", None) or found
        return any(found in network for network in self._trusted)

    def guard(self, handler: Handler) -> Handler:
        """Return a handler that starts with a complete body, or refuses the request.

        This is no middleware: with one, aiohttp takes three times as long per delivery.
        """

        async def guarded(request: web.Request) -> web.StreamResponse:
            connection = self.open[request.protocol]
            connection.serving = True
            whole = request.content.is_eof()
            served = request
            if not whole or connection.bytes > SMALL_BYTES:
                # aiohttp keeps a request and its body until the next request on the
                # same connection; a copy is freed with the response.
                served = request.clone()
            try:
                if not (whole or connection.refused):
                    await self._read(served, connection)
                if connection.refused:
                    return self._too_much(request)
                connection.began = None
                return await handler(served)
            except TimeoutError:
                if connection.refused:
                    return self._too_much(request)
                self._refused(request.path, "slow")
                return _closing(408, "the body took too long")
            except _TooLarge:
                self._refused(request.path, "large")
                most = request.client_max_size
                return _closing(413, f"the body is larger than {most} bytes")
            finally:
                connection.answered(request.content.is_eof())

        return guarded

    def _too_much(self, request: web.Request) -> web.Response:
        self._refused(request.path, "busy")
        reason = "too many requests at once; send it again"
        return _closing(503, reason, {"Retry-After": "1"})

    async def _read(self, request: web.Request, connection: _Connection) -> None:
        if (request.content_length or 0) > request.client_max_size:
            raise _TooLarge
        spent = self.now() - (connection.began or self.now())
        async with asyncio.timeout(self._seconds - spent) as connection.deadline:
            try:
                await request.read()
            except web.HTTPRequestEntityTooLarge:
                # A new exception: the traceback of the old one would keep the body.
                raise _TooLarge from None
        connection.deadline = None


def _closing(
    status: int, error: str, headers: dict[str, str] | None = None
) -> web.Response:
    """Return a response that is sent before the end of the body."""
    answer = web.json_response({"error": error}, status=status, headers=headers)
    answer.force_close()
    return answer


def build(
    routes: Iterable[web.RouteDef], max_body_bytes: int, arrivals: RequestLimits
) -> web.Application:
    """Return the application: it answers a large body 413 and a slow one 408."""
    app = web.Application(client_max_size=max_body_bytes)
    # Guard unknown paths too: their connection has to become idle again.
    every = [*routes, web.route("*", "/{path:.*}", _unserved)]
    app.router.add_routes(_guarded(route, arrivals) for route in every)
    return app


def _guarded(route: web.RouteDef, arrivals: RequestLimits) -> web.RouteDef:
    handler = arrivals.guard(route.handler)
    return web.RouteDef(route.method, route.path, handler, route.kwargs)


async def _unserved(request: web.Request) -> web.Response:
    """Answer 404, or 405 if the path has another method."""
    served: set[str] = set()
    for resource in request.app.router.resources():
        _, methods = await resource.resolve(request)
        served |= methods
    if others := served - {"*"}:
        raise web.HTTPMethodNotAllowed(request.method, others)
    raise web.HTTPNotFound
