"""A real HTTP server on loopback that a connector calls, and what can befall it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiohttp import web

from backhaul_sdk.testing import Failure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp.typedefs import Handler

    from backhaul_sdk import Connector


class Site:
    """Serves one application on one port, which it keeps while it is unplugged."""

    def __init__(self) -> None:
        self.app = web.Application(middlewares=[self._befall])
        self.failure: Failure | None = None
        self.tries = 0
        self.port = 0
        self._runner: web.AppRunner | None = None
        self._made: list[Connector[Any]] = []

    def made(self, connector: Connector[Any]) -> Connector[Any]:
        """Return a connector that is closed when the site is."""
        self._made.append(connector)
        return connector

    async def close(self) -> None:
        for connector in self._made:
            await connector.close()
        await self.unplug()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def network(self) -> dict[str, Any]:
        """Settings with which a connector may reach it."""
        return {"allow": ["127.0.0.1"], "ports": [self.port], "allow_http": True}

    async def plug_in(self) -> None:
        if self._runner is None:
            self._runner = web.AppRunner(
                self.app, shutdown_timeout=0.1, access_log=None
            )
            await self._runner.setup()
            site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
            await site.start()
            self.port = self._runner.addresses[0][1]

    async def unplug(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            for site in list(runner.sites):
                await site.stop()
            if runner.server is not None:
                runner.server.pre_shutdown()
                await runner.server.shutdown(0)

    @web.middleware
    async def _befall(
        self, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        if request.method == "GET":
            return await handler(request)
        self.tries += 1
        return await BEFALLING[self.failure](request, handler)


async def _nothing(request: web.Request, handler: Handler) -> web.StreamResponse:
    return await handler(request)


async def _refuse(request: web.Request, handler: Handler) -> web.StreamResponse:
    return web.json_response({"error": "the year is closed"}, status=422)


async def _busy(request: web.Request, handler: Handler) -> web.StreamResponse:
    return web.Response(status=429, headers={"Retry-After": "7"})


async def _break(request: web.Request, handler: Handler) -> web.StreamResponse:
    return _cut(request)


async def _lose(request: web.Request, handler: Handler) -> web.StreamResponse:
    await handler(request)
    return _cut(request)


async def _babble(request: web.Request, handler: Handler) -> web.StreamResponse:
    await handler(request)
    return web.Response(body=b"\xff<html", content_type="text/html")


def _cut(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


BEFALLING: dict[
    Failure | None,
    Callable[[web.Request, Handler], Awaitable[web.StreamResponse]],
] = {
    None: _nothing,
    Failure.REFUSES: _refuse,
    Failure.BUSY: _busy,
    Failure.BREAKS: _break,
    Failure.LOSES_ANSWER: _lose,
    Failure.BABBLES: _babble,
}
