"""The open incidents: what left goods and stock apart, until it is resolved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.admin.auth import Route
from backhaul.store.users import Role

if TYPE_CHECKING:
    from aiohttp import web

    from backhaul.admin.context import Desk, Visit


async def show(desk: Desk, visit: Visit) -> web.Response:
    """List the open incidents, the oldest first."""
    rows = await desk.reading.ask(lambda board: board.incidents())
    return desk.page(visit, "incidents", rows=rows)


async def resolve(desk: Desk, visit: Visit) -> web.Response:
    """Close an incident with the reason that the operator gives."""
    id_ = int(visit.request.match_info["id"])
    reason = visit.form.get("reason", "").strip()
    await desk.change(visit, "incidents/resolve", id=id_, reason=reason)
    visit.session.tell("good", f"Incident {id_} is resolved.")
    return visit.back_to("/incidents")


ROUTES = (
    Route("GET", "/incidents", Role.VIEWER, show),
    Route("POST", r"/incidents/{id:\d{1,18}}/resolve", Role.OPERATOR, resolve),
)
