"""The control API: access by the control token, and the table of operations."""

import hmac
from collections.abc import Awaitable, Callable

from aiohttp import web

from backhaul_reference.control import (
    shop_resources,
    state_export,
    stores,
    test_controls,
)
from backhaul_reference.platform.context import PLATFORM
from backhaul_reference.platform.formats import bytes_sent
from backhaul_reference.platform.http.endpoint import Caller, Endpoint, mount
from backhaul_reference.platform.http.responses import data_answer, json_answer
from backhaul_reference.platform.problems import Problem, not_found
from backhaul_reference.platform.state import inventory
from backhaul_reference.platform.state.stores import by_subdomain

CONTROL_TOKEN = web.AppKey("control_token", str)
Reset = Callable[[], Awaitable[None]]
RESET: web.AppKey[Reset] = web.AppKey("reset")
Serve = Callable[[web.Request], Awaitable[web.StreamResponse]]


def check_token(request: web.Request) -> None:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    expected = request.app[CONTROL_TOKEN].encode()
    right = hmac.compare_digest(bytes_sent(token.strip()), expected)
    if scheme.lower() != "bearer" or not right:
        raise Problem(
            401,
            "CONTROL_TOKEN_INVALID",
            "the control token is required",
            headers={"WWW-Authenticate": 'Bearer realm="control"'},
        )


def admit(request: web.Request, endpoint: Endpoint) -> Caller:
    """Check the token and return the caller of an operation on one store."""
    check_token(request)
    reader, subdomain = request.app[PLATFORM].reader, request.match_info["subdomain"]
    store = reader.read(lambda rows: by_subdomain(rows, subdomain))
    if store is None:
        raise not_found("STORE")
    return Caller(store, "dashboard", inventory.DASHBOARD)


def guarded(serve: Serve) -> Serve:
    async def check_and_serve(request: web.Request) -> web.StreamResponse:
        check_token(request)
        return await serve(request)

    return check_and_serve


async def health(request: web.Request) -> web.Response:
    return json_answer({"status": "ok"})


async def reset(request: web.Request) -> web.Response:
    """Reset the store to its fixture; store id, API key and tokens stay the same."""
    await request.app[RESET]()
    return data_answer({"reset": True})


SERVER_ROUTES = (
    ("POST", "/_control/reset", reset),
    ("GET", "/_control/clock", test_controls.get_clock),
    ("POST", "/_control/clock", test_controls.move_clock),
    ("GET", "/_control/retirement", test_controls.get_retirement),
    ("PUT", "/_control/retirement", test_controls.put_retirement),
    ("DELETE", "/_control/retirement", test_controls.delete_retirement),
    ("GET", "/_control/outbox", stores.list_mails),
    ("GET", "/_control/stores", stores.list_stores),
    ("POST", "/_control/stores", stores.create_store),
)
"""Operations on the whole server; the others name a store."""
ENDPOINTS = (
    *stores.ENDPOINTS,
    *state_export.ENDPOINTS,
    *shop_resources.ENDPOINTS,
    *test_controls.ENDPOINTS,
)


def add_routes(app: web.Application) -> None:
    app.router.add_get("/_control/healthz", health)
    for method, path, serve in SERVER_ROUTES:
        if method == "GET":
            app.router.add_get(path, guarded(serve))
        else:
            app.router.add_route(method, path, guarded(serve))
    mount(app, ENDPOINTS, admit)
