"""The admin application: health, readiness, live state, and what may be asked of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from aiohttp import web

from backhaul.errors import BackhaulError, Busy

if TYPE_CHECKING:
    from collections.abc import Mapping

Action: TypeAlias = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


def build(
    ready: Callable[[], bool],
    status: Callable[[], Awaitable[dict[str, Any]]],
    actions: Mapping[str, Action] | None = None,
) -> web.Application:
    """Return the application. Served on the admin address and on the unix socket.

    `actions` change something: they are for the socket, which only its owner can open.
    """

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
    for name, act in (actions or {}).items():
        app.router.add_post(f"/api/{name}", _handler(act))
    return app


def _handler(act: Action) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        try:
            return web.json_response(await act(await request.json()))
        except Busy as error:
            return web.json_response({"error": str(error)}, status=503)
        except BackhaulError as error:
            return web.json_response({"error": str(error)}, status=422)

    return handle
