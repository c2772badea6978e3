"""Public HTTP application: limits on slow clients, open requests and bodies."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import suppress
from ipaddress import ip_address, ip_network
from time import monotonic
from typing import TYPE_CHECKING, cast

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from aiohttp.typedefs import Handler


GRACE_SECONDS = 1.0
"""Younger requests are not called slow."""
FAREWELL_SECONDS = 1.0
FINISH_SECONDS = 2.0
"""How long a request may still arrive once the program is told to stop."""
SMALL_BYTES = 16 << 10
"""A request that may stay with an idle connection; to copy it would cost more."""
CHECKS = 20
"""Looks at the slow ones in the time that a request may take."""
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
    """Notes when a request begins, and passes everything on to aiohttp."""

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
            return  # thrown away: whoever sends on may still read the answer
        self.refused = not self._arrivals.has_room(self, len(data))
        if self.refused:
            self._hurry()
        self._inner.data_received(data)

    def _hurry(self) -> None:
        """Have the request answered now, or soon if it has not begun to be served."""
        if self.deadline is not None:
            self.deadline.reschedule(0)
        elif not self.serving:
            loop = asyncio.get_running_loop()
            loop.call_later(GRACE_SECONDS, self._give_up)

    def _give_up(self) -> None:
        if self.refused and not self.serving:
            self.close(_TOO_MUCH)

    def eof_received(self) -> None:
        self._inner.eof_received()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._arrivals.open.pop(self._inner, None)
        # A body that waits for the disk is held until it has its answer.
        if not self.serving:
            self._arrivals.release(self)
        self._arrivals.fewer.set()
        self._inner.connection_lost(exc)

    def answered(self, whole: bool) -> None:
        """Be ready for the next request, unless the rest of this one still comes."""
        self.began = self.deadline = None
        self.refused = self.serving = self.refused and not whole
        self._arrivals.release(self)
        self._arrivals.fewer.set()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def close(self, farewell: bytes = b"") -> None:
        """End the connection, whatever the other side still has to say."""
        if farewell:
            self._transport.write(farewell)
            self._transport.close()
        else:
            self._transport.abort()


class RequestLimits:
    """Gives every request `request_seconds` to arrive, headers and body together.

    An address may have `per_address` requests under way that are older than a second;
    a trusted proxy, which speaks for many, as many as it likes. All requests together
    may hold `most_bytes`, from their first byte to their answer: it is what bounds the
    memory, since a body that waits for the disk is held as well. `refused` is told the
    path and the answer, `busy`, `slow` or `large`, of each request that is refused.
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
        # Part of the time is for the answer to a body that did not come.
        self._seconds = request_seconds - min(FAREWELL_SECONDS, request_seconds / 2)
        self._per_address = per_address
        self._most_bytes = most_bytes
        self._bytes = 0
        self._trusted = [ip_network(network, strict=False) for network in trusted]
        self.now = now or monotonic
        self._refused = refused
        self._timer: asyncio.TimerHandle | None = None
        self.open: dict[web.RequestHandler, _Connection] = {}
        self.fewer = asyncio.Event()

    def watch(self, handler: web.RequestHandler) -> asyncio.Protocol:
        """Return what stands between a new connection and aiohttp."""
        return _Connection(handler, self)

    def make_room(self) -> bool:
        """Close the slowest request so that a new connection has its place."""
        slow = list(self._slow(GRACE_SECONDS))
        if slow:
            slow[0].close()
        return bool(slow)

    def has_room(self, connection: _Connection, number: int) -> bool:
        """Count bytes that came, and tell whether they may be held."""
        connection.bytes += number
        self._bytes += number
        return self._bytes <= self._most_bytes

    def release(self, connection: _Connection) -> None:
        """Count a request no more: it is answered, or its connection is gone."""
        self._bytes -= connection.bytes
        connection.bytes = 0

    def start(self) -> None:
        """Begin to look at the slow ones. Call from the running loop."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._seconds / CHECKS, self._look)

    def stop(self) -> None:
        """Look no more. Safe to call twice."""
        if self._timer is not None:
            self._timer.cancel()

    async def finish(self) -> None:
        """Let what has begun to arrive be answered, for a moment; close the rest.

        Once aiohttp is told to end, it reads no more of any body, but waits for it.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(FINISH_SECONDS):
                while self._arriving():
                    self.fewer.clear()
                    await self._one_less()
        for connection in self._arriving():
            connection.close()

    async def _one_less(self) -> None:
        """Wait for an answer, or for a connection without a byte to grow old."""
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS / 10):
                await self.fewer.wait()

    def _arriving(self) -> list[_Connection]:
        """Return what has begun, be it with a new connection and no byte yet."""
        latest = self.now() - GRACE_SECONDS
        held = [one for one in self.open.values() if one.began is not None]
        return [one for one in held if one.bytes or (one.began or 0) > latest]

    def _look(self) -> None:
        self.start()
        self.look()

    def look(self) -> None:
        """Close what is too slow by now, and what is too many."""
        # The one before the last look: the next would be after the time is up.
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
        # A listener for both families tells an IPv4 address in the form of IPv6.
        found = getattr(found, "ipv4_mapped", None) or found
        return any(found in network for network in self._trusted)

    def guard(self, handler: Handler) -> Handler:
        """Let the handler begin with a whole body, or answer in its place.

        No middleware: with one aiohttp spends three times as much on each delivery.
        """

        async def guarded(request: web.Request) -> web.StreamResponse:
            connection = self.open[request.protocol]
            connection.serving = True
            whole = request.content.is_eof()
            served = request
            if not whole or connection.bytes > SMALL_BYTES:
                # aiohttp keeps the request, and all that was read of it, until the
                # next comes on the same connection; a copy ends with the answer.
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
                return _closing(413, f"a body has {most} bytes at most")
            finally:
                connection.answered(request.content.is_eof())

        return guarded

    def _too_much(self, request: web.Request) -> web.Response:
        self._refused(request.path, "busy")
        reason = "too much is on its way in; send it again"
        return _closing(503, reason, {"Retry-After": "1"})

    async def _read(self, request: web.Request, connection: _Connection) -> None:
        if (request.content_length or 0) > request.client_max_size:
            raise _TooLarge
        spent = self.now() - (connection.began or self.now())
        async with asyncio.timeout(self._seconds - spent) as connection.deadline:
            try:
                await request.read()
            except web.HTTPRequestEntityTooLarge:
                # Not as it is: its traceback would hold what was read of the body.
                raise _TooLarge from None
        connection.deadline = None


def _closing(
    status: int, error: str, headers: dict[str, str] | None = None
) -> web.Response:
    """Return an answer that comes before the end of the body."""
    answer = web.json_response({"error": error}, status=status, headers=headers)
    answer.force_close()
    return answer


def build(
    routes: Iterable[web.RouteDef], max_body_bytes: int, arrivals: RequestLimits
) -> web.Application:
    """Return the application; a larger body is answered 413, a slow one 408."""
    app = web.Application(client_max_size=max_body_bytes)
    # What no route takes is guarded as well: its connection has to become idle again.
    every = [*routes, web.route("*", "/{path:.*}", _unserved)]
    app.router.add_routes(_guarded(route, arrivals) for route in every)
    return app


def _guarded(route: web.RouteDef, arrivals: RequestLimits) -> web.RouteDef:
    handler = arrivals.guard(route.handler)
    return web.RouteDef(route.method, route.path, handler, route.kwargs)


async def _unserved(request: web.Request) -> web.Response:
    """Answer 404, or 405 where another method is served."""
    served: set[str] = set()
    for resource in request.app.router.resources():
        _, methods = await resource.resolve(request)
        served |= methods
    if others := served - {"*"}:
        raise web.HTTPMethodNotAllowed(request.method, others)
    raise web.HTTPNotFound
