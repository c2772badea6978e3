"""Routes of the admin listener: health, metrics, JSON API, dashboard."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web
from loguru import logger

from backhaul.admin import login
from backhaul.admin.auth import Guard, Route
from backhaul.admin.client_address import harden
from backhaul.admin.context import Desk
from backhaul.admin.pages import (
    administration,
    commands,
    events,
    incidents,
    mirror,
    overview,
)
from backhaul.errors import BackhaulError, Busy
from backhaul.observe.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from backhaul.admin.accounts import FirstToken
    from backhaul.admin.context import Given


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


ROUTES: tuple[Route, ...] = (
    *overview.ROUTES,
    *events.ROUTES,
    *commands.ROUTES,
    *events.QUARANTINE_ROUTES,
    *incidents.ROUTES,
    *mirror.ROUTES,
    *administration.ROUTES,
    *administration.STORE_ROUTES,
    *commands.TARGET_ROUTES,
    *administration.USER_ROUTES,
    *login.ROUTES,
)


def install(app: web.Application, given: Given) -> None:
    """Serve the dashboard beside what the application serves already."""
    desk = Desk.open(given)
    guard = Guard(desk)
    for route in ROUTES:
        app.router.add_route(route.method, route.path, guard.pages(route))
    for opened in login.OPEN:
        app.router.add_route(opened.method, opened.path, guard.door(opened))
    app.on_response_prepare.append(partial(harden, desk.origin))

    async def begin(_: web.Application) -> None:
        if await given.users.list():
            desk.first_token.spend()
        else:
            _tell_of_first(desk.first_token)

    async def end(_: web.Application) -> None:
        desk.reading.close()

    app.on_startup.append(begin)
    app.on_cleanup.append(end)


def _tell_of_first(token: FirstToken) -> None:
    """Make the token and say where it is; what fails here ends no daemon."""
    try:
        token.make()
    except OSError as error:
        logger.bind(action="dashboard.first").warning(
            "nobody may use the dashboard yet, and the token for the first login cannot"
            " be written: {}; mend it, then open the dashboard",
            error,
        )
        return
    logger.bind(action="dashboard.first").warning(
        "nobody may use the dashboard yet: the token for the first login is in"
        " {}, in state_dir",
        token.file.name,
    )
