"""The list of stock: every SKU, and what Backhaul pushes for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.admin.auth import Route
from backhaul.admin.filtering import FoundRows, Listing, download, show_rows
from backhaul.store.filters import STOCK, Sort
from backhaul.store.operators import Role
from backhaul.store.stock_lists import ListedStock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiohttp import web

    from backhaul.admin.context import PageContext, PageRequest
    from backhaul.store.filters import Filter
    from backhaul.store.read_models import Reader

SCANNED = 2_000
"""The variants of a store that one page searches at most, if no index answers."""


def _find(
    reader: Reader,
    wanted: Filter,
    limit: int,
    after: str | None,
    sort: Sort,
    stores: Sequence[str],
    *,
    whole: bool = False,
) -> FoundRows:
    scanned = None if whole else SCANNED
    found = reader.stock(wanted, stores, limit, after, sort, scanned)
    further = None if found.further is None else str(found.further)
    return FoundRows(found.rows, further)


LISTING = Listing(
    "stock",
    "Stock",
    STOCK,
    ListedStock,
    _find,
    selects=("connector", "store"),
    sorts=(Sort.USUAL, Sort.LOWEST),
    views=(("out of stock", "below=1"), ("fewer than 5", "below=5")),
    key="place",
    numbered=False,
)


async def show_list(context: PageContext, page_request: PageRequest) -> web.Response:
    """List the stock of the variants that match a filter."""
    settings = context.services.settings
    known = {"store": list(settings.stores), "connector": list(settings.connectors)}
    return await show_rows(context, page_request, LISTING, known)


async def show_download(
    context: PageContext, page_request: PageRequest
) -> web.Response:
    """Return the stock that matches the filter of the page as a file."""
    return await download(context, page_request, LISTING)


ROUTES = (
    Route("GET", "/stock", Role.VIEWER, show_list),
    Route("GET", "/stock.{form:csv|json}", Role.VIEWER, show_download),
)
