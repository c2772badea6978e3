"""Serves the HTTP routes of connectors, below `/connect/{connection}`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, TypeAlias

from aiohttp import web
from loguru import logger

from backhaul.errors import Busy
from backhaul.runtime.loop import UnderWay
from backhaul_sdk import CheckFailed, HttpRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from backhaul_sdk import Route


def check(instance: str, wanted: Sequence[Route]) -> None:
    """Raise CheckFailed, with the reason, if a route cannot be served."""
    router = web.UrlDispatcher()
    for route in wanted:
        try:
            _check_path(route.path)
            router.add_routes(routes(instance, [route]))
        except (ValueError, RuntimeError) as error:
            asked = f"the route {route.method} {route.path}"
            raise CheckFailed(f"{asked} cannot be served: {error}") from None


def _check_path(path: str) -> None:
    if not path.startswith("/"):
        raise ValueError("the path must begin with a slash")
    if {"?", "#"} & set(path) or {".", ".."} & set(path.split("/")):
        raise ValueError("the path must not contain '?' or '#', or a part '.' or '..'")


def routes(instance: str, wanted: Sequence[Route]) -> list[web.RouteDef]:
    """Return the routes of one connection for the public listener."""
    return [
        web.route(route.method, f"/connect/{instance}{route.path}", _serve(route))
        for route in wanted
    ]


Elsewhere: TypeAlias = "Callable[[str, web.Request], Awaitable[web.StreamResponse]]"
"""Answers a request for the connection with this name."""


async def _not_found(_: str, __: web.Request) -> NoReturn:
    raise web.HTTPNotFound


class ConnectorRoutes:
    """The routes of the connections that run now; they change while it serves.

    `elsewhere` answers the requests for a connection that does not run here.
    """

    def __init__(self, elsewhere: Elsewhere = _not_found) -> None:
        self._routers: dict[str, web.UrlDispatcher] = {}
        self._elsewhere = elsewhere
        self._under_way = UnderWay()
        self.idle = self._under_way.idle

    def serve(self, instances: Sequence[str], wanted: Sequence[web.RouteDef]) -> None:
        """Serve the routes of these connections."""
        router = web.UrlDispatcher()
        router.add_routes(wanted)
        self._routers |= dict.fromkeys(instances, router)

    def remove(self, instances: Sequence[str]) -> None:
        """Serve the routes of these connections no longer."""
        for instance in instances:
            self._routers.pop(instance, None)

    def route(self) -> web.RouteDef:
        """Return the one route for the public listener."""
        return web.route("*", "/connect/{connection}{rest:.*}", self._handle)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["connection"]
        router = self._routers.get(name)
        if router is None:
            return await self._elsewhere(name, request)
        with self._under_way.one(name):
            found = await router.resolve(request)
            return await found.handler(request)


def _serve(route: Route) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        asked = HttpRequest(
            method=request.method,
            path=request.path,
            headers={name.lower(): value for name, value in request.headers.items()},
            body=await request.read(),
            query=dict(request.query),
        )
        try:
            answer = await route.handler(asked)
        except Busy as error:
            retry = str(error.retry_after_seconds)
            return _failed(503, "not stored; send it again", {"Retry-After": retry})
        except Exception as error:  # noqa: BLE001 - a connector's code
            logger.bind(action="connector.request_failed").error(
                "{}: {}: {}", request.path, type(error).__name__, error
            )
            return _failed(500, "the connector failed; the log says why", {})
        headers = dict(answer.headers)
        if answer.content is not None:
            return web.Response(
                body=answer.content, status=answer.status, headers=headers
            )
        return web.json_response(
            dict(answer.body), status=answer.status, headers=headers
        )

    return handle


def _failed(status: int, what: str, headers: dict[str, str]) -> web.Response:
    body = {"accepted": False, "what": what}
    return web.json_response(body, status=status, headers=headers)
