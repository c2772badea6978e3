"""/api/v1/store."""

from aiohttp import web

from backhaul_reference.state import stores
from backhaul_reference.web.answers import data_answer
from backhaul_reference.web.endpoint import Call, Endpoint


async def get_store(call: Call) -> web.Response:
    return data_answer(stores.v1_view(call.store))


ENDPOINTS = (Endpoint("GET", "/api/v1/store", get_store, "store:read"),)
