"""The admin application: health, readiness, live state and changes, as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from backhaul.errors import BackhaulError, Busy
from backhaul.observe.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping


def build(
    ready: Callable[[], bool],
    status: Callable[[], Awaitable[dict[str, Any]]],
    changes: Mapping[str, Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]],
    metrics: Callable[[], Awaitable[bytes]],
) -> web.Application:
    """Return the application.

    `changes` are for the unix socket alone, which only its owner may open: nobody is
    asked who they are here.
    """

    async def healthz(_: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def readyz(_: web.Request) -> web.Response:
        is_ready = ready()
        body = {"status": "ready" if is_ready else "starting"}
        return web.json_response(body, status=200 if is_ready else 503)

    async def api_status(_: web.Request) -> web.Response:
        return web.json_response(await status())

    async def numbers(_: web.Request) -> web.Response:
        headers = {"Content-Type": CONTENT_TYPE}
        return web.Response(body=await metrics(), headers=headers)

    async def change(request: web.Request) -> web.Response:
        wanted = changes.get(request.match_info["name"])
        if wanted is None:
            return _refused(404, f"there is no change {request.match_info['name']!r}")
        try:
            asked = msgspec.json.decode(await request.read(), type=dict[str, Any])
            return web.json_response(await wanted(asked))
        except Busy as error:
            return _refused(503, str(error))
        except (BackhaulError, msgspec.DecodeError) as error:
            return _refused(422, str(error))

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/api/status", api_status)
    app.router.add_get("/metrics", numbers)
    if changes:
        app.router.add_post("/api/changes/{name:[a-z]+/[a-z]+}", change)
    return app


def _refused(status: int, error: str) -> web.Response:
    return web.json_response({"error": error}, status=status)
