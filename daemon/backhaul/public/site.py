"""The public application: limits, and routes that the composition root hands in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backhaul.public.arriving import Arrivals


def build(
    routes: Iterable[web.RouteDef], max_body_bytes: int, arrivals: Arrivals
) -> web.Application:
    """Return the application; a larger body is answered 413, a slow one 408."""
    app = web.Application(client_max_size=max_body_bytes)
    app.on_response_prepare.append(arrivals.unserved)
    app.router.add_routes(_guarded(route, arrivals) for route in routes)
    return app


def _guarded(route: web.RouteDef, arrivals: Arrivals) -> web.RouteDef:
    handler = arrivals.guard(route.handler)
    return web.RouteDef(route.method, route.path, handler, route.kwargs)
