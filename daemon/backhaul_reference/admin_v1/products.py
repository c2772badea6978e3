"""/api/v1/products."""

from typing import Any

from aiohttp import web

from backhaul_reference.admin_v1.product_bodies import (
    ChangedProduct,
    NewProduct,
    values_of,
)
from backhaul_reference.state import products
from backhaul_reference.state.writer import Tx
from backhaul_reference.web import queries
from backhaul_reference.web.answers import data_answer, page_answer
from backhaul_reference.web.endpoint import Answer, Call, Endpoint

STATUSES = ("active", "draft", "archived")


async def list_products(call: Call) -> web.Response:
    query = call.query
    window = queries.window(query, sortable=True)
    filters: dict[str, Any] = {
        "search": queries.search(query),
        "status": queries.choice(query, "status", STATUSES),
        "external_id": queries.text(query, "externalId"),
    }
    listing = call.read(lambda rows: products.page(rows, call.store, filters, window))
    return page_answer(call.request, listing, window)


async def get_product(call: Call) -> web.Response:
    found = call.read(lambda rows: products.view(rows, call.store, call.path("id")))
    return data_answer(found)


async def create_product(call: Call) -> web.Response:
    values = values_of(call.body)

    def create(tx: Tx) -> Answer:
        made = products.create(tx, call.store, call.caller.source, values)
        return Answer(made, 201, location=f"/api/v1/products/{made['id']}")

    return await call.mutate(create)


async def update_product(call: Call) -> web.Response:
    values = values_of(call.body)
    store, source = call.store, call.caller.source
    return await call.mutate(
        lambda tx: Answer(products.update(tx, store, source, call.path("id"), values))
    )


async def delete_product(call: Call) -> web.Response:
    store, source = call.store, call.caller.source
    return await call.mutate(
        lambda tx: Answer(products.delete(tx, store, source, call.path("id")))
    )


PATH = "/api/v1/products"
READ, WRITE = "products:read", "products:write"
ENDPOINTS = (
    Endpoint("GET", PATH, list_products, READ),
    Endpoint("POST", PATH, create_product, WRITE, body=NewProduct),
    Endpoint("GET", PATH + "/{id}", get_product, READ),
    Endpoint("PUT", PATH + "/{id}", update_product, WRITE, body=ChangedProduct),
    Endpoint("DELETE", PATH + "/{id}", delete_product, WRITE),
)
