"""Counts of the back office: which are made true, and letting them go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.admin.guard import Route
from backhaul.admin.paging import before, turned
from backhaul.core.lifecycle import State
from backhaul.errors import BackhaulError
from backhaul.store.users import Role

if TYPE_CHECKING:
    from aiohttp import web

    from backhaul.admin.desk import Desk, Visit

MOST = 100
STATES = [
    state.value for state in State if state not in {State.SENDING, State.UNCERTAIN}
]
"""Where a target may stand: what is sent is its adjustment."""


async def show_targets(desk: Desk, visit: Visit) -> web.Response:
    """List the newest, and the stores whose targets are stopped."""
    state, store = visit.asked("state"), visit.asked("store")
    since = before(visit)
    stopped, found = await desk.reading.ask(
        lambda board: (
            board.stopped_targets(),
            board.targets(state, store, MOST + 1, since),
        )
    )
    rows, pager = turned(visit, found, MOST, "seq")
    return desk.page(
        visit,
        "targets",
        rows=rows,
        pager=pager,
        stopped=stopped,
        state=state,
        store=store,
        states=STATES,
        stores=list(desk.given.settings.stores),
    )


async def resume(desk: Desk, visit: Visit) -> web.Response:
    """Let the counts of a store be made true again."""
    store = visit.form.get("store", "")
    if store not in desk.given.settings.stores:
        raise BackhaulError(f"no store is called {store!r}")
    was = (await desk.change(visit, "targets/resume", store=store))["was"]
    told = f"they were stopped: {was}" if was else "they were not stopped"
    visit.session.tell("good", f"The counts of {store} are made true again; {told}.")
    return visit.back_to("/targets")


ROUTES = (
    Route("GET", "/targets", Role.VIEWER, show_targets),
    Route("POST", "/targets/resume", Role.OPERATOR, resume),
)
