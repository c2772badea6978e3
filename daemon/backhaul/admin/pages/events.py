"""Events: what arrived, and what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from backhaul.admin.guard import Missing, Route
from backhaul.admin.paging import before, turned
from backhaul.store.refolds import EventState, Selection
from backhaul.store.users import Role

if TYPE_CHECKING:
    from aiohttp import web

    from backhaul.admin.desk import Desk, Visit

MOST = 100
STATES = [state.value for state in EventState]


async def show_list(desk: Desk, visit: Visit) -> web.Response:
    """List the newest, of a state or topic where that is asked for."""
    state, topic = visit.asked("state"), visit.asked("topic")
    since = before(visit)
    found = await desk.reading.ask(
        lambda board: board.events(state, topic, MOST + 1, since)
    )
    rows, pager = turned(visit, found, MOST)
    return desk.page(
        visit, "events", rows=rows, pager=pager, state=state, topic=topic, states=STATES
    )


async def show_one(desk: Desk, visit: Visit) -> web.Response:
    """Show one whole, as it came."""
    id_ = int(visit.request.match_info["id"])
    event = await desk.reading.ask(lambda board: board.event(id_))
    if event is None:
        raise Missing(f"There is no event {id_}.")
    return desk.page(visit, "event", event=event)


async def refold(desk: Desk, visit: Visit) -> web.Response:
    """Fold one again: what was folded already changes nothing."""
    id_ = int(visit.request.match_info["id"])
    if await desk.reading.ask(lambda board: board.event(id_)) is None:
        raise Missing(f"There is no event {id_}.")
    asked = msgspec.to_builtins(Selection((id_,)))
    states = await desk.change(visit, "events/refold", **asked)
    told = ", ".join(states) or "nothing: it is not kept any more"
    visit.session.tell("good", f"Folded again: {told}.")
    return visit.back_to(f"/events/{id_}")


_ONE = r"/events/{id:\d{1,18}}"
ROUTES = (
    Route("GET", "/events", Role.VIEWER, show_list),
    Route("GET", _ONE, Role.VIEWER, show_one),
    Route("POST", f"{_ONE}/refold", Role.OPERATOR, refold),
)
