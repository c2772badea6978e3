"""The public application: limits, and routes that the composition root hands in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backhaul.public.arriving import Arrivals


def build(
    routes: Iterable[web.AbstractRouteDef], max_body_bytes: int, arrivals: Arrivals
) -> web.Application:
    """Return the application; a larger body is answered 413, a slow one 408."""
    app = web.Application(client_max_size=max_body_bytes, middlewares=[arrivals.arrive])
    app.router.add_routes(routes)
    return app
