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
    # What no route takes is guarded as well: its connection has to become idle again.
    every = [*routes, web.route("*", "/{path:.*}", _unserved)]
    app.router.add_routes(_guarded(route, arrivals) for route in every)
    return app


def _guarded(route: web.RouteDef, arrivals: Arrivals) -> web.RouteDef:
    handler = arrivals.guard(route.handler)
    return web.RouteDef(route.method, route.path, handler, route.kwargs)


async def _unserved(request: web.Request) -> web.Response:
    """Answer 404, or 405 where another method is served."""
    served: set[str] = set()
    for resource in request.app.router.resources():
        _, methods = await resource.resolve(request)
        served |= methods
    if others := served - {"*"}:
        raise web.HTTPMethodNotAllowed(request.method, others)
    raise web.HTTPNotFound
