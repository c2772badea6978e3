"""Every operation of the control API."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from backhaul_reference.control import (
    levers,
    outbox,
    retirement,
    shop,
    store_work,
    stores,
)
from backhaul_reference.control.admission import admit, check_token
from backhaul_reference.web.answers import data_answer, json_answer
from backhaul_reference.web.endpoint import mount

Reset = Callable[[], Awaitable[None]]
RESET: web.AppKey[Reset] = web.AppKey("reset")


ENDPOINTS = (
    *stores.ENDPOINTS,
    *store_work.ENDPOINTS,
    *shop.ENDPOINTS,
    *levers.ENDPOINTS,
)


async def health(request: web.Request) -> web.Response:
    return json_answer({"status": "ok"})


async def reset(request: web.Request) -> web.Response:
    """Back to the fixture; store id, key and tokens stay what they were."""
    check_token(request)
    await request.app[RESET]()
    return data_answer({"reset": True})


def add_routes(app: web.Application) -> None:
    app.router.add_get("/_control/healthz", health)
    app.router.add_post("/_control/reset", reset)
    app.router.add_get("/_control/clock", levers.get_clock)
    app.router.add_post("/_control/clock", levers.move_clock)
    app.router.add_get(retirement.PATH, retirement.get)
    app.router.add_put(retirement.PATH, retirement.put)
    app.router.add_delete(retirement.PATH, retirement.delete)
    app.router.add_get("/_control/outbox", outbox.list_mails)
    app.router.add_get("/_control/stores", stores.list_stores)
    app.router.add_post("/_control/stores", stores.create_store)
    mount(app, ENDPOINTS, admit)
