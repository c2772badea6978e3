"""/api/v1/store and /api/v1/customers."""

from aiohttp import web

from backhaul_reference.state import customers, stores
from backhaul_reference.web import queries
from backhaul_reference.web.answers import data_answer, page_answer
from backhaul_reference.web.endpoint import Call, Endpoint


async def get_store(call: Call) -> web.Response:
    return data_answer(stores.v1_view(call.store))


async def list_customers(call: Call) -> web.Response:
    window = queries.window(call.request.query, sortable=True)
    listing = call.read(lambda rows: customers.page(rows, call.store, window))
    return page_answer(call.request, listing, window)


async def get_customer(call: Call) -> web.Response:
    found = call.read(lambda rows: customers.view(rows, call.store, call.path("id")))
    return data_answer(found)


ENDPOINTS = (
    Endpoint("GET", "/api/v1/store", get_store, "store:read"),
    Endpoint("GET", "/api/v1/customers", list_customers, "customers:read"),
    Endpoint("GET", "/api/v1/customers/{id}", get_customer, "customers:read"),
)
