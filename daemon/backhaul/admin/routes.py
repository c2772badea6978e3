"""Routes of the admin listener: health, metrics, JSON API, dashboard."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web
from loguru import logger

from backhaul.admin import login, sign_on
from backhaul.admin.api import routes as api_routes
from backhaul.admin.auth import Authorizer, NotFound, Route
from backhaul.admin.context import PageContext
from backhaul.admin.pages import (
    account,
    administration,
    catalogue,
    charts,
    commands,
    connectors,
    deliveries,
    events,
    live,
    mappings,
    mirror,
    order_backfill,
    orders,
    overview,
    quarantined_row,
    search,
    stock,
    tokens,
    views,
)
from backhaul.errors import BackhaulError, Busy
from backhaul.observe.metrics import CONTENT_TYPE
from backhaul.store.operators import Role

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from backhaul.admin.accounts import FirstLoginToken
    from backhaul.admin.auth import Handler
    from backhaul.admin.context import Origin, PageRequest, Services
    from backhaul.alerting.problem import Problem

READY, STANDBY, STARTING = "ready", "standby", "starting"
HEALTH_SECONDS = 1.0
"""How long a health check waits for the list of problems."""


def build_app(
    state: Callable[[], str],
    status: Callable[[], Awaitable[dict[str, Any]]],
    changes: Mapping[str, Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]],
    metrics: Callable[[], Awaitable[bytes]],
    problems: Callable[[], Awaitable[Sequence[Problem]]],
) -> web.Application:
    """Return the application; `state` is `ready`, `standby` or `starting`.

    Pass `changes` only for the unix socket: only the daemon's own user can open it, and
        this application checks no login.
    """

    async def healthz(_: web.Request) -> web.Response:
        # Always 200: after a failed check the process is restarted, which fixes none.
        return web.json_response(
            {"status": "ok", "problems": await _kinds_of_problems(problems)}
        )

    async def readyz(_: web.Request) -> web.Response:
        status = state()
        return web.json_response(
            {"status": status}, status=503 if status == STARTING else 200
        )

    async def api_status(_: web.Request) -> web.Response:
        return web.json_response(await status())

    async def numbers(_: web.Request) -> web.Response:
        headers = {"Content-Type": CONTENT_TYPE}
        return web.Response(body=await metrics(), headers=headers)

    async def change(request: web.Request) -> web.Response:
        action = changes.get(request.match_info["name"])
        if action is None:
            return _refused(404, f"no action is called {request.match_info['name']!r}")
        try:
            values = msgspec.json.decode(await request.read(), type=dict[str, Any])
            return web.json_response(await action(values))
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


async def _kinds_of_problems(
    problems: Callable[[], Awaitable[Sequence[Problem]]],
) -> list[dict[str, Any]] | None:
    """Return how many problems there are of each kind; None if that is unknown."""
    try:
        found = await asyncio.wait_for(problems(), HEALTH_SECONDS)
    except (BackhaulError, OSError):  # a TimeoutError is an OSError
        return None
    counts = Counter((problem.kind, str(problem.severity)) for problem in found)
    return [
        {"kind": kind, "severity": severity, "count": count}
        for (kind, severity), count in counts.items()
    ]


def _refused(status: int, error: str) -> web.Response:
    return web.json_response({"error": error}, status=status)


POLICY = "; ".join(
    [
        *("default-src 'none'", "script-src 'self'", "style-src 'self'"),
        *("img-src 'self'", "connect-src 'self'", "form-action 'self'"),
        *("base-uri 'none'", "frame-ancestors 'none'"),
    ]
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # With no-referrer a browser calls the origin of a form "null".
    "Referrer-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


HSTS = "max-age=31536000"
"""A year, for this host only: other hosts of the domain may not support https."""


async def harden(
    origin: Origin, request: web.BaseRequest, answer: web.StreamResponse
) -> None:
    """Add security headers, and `no-store` unless the handler set a cache policy.

    Requests over https, also through a proxy, get an HSTS header; browsers ignore it
    over http.
    """
    answer.headers.update(HEADERS)
    answer.headers.setdefault("Cache-Control", "no-store")
    if origin.is_https(request):
        answer.headers["Strict-Transport-Security"] = HSTS


async def show_unknown(_: PageContext, page_request: PageRequest) -> web.Response:
    """Say that an address has no page."""
    raise NotFound(
        f"The dashboard has no page {page_request.request.path}. The menu leads to all"
        " pages, and the search to all objects."
    )


ROUTES: tuple[Route, ...] = (
    *overview.ROUTES,
    *live.ROUTES,
    *events.ROUTES,
    *commands.ROUTES,
    *events.QUARANTINE_ROUTES,
    *quarantined_row.ROUTES,
    *mappings.ROUTES,
    *deliveries.ROUTES,
    *views.ROUTES,
    *administration.INCIDENT_ROUTES,
    *orders.ROUTES,
    *catalogue.ROUTES,
    *stock.ROUTES,
    *search.ROUTES,
    *mirror.ROUTES,
    *connectors.ROUTES,
    *administration.ROUTES,
    *charts.ROUTES,
    *administration.STORE_ROUTES,
    *order_backfill.ROUTES,
    *commands.TARGET_ROUTES,
    *account.ROUTES,
    *administration.USER_ROUTES,
    *tokens.ROUTES,
    *login.ROUTES,
)
UNKNOWN = Route("GET", "/{page:(?!api/|backhaul/).*}", Role.VIEWER, show_unknown)
"""What no other route takes, for browsers; the APIs answer for themselves."""


def install(app: web.Application, services: Services) -> None:
    """Add the dashboard to the application."""
    context = PageContext.open(services)
    authorizer = Authorizer(context)
    for route in ROUTES:
        app.router.add_route(route.method, route.path, authorizer.page(route))
    for opened in (*login.OPEN, *sign_on.OPEN):
        app.router.add_route(opened.method, opened.path, authorizer.open_page(opened))
    api_routes.install(app, context)
    app.router.add_get(UNKNOWN.path, _for_browsers(authorizer.page(UNKNOWN)))
    app.on_shutdown.append(context.live.end)
    app.on_response_prepare.append(partial(harden, context.origin))

    async def begin(_: web.Application) -> None:
        if await services.store.users.list() or not services.settings.admin.passwords:
            context.first_token.delete()
        else:
            _create_first_token(context.first_token)
        with suppress(Busy):
            await context.factors.reseal()

    app.on_startup.append(begin)


def _for_browsers(page: Handler) -> Handler:
    """Return a handler that gives the page to browsers, and 404 to other programs.

    A health check would take the redirect to the login for success.
    """

    async def handle(request: web.Request) -> web.StreamResponse:
        if "text/html" not in request.headers.get("Accept", ""):
            raise web.HTTPNotFound
        return await page(request)

    return handle


def _create_first_token(token: FirstLoginToken) -> None:
    """Create the first-login token and log its file; a failure is only logged."""
    try:
        token.create()
    except OSError as error:
        logger.bind(action="dashboard.first_login").warning(
            "the dashboard has no users, and the token for the first login cannot be"
            " written: {}; fix the cause, then open the dashboard",
            error,
        )
        return
    logger.bind(action="dashboard.first_login").warning(
        "the dashboard has no users: the token for the first login is in"
        " {}, in state_dir",
        token.file.name,
    )
