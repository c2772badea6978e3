"""Page of open incidents: facts at the platform that an operator must correct."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.admin.auth import Route
from backhaul.store.users import Role

if TYPE_CHECKING:
    from aiohttp import web

    from backhaul.admin.context import PageContext, PageRequest


async def show(context: PageContext, page_request: PageRequest) -> web.Response:
    """List the open incidents, the oldest first."""
    rows = await context.boards.read(lambda board: board.incidents())
    return context.page(page_request, "incidents", rows=rows)


async def resolve(context: PageContext, page_request: PageRequest) -> web.Response:
    """Close an incident with the reason that the operator gives."""
    id_ = int(page_request.request.match_info["id"])
    reason = page_request.form.get("reason", "").strip()
    await context.change(page_request, "incidents/resolve", id=id_, reason=reason)
    page_request.session.add_notice("good", f"Incident {id_} is resolved.")
    return page_request.redirect("/incidents")


ROUTES = (
    Route("GET", "/incidents", Role.VIEWER, show),
    Route("POST", r"/incidents/{id:\d{1,18}}/resolve", Role.OPERATOR, resolve),
)
