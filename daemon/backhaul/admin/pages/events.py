"""Events: what arrived, and what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.admin.guard import Missing, Route
from backhaul.store.users import Role

if TYPE_CHECKING:
    from aiohttp import web

    from backhaul.admin.desk import Desk, Visit

MOST = 100
STATES = ("received", "folded", "duplicate", "stale", "unhandled", "quarantined")


async def show_list(desk: Desk, visit: Visit) -> web.Response:
    """List the newest, of a state or topic where that is asked for."""
    state, topic = visit.asked("state"), visit.asked("topic")
    rows = await desk.reading.ask(lambda board: board.events(state, topic, MOST))
    return desk.page(
        visit, "events", rows=rows, state=state, topic=topic, states=STATES, most=MOST
    )


async def show_one(desk: Desk, visit: Visit) -> web.Response:
    """Show one whole, as it came."""
    id_ = int(visit.request.match_info["id"])
    event = await desk.reading.ask(lambda board: board.event(id_))
    if event is None:
        raise Missing(f"There is no event {id_}.")
    return desk.page(visit, "event", event=event)


ROUTES = (
    Route("GET", "/events", Role.VIEWER, show_list),
    Route("GET", r"/events/{id:\d{1,18}}", Role.VIEWER, show_one),
)
