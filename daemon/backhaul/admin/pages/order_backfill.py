"""Backfills the orders of a store since a day: asks, shows what happens, starts it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from backhaul.admin.auth import NotFound, Route
from backhaul.platform.client import PAGE_ROWS
from backhaul.store.operators import Role

if TYPE_CHECKING:
    from aiohttp import web

    from backhaul.admin.context import PageContext, PageRequest

USUAL_REACH = timedelta(days=30)
"""How far back the day is that the form suggests."""


async def show_backfill(
    context: PageContext, page_request: PageRequest
) -> web.Response:
    """Ask for a day; with a day, show what a backfill of orders since then will do."""
    store, since = _store_of(context, page_request), page_request.query("since")
    now = context.services.clock.now()
    found, number = None, None
    if since is not None:
        asked = {"store": store, "since": since}
        found = await context.services.changes["stores/orders"](asked)
        number = found["orders"]
    return context.page(
        page_request,
        "store_backfill",
        store=store,
        day=(since or (now - USUAL_REACH).date().isoformat())[:10],
        today=now.date().isoformat(),
        found=found,
        requests=None if number is None else max(-(-number // PAGE_ROWS), 1),
    )


async def start_backfill(
    context: PageContext, page_request: PageRequest
) -> web.Response:
    """Read the orders of a store since a day."""
    store, since = _store_of(context, page_request), page_request.form.get("since", "")
    await context.change(page_request, "stores/backfill", store=store, since=since)
    page_request.session.add_notice(
        "good",
        f"Backhaul reads the orders of {store} since {since}. The page Drift shows the"
        " result.",
    )
    return page_request.redirect("/stores")


def _store_of(context: PageContext, page_request: PageRequest) -> str:
    store = page_request.request.match_info["store"]
    if store not in context.services.settings.stores:
        raise NotFound(f"No store is called {store}.")
    return store


_PATH = "/stores/{store}/backfill"
ROUTES = (
    Route("GET", _PATH, Role.OPERATOR, show_backfill),
    Route("POST", _PATH, Role.OPERATOR, start_backfill),
)
