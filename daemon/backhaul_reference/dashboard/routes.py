"""The table of dashboard pages and forms."""

import logging
from collections.abc import Awaitable, Callable

from aiohttp import web

from backhaul_reference.dashboard import (
    api_settings,
    collections,
    customers,
    discounts,
    login,
    menus,
    orders,
    products,
    rendering,
    sessions,
    settings,
    shipping_zones,
    test_controls,
)
from backhaul_reference.dashboard.page_context import LOGIN, SESSIONS, serving
from backhaul_reference.dashboard.sessions import PATH, Sessions
from backhaul_reference.platform.http.middleware import template_of
from backhaul_reference.platform.problems import Problem

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
    ("GET", "/", login.show_home),
    ("GET", PATH, login.show_home),
    ("GET", LOGIN, login.show_login),
    ("POST", LOGIN, login.log_in),
    ("POST", PATH + "/logout", login.log_out),
    ("GET", PATH + "/assets/{name}", login.show_asset),
)
ANYTHING_ELSE = ("GET", PATH + "/{rest:.*}", login.show_absent)
log = logging.getLogger(__name__)
Serve = Callable[[web.Request], Awaitable[web.StreamResponse]]


def add_routes(app: web.Application) -> None:
    app[rendering.TEMPLATES] = rendering.environment()
    app[SESSIONS] = Sessions()
    app[login.THROTTLE] = login.throttle()
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
