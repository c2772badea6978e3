"""The public listener: storefront, v1, OpenAPI document, health, robots."""

from collections.abc import Sequence
from functools import cache

from aiohttp import web
from aiohttp.typedefs import Middleware

from backhaul_reference.openapi.document import document
from backhaul_reference.platform.context import PLATFORM, Platform
from backhaul_reference.platform.http.endpoint import MAX_BODY_BYTES
from backhaul_reference.platform.http.fault_injection import inject_failure
from backhaul_reference.platform.http.middleware import answer_problems
from backhaul_reference.platform.http.quirk_adapter import LEVERS, answer_by_quirks
from backhaul_reference.platform.http.responses import json_answer, raw_answer
from backhaul_reference.platform.json_codec import encode
from backhaul_reference.platform.v1 import routes as v1_routes
from backhaul_reference.storefront import quotes, shop_page
from backhaul_reference.storefront import routes as storefront_routes

ROBOTS = "User-agent: *\nDisallow: /storefront/orders/track/\n"
OFFERED = (*storefront_routes.ENDPOINTS, quotes.QUOTE, *v1_routes.ENDPOINTS)


def public_app(
    platform: Platform, around: Sequence[Middleware] = ()
) -> web.Application:
    app = web.Application(
        middlewares=[
            *around,
            storefront_routes.allow_browsers,
            inject_failure,
            answer_by_quirks,
            answer_problems,
        ],
        client_max_size=MAX_BODY_BYTES,
    )
    app[PLATFORM] = platform
    app[LEVERS] = True
    app.router.add_get("/openapi.json", describe)
    app.router.add_get("/healthz", health)
    app.router.add_get("/robots.txt", robots)
    storefront_routes.add_routes(app)
    v1_routes.add_routes(app)
    shop_page.add_routes(app)
    return app


async def describe(request: web.Request) -> web.Response:
    return raw_answer(_description())


@cache
def _description() -> bytes:
    """The document, which is the same for the life of the program."""
    return encode(document(OFFERED))


async def health(request: web.Request) -> web.Response:
    return json_answer({"status": "ok"})


async def robots(request: web.Request) -> web.Response:
    return web.Response(text=ROBOTS)
