"""The table of storefront operations, and CORS."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from backhaul_reference.platform.http.endpoint import mount
from backhaul_reference.storefront import catalogue, orders, quotes
from backhaul_reference.storefront.store_access import PRIVATE, admit

ENDPOINTS = (
    *catalogue.ENDPOINTS,
    *quotes.ENDPOINTS,
    *orders.ENDPOINTS,
    *orders.PAYMENT_ENDPOINTS,
)
TRACKED = "/storefront/orders/track/"
OPEN_PREFIXES = ("/storefront/", "/api/shipping/")
CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": (
        "Link, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id"
    ),
}
PREFLIGHT = {
    **CORS,
    "Access-Control-Allow-Headers": "x-subdomain, content-type, idempotency-key",
    "Access-Control-Max-Age": "86400",
}
Next = Callable[[web.Request], Awaitable[web.StreamResponse]]


def add_routes(app: web.Application) -> None:
    mount(app, ENDPOINTS, admit)
    app.router.add_post(quotes.QUOTE_PATH, quotes.quote_shipping)
    app.router.add_route("OPTIONS", quotes.QUOTE_PATH, preflight({"POST"}))
    for path in sorted({endpoint.path for endpoint in ENDPOINTS}):
        methods = {one.method for one in ENDPOINTS if one.path == path}
        app.router.add_route("OPTIONS", path, preflight(methods))


def preflight(
    methods: set[str],
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    headers = {**PREFLIGHT, "Access-Control-Allow-Methods": ", ".join(sorted(methods))}

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=204, headers=headers)

    return answer


@web.middleware
async def allow_browsers(request: web.Request, handler: Next) -> web.StreamResponse:
    response = await handler(request)
    if request.path.startswith(OPEN_PREFIXES):
        # Whatever is answered below this path: the request's own path is the secret.
        secret = request.path.startswith(TRACKED)
        for name, value in (CORS | PRIVATE if secret else CORS).items():
            response.headers.setdefault(name, value)
    return response
