"""/storefront/store and /storefront/products."""

from typing import Any

from aiohttp import web

from backhaul_reference.state import products, stores
from backhaul_reference.state.paging import Listing
from backhaul_reference.web import queries
from backhaul_reference.web.answers import data_answer, page_answer
from backhaul_reference.web.endpoint import Call, Endpoint


async def get_store(call: Call) -> web.Response:
    return data_answer(stores.storefront_view(call.store))


async def list_products(call: Call) -> web.Response:
    query = call.request.query
    window = queries.window(query)
    filters: dict[str, Any] = {"search": queries.search(query)}
    if "collectionId" in query:
        # No collection is published, and a hidden one holds nothing.
        return page_answer(call.request, Listing([], 0), window)
    listing = call.read(
        lambda rows: products.visible_page(rows, call.store, filters, window)
    )
    return page_answer(call.request, listing, window)


async def get_product(call: Call) -> web.Response:
    wanted = call.path("handle_or_id")
    found = call.read(lambda rows: products.visible_view(rows, call.store, wanted))
    return data_answer(found)


ENDPOINTS = (
    Endpoint("GET", "/storefront/store", get_store),
    Endpoint("GET", "/storefront/products", list_products),
    Endpoint("GET", "/storefront/products/{handle_or_id}", get_product),
)
