"""The table of dashboard pages and forms, and the pages that need no store."""

import logging
from collections.abc import Awaitable, Callable
from importlib import resources

from aiohttp import web

from backhaul_reference.dashboard import (
    api_settings,
    collections,
    customers,
    discounts,
    menus,
    orders,
    products,
    rendering,
    sessions,
    settings,
    shipping_zones,
    test_controls,
)
from backhaul_reference.dashboard.page_context import serving
from backhaul_reference.dashboard.sessions import (
    LOGIN,
    PATH,
    SESSIONS,
    Sessions,
    redirect,
)
from backhaul_reference.platform.context import PLATFORM
from backhaul_reference.platform.http.middleware import template_of
from backhaul_reference.platform.problems import Problem
from backhaul_reference.platform.state import stores

ASSETS = {"style.css": "text/css", "htmx.min.js": "text/javascript"}


async def show_home(request: web.Request) -> web.Response:
    if request.app[SESSIONS].find(request) is None:
        return redirect(LOGIN)
    found = request.app[PLATFORM].reader.read(stores.every)
    if not found:
        problem = Problem(404, "STORE_NOT_FOUND", "there is no store yet")
        return rendering.error_page(request, problem)
    return redirect(f"{PATH}/stores/{found[0].subdomain}/orders")


async def show_absent(request: web.Request) -> web.Response:
    problem = Problem(404, "PAGE_NOT_FOUND", "this page does not exist")
    return rendering.error_page(request, problem)


async def show_asset(request: web.Request) -> web.Response:
    name = request.match_info["name"]
    if name not in ASSETS:
        raise web.HTTPNotFound
    file = resources.files("backhaul_reference.dashboard") / "assets" / name
    return web.Response(
        body=file.read_bytes(), content_type=ASSETS[name], charset="utf-8"
    )


ROUTES = (
    *orders.ROUTES,
    *orders.NEW_ORDER_ROUTES,
    *customers.ROUTES,
    *discounts.ROUTES,
    *products.ROUTES,
    *products.EDIT_ROUTES,
    *collections.ROUTES,
    *menus.ROUTES,
    *settings.ROUTES,
    *settings.NEW_STORE_ROUTES,
    *shipping_zones.ROUTES,
    *api_settings.ROUTES,
    *customers.MAIL_ROUTES,
    *test_controls.ROUTES,
)
OPEN = (
    ("GET", "/", show_home),
    ("GET", PATH, show_home),
    ("GET", LOGIN, sessions.show_login),
    ("POST", LOGIN, sessions.log_in),
    ("POST", PATH + "/logout", sessions.log_out),
    ("GET", PATH + "/assets/{name}", show_asset),
)
ANYTHING_ELSE = ("GET", PATH + "/{rest:.*}", show_absent)
log = logging.getLogger(__name__)
Serve = Callable[[web.Request], Awaitable[web.StreamResponse]]


def add_routes(app: web.Application) -> None:
    app[rendering.TEMPLATES] = rendering.environment()
    app[SESSIONS] = Sessions()
    app[sessions.THROTTLE] = sessions.throttle()
    for method, path, serve in OPEN:
        app.router.add_route(method, path, _guarded(serve))
    for route in ROUTES:
        app.router.add_route(route.method, route.path, _guarded(serving(route)))
    method, path, serve = ANYTHING_ELSE
    app.router.add_route(method, path, _guarded(serve))


def _guarded(serve: Serve) -> Serve:
    async def guarded(request: web.Request) -> web.StreamResponse:
        try:
            response = await serve(request)
        except web.HTTPException:
            raise
        except Exception:
            log.exception("dashboard failed route=%s", template_of(request))
            problem = Problem(500, "INTERNAL_ERROR", "the failure was logged")
            response = rendering.error_page(request, problem)
        response.headers.update(sessions.HEADERS)
        return response

    return guarded
