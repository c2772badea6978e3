"""The public listener: the storefront, v1, and what robots and monitors ask."""

from aiohttp import web

from backhaul_reference.admin_v1 import routes as v1_routes
from backhaul_reference.context import PLATFORM, Platform
from backhaul_reference.storefront import routes as storefront_routes
from backhaul_reference.web.answers import json_answer
from backhaul_reference.web.endpoint import MAX_BODY_BYTES
from backhaul_reference.web.middleware import answer_problems

ROBOTS = "User-agent: *\nDisallow: /storefront/orders/track/\n"


def public_app(platform: Platform) -> web.Application:
    app = web.Application(
        middlewares=[storefront_routes.allow_browsers, answer_problems],
        client_max_size=MAX_BODY_BYTES,
    )
    app[PLATFORM] = platform
    app.router.add_get("/healthz", health)
    app.router.add_get("/robots.txt", robots)
    storefront_routes.add_routes(app)
    v1_routes.add_routes(app)
    return app


async def health(request: web.Request) -> web.Response:
    return json_answer({"status": "ok"})


async def robots(request: web.Request) -> web.Response:
    return web.Response(text=ROBOTS)
