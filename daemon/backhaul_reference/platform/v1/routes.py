"""The table of v1 operations, and /api/v1/store."""

from aiohttp import web

from backhaul_reference.platform.http.endpoint import Call, Endpoint, mount
from backhaul_reference.platform.http.responses import data_answer
from backhaul_reference.platform.state import stores
from backhaul_reference.platform.v1 import (
    customers,
    inventory,
    orders,
    products,
    webhooks,
)
from backhaul_reference.platform.v1.auth import admit


async def get_store(call: Call) -> web.Response:
    return data_answer(stores.v1_view(call.store))


STORE_ENDPOINTS = (Endpoint("GET", "/api/v1/store", get_store, "store:read"),)


ENDPOINTS = (
    *products.ENDPOINTS,
    *orders.ENDPOINTS,
    *inventory.ENDPOINTS,
    *customers.ENDPOINTS,
    *STORE_ENDPOINTS,
    *webhooks.ENDPOINTS,
    *webhooks.DELIVERY_ENDPOINTS,
)


def add_routes(app: web.Application) -> None:
    mount(app, ENDPOINTS, admit)
