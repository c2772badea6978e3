"""Pages of deliveries: change notifications for the connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.admin.auth import NotFound, Route
from backhaul.admin.bulk import TITLES, change_rows, show_preview
from backhaul.admin.filtering import Listing, by_number, download, number_of, show_rows
from backhaul.store.bulk import BulkVerb, result
from backhaul.store.filters import DELIVERIES, Sort
from backhaul.store.operators import Role
from backhaul.store.read_records import ListedDelivery

if TYPE_CHECKING:
    from aiohttp import web

    from backhaul.admin.context import PageContext, PageRequest


LISTING = Listing(
    "deliveries",
    "Deliveries",
    DELIVERIES,
    ListedDelivery,
    by_number(
        "deliveries",
        lambda reader, wanted, limit, after=None, sort=Sort.USUAL, within=None: (
            reader.deliveries(wanted, limit, number_of(after), sort, within)
        ),
    ),
    selects=("connector", "kind", "store"),
    views=(("rejected, last day", "state=rejected since=1d"),),
    key="seq",
)
VERBS = [BulkVerb.RESEND, BulkVerb.PARK, BulkVerb.DISCARD]


async def show_list(context: PageContext, page_request: PageRequest) -> web.Response:
    """List the deliveries that match a filter, the newest first."""
    settings = context.services.settings
    known = {"store": list(settings.stores), "connector": list(settings.connectors)}
    verbs = [(verb.value, TITLES[verb]) for verb in VERBS]
    return await show_rows(context, page_request, LISTING, known, verbs=verbs)


async def show_download(
    context: PageContext, page_request: PageRequest
) -> web.Response:
    """Return the deliveries that match the filter of the page as a file."""
    return await download(context, page_request, LISTING)


async def show_delivery(
    context: PageContext, page_request: PageRequest
) -> web.Response:
    """Show one delivery: its attempts, its document, and what can be decided."""
    seq = int(page_request.request.match_info["seq"])
    found = await context.services.store.read(lambda reader: reader.delivery(seq))
    if found is None:
        raise NotFound(f"No delivery has the number {seq}.")
    results = {verb: result(verb, found.row.state, "delivery") for verb in VERBS}
    verbs = [
        (verb.value, TITLES[verb], text)
        for verb, (is_possible, text) in results.items()
        if is_possible
    ]
    return context.page(page_request, "delivery", found=found, verbs=verbs)


async def show_changes(context: PageContext, page_request: PageRequest) -> web.Response:
    """Show what a decision about one or many deliveries will do."""
    return await show_preview(context, page_request, LISTING)


async def change_many(context: PageContext, page_request: PageRequest) -> web.Response:
    """Carry out a decision about one or many deliveries."""
    return await change_rows(context, page_request, LISTING)


ROUTES = (
    Route("GET", "/deliveries", Role.VIEWER, show_list),
    Route("GET", "/deliveries.{form:csv|json}", Role.VIEWER, show_download),
    Route("GET", "/deliveries/preview", Role.OPERATOR, show_changes),
    Route("POST", "/deliveries/change", Role.OPERATOR, change_many),
    Route("GET", r"/deliveries/{seq:\d{1,18}}", Role.VIEWER, show_delivery),
)
