"""The admin application: health, readiness and the daemon's live state as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def build(
    ready: Callable[[], bool], status: Callable[[], Awaitable[dict[str, Any]]]
) -> web.Application:
    """Return the application. Served on the admin address and on the unix socket."""

    async def healthz(_: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def readyz(_: web.Request) -> web.Response:
        is_ready = ready()
        body = {"status": "ready" if is_ready else "starting"}
        return web.json_response(body, status=200 if is_ready else 503)

    async def api_status(_: web.Request) -> web.Response:
        return web.json_response(await status())

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/api/status", api_status)
    return app
