"""Every page and every form of the dashboard."""

import logging
from collections.abc import Awaitable, Callable

from aiohttp import web

from backhaul_reference.dashboard import (
    api,
    collections,
    discounts,
    entrance,
    guards,
    levers,
    mails,
    navigation,
    opening,
    orders,
    people,
    product_editing,
    products,
    rendering,
    settings,
    staff_orders,
    webhooks,
    zones,
)
from backhaul_reference.dashboard.sessions import PATH, Sessions
from backhaul_reference.dashboard.visit import LOGIN, SESSIONS, serving
from backhaul_reference.problems import Problem
from backhaul_reference.web.access_log import template_of

ROUTES = (
    *orders.ROUTES,
    *staff_orders.ROUTES,
    *people.ROUTES,
    *discounts.ROUTES,
    *products.ROUTES,
    *product_editing.ROUTES,
    *collections.ROUTES,
    *navigation.ROUTES,
    *settings.ROUTES,
    *opening.ROUTES,
    *zones.ROUTES,
    *api.ROUTES,
    *webhooks.ROUTES,
    *mails.ROUTES,
    *levers.ROUTES,
)
OPEN = (
    ("GET", "/", entrance.show_home),
    ("GET", PATH, entrance.show_home),
    ("GET", LOGIN, entrance.show_login),
    ("POST", LOGIN, entrance.log_in),
    ("POST", PATH + "/logout", entrance.log_out),
    ("GET", PATH + "/assets/{name}", entrance.show_asset),
)
ANYTHING_ELSE = ("GET", PATH + "/{rest:.*}", entrance.show_absent)
log = logging.getLogger(__name__)
Serve = Callable[[web.Request], Awaitable[web.StreamResponse]]


def add_routes(app: web.Application) -> None:
    app[rendering.TEMPLATES] = rendering.environment()
    app[SESSIONS] = Sessions()
    app[entrance.THROTTLE] = entrance.throttle()
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
        response.headers.update(guards.HEADERS)
        return response

    return guarded
