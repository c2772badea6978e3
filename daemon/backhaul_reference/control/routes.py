"""The table of control API operations."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from backhaul_reference.control import (
    shop_resources,
    store_actions,
    stores,
    test_controls,
)
from backhaul_reference.control.auth import admit, check_token
from backhaul_reference.platform.http.endpoint import mount
from backhaul_reference.platform.http.responses import data_answer, json_answer

Reset = Callable[[], Awaitable[None]]
RESET: web.AppKey[Reset] = web.AppKey("reset")


ENDPOINTS = (
    *stores.ENDPOINTS,
    *store_actions.ENDPOINTS,
    *shop_resources.ENDPOINTS,
    *test_controls.ENDPOINTS,
)


async def health(request: web.Request) -> web.Response:
    return json_answer({"status": "ok"})


async def reset(request: web.Request) -> web.Response:
    """Reset the store to its fixture; store id, API key and tokens stay the same."""
    check_token(request)
    await request.app[RESET]()
    return data_answer({"reset": True})


def add_routes(app: web.Application) -> None:
    app.router.add_get("/_control/healthz", health)
    app.router.add_post("/_control/reset", reset)
    app.router.add_get("/_control/clock", test_controls.get_clock)
    app.router.add_post("/_control/clock", test_controls.move_clock)
    app.router.add_get(test_controls.RETIREMENT_PATH, test_controls.get_retirement)
    app.router.add_put(test_controls.RETIREMENT_PATH, test_controls.put_retirement)
    app.router.add_delete(
        test_controls.RETIREMENT_PATH, test_controls.delete_retirement
    )
    app.router.add_get("/_control/outbox", store_actions.list_mails)
    app.router.add_get("/_control/stores", stores.list_stores)
    app.router.add_post("/_control/stores", stores.create_store)
    mount(app, ENDPOINTS, admit)
