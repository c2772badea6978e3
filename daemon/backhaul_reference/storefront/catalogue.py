"""/storefront: store, products, collections and navigation."""

from collections.abc import Callable
from typing import Any, TypeVar

from aiohttp import web
from yarl import URL

from backhaul_reference.platform import models
from backhaul_reference.platform.http import query_params
from backhaul_reference.platform.http.endpoint import Call, Endpoint
from backhaul_reference.platform.http.responses import (
    Page,
    data_answer,
    data_body,
    page_of,
    raw_answer,
)
from backhaul_reference.platform.state import (
    collections,
    menus,
    products,
    stores,
)
from backhaul_reference.platform.state.database import Listing, Rows

T = TypeVar("T")


async def get_store(call: Call) -> web.Response:
    return data_answer(stores.storefront_view(call.store))


async def list_products(call: Call) -> web.Response:
    url = call.request.rel_url
    # Settings are no part of the catalogue; of them only quirks change the page.
    key = (call.store.id, call.store.quirks.texts, url.raw_path_qs)
    read = call.platform.reader.recall_page
    page = read(key, lambda rows: _products(rows, call, url))
    return page.answer()


def _products(rows: Rows, call: Call, url: URL) -> Page:
    query = call.query
    window = query_params.window(query)
    filters: dict[str, Any] = {"search": query_params.search(query)}
    collection_id = query_params.text(query, "collectionId")
    within = None
    if collection_id is not None:
        collection = collections.visible(rows, call.store, collection_id)
        if collection is None:
            return page_of(url, Listing([], 0), window)
        within = collections.clause(collection)
    found = products.visible_page(rows, call.store, filters, window, within)
    return page_of(url, found, window)


async def get_product(call: Call) -> web.Response:
    wanted = call.path("handle_or_id")

    def find(rows: Rows) -> bytes:
        return data_body(products.visible_view(rows, call.store, wanted))

    return raw_answer(_recall(call, find))


async def list_collections(call: Call) -> web.Response:
    url, window = call.request.rel_url, query_params.window(call.query)

    def find(rows: Rows) -> Page:
        found = collections.visible_page(rows, call.store, window)
        return page_of(url, found, window)

    return _recall(call, find).answer()


async def get_collection(call: Call) -> web.Response:
    handle = call.path("handle")

    def find(rows: Rows) -> bytes:
        row = collections.visible_by_handle(rows, call.store, handle)
        shown = models.CollectionWithProducts(
            collection=collections.storefront_view(rows, row),
            products=products.in_collection(rows, call.store, row),
        )
        return data_body(shown)

    return raw_answer(_recall(call, find))


def _recall(call: Call, question: Callable[[Rows], T]) -> T:
    key = (call.store.id, call.request.rel_url.raw_path_qs)
    return call.platform.reader.recall(key, question)


async def list_menus(call: Call) -> web.Response:
    found = call.read(lambda rows: menus.storefront_views(rows, call.store.id))
    return data_answer(found)


async def get_menu(call: Call) -> web.Response:
    handle = call.path("handle")
    found = call.read(lambda rows: menus.storefront_view(rows, call.store.id, handle))
    return data_answer(found)


ENDPOINTS = (
    Endpoint("GET", "/storefront/store", get_store),
    Endpoint("GET", "/storefront/products", list_products),
    Endpoint("GET", "/storefront/products/{handle_or_id}", get_product),
    Endpoint("GET", "/storefront/collections", list_collections),
    Endpoint("GET", "/storefront/collections/{handle}", get_collection),
    Endpoint("GET", "/storefront/navigation", list_menus),
    Endpoint("GET", "/storefront/navigation/{handle}", get_menu),
)
