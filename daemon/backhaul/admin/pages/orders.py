"""The list of orders, as a shop knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.admin.auth import Route
from backhaul.admin.context import CURSOR, pager
from backhaul.store.operators import Role
from backhaul.store.order_lists import OrderPlace, OrderTab

if TYPE_CHECKING:
    from aiohttp import web

    from backhaul.admin.context import PageContext, PageRequest

PAGE_ROWS = 50
TABS = {
    OrderTab.ALL: "All",
    OrderTab.UNFULFILLED: "Unfulfilled",
    OrderTab.PARTIALLY: "Partially fulfilled",
    OrderTab.FULFILLED: "Fulfilled",
    OrderTab.CANCELLED: "Cancelled",
    OrderTab.WAITING: "Something waiting",
}


async def show_list(context: PageContext, page_request: PageRequest) -> web.Response:
    """List the orders of a tab, the newest first."""
    tab = page_request.query("tab") or ""
    chosen = OrderTab(tab) if tab in {*OrderTab} else OrderTab.ALL
    names = list(context.services.settings.stores)
    store = page_request.query("store")
    stores = [name for name in names if store in {None, name}]
    before = OrderPlace.of(page_request.query(CURSOR))
    found = await context.services.store.read(
        lambda reader: reader.orders(chosen, stores, PAGE_ROWS + 1, before)
    )
    rows = found[:PAGE_ROWS]
    older = rows[-1].place if len(found) > PAGE_ROWS else None
    return context.page(
        page_request,
        "orders",
        rows=rows,
        pager=pager(page_request, older),
        tab=chosen,
        tabs=TABS,
        store=store or "",
        stores=names,
    )


ROUTES = (Route("GET", "/orders", Role.VIEWER, show_list),)
