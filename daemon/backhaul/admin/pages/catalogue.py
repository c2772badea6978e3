"""The lists of products and of customers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.admin.auth import Route
from backhaul.admin.context import CURSOR, pager
from backhaul.store.catalogue_lists import MOST_COUNTED, ListPlace
from backhaul.store.operators import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiohttp import web

    from backhaul.admin.context import PageContext, Pager, PageRequest
    from backhaul.store.catalogue_lists import ListedCustomer, ListedProduct

PAGE_ROWS = 50


async def show_products(
    context: PageContext, page_request: PageRequest
) -> web.Response:
    """List the products, the newest first."""
    before = ListPlace.of(page_request.query(CURSOR))
    found = await context.services.store.read(
        lambda reader: reader.products(PAGE_ROWS + 1, before)
    )
    turn = _pager(page_request, found)
    return context.page(page_request, "products", rows=found[:PAGE_ROWS], pager=turn)


async def show_customers(
    context: PageContext, page_request: PageRequest
) -> web.Response:
    """List the customers, the newest first."""
    before = ListPlace.of(page_request.query(CURSOR))
    found = await context.services.store.read(
        lambda reader: reader.customers(PAGE_ROWS + 1, before)
    )
    turn = _pager(page_request, found)
    return context.page(
        page_request,
        "customers",
        rows=found[:PAGE_ROWS],
        pager=turn,
        most=MOST_COUNTED,
    )


def _pager(
    page_request: PageRequest, found: Sequence[ListedProduct | ListedCustomer]
) -> Pager:
    older = found[PAGE_ROWS - 1].place if len(found) > PAGE_ROWS else None
    return pager(page_request, older)


ROUTES = (
    Route("GET", "/products", Role.VIEWER, show_products),
    Route("GET", "/customers", Role.VIEWER, show_customers),
)
