"""The table of endpoints of the HTTP API, and the listener's routes to them."""

from __future__ import annotations

from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from backhaul.admin.api import (
    decisions,
    lists,
    openapi,
    quarantine,
    state,
    stream,
    submissions,
)
from backhaul.admin.api.authentication import TokenCheck
from backhaul.admin.api.endpoint import PREFIX, Api, Call, Endpoint
from backhaul.admin.api.problems import ApiError
from backhaul.admin.api.streams import Streams

if TYPE_CHECKING:
    from aiohttp import web

    from backhaul.admin.context import PageContext


async def show_openapi(_: Api, __: Call) -> object:
    """Show the description of this API."""
    return described()


@cache
def described() -> dict[str, Any]:
    """Return the OpenAPI document of all endpoints."""
    return openapi.document(ENDPOINTS)


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/openapi.json",
        needs=None,
        handler=show_openapi,
        answer=openapi.Document,
    ),
    *state.ENDPOINTS,
    *lists.ENDPOINTS,
    *submissions.ENDPOINTS,
    *quarantine.ENDPOINTS,
    *decisions.ENDPOINTS,
    *stream.ENDPOINTS,
)
"""Every endpoint: it is served, and it is in the document."""


def install(app: web.Application, context: PageContext) -> None:
    """Add the API to the admin listener."""
    api = Api(context, TokenCheck(context), Streams())
    for each in ENDPOINTS:
        app.router.add_route(each.method, PREFIX + each.path, each.served_by(api))
    app.router.add_route("*", PREFIX + "{rest:(/.*)?}", _no_endpoint)
    app[stream.STREAMS] = api.streams
    app.on_shutdown.append(api.streams.end)


async def _no_endpoint(request: web.Request) -> web.Response:
    """Answer a request for which there is no endpoint, or none with its method."""
    served: set[str] = set()
    for resource in request.app.router.resources():
        _, methods = await resource.resolve(request)
        served |= methods
    if others := served - {"*"}:
        allowed = ", ".join(sorted(others))
        return ApiError(
            HTTPStatus.METHOD_NOT_ALLOWED,
            f"{request.path} does not take {request.method}; it takes {allowed}",
            {"Allow": allowed},
        ).response()
    return ApiError(
        HTTPStatus.NOT_FOUND,
        f"the API has no endpoint {request.path}; {PREFIX}/openapi.json lists them",
    ).response()
