"""Stores: whether each is sent to, and the secrets that sign for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.admin.guard import Missing, Route
from backhaul.errors import BackhaulError
from backhaul.store.users import Role

if TYPE_CHECKING:
    from aiohttp import web

    from backhaul.admin.desk import Desk, Visit


async def show_stores(desk: Desk, visit: Visit) -> web.Response:
    """Show each store: whether it is sent to, and which secrets sign for it."""
    status = await desk.given.status()
    secrets = await desk.reading.ask(lambda board: board.webhook_secrets())
    return desk.page(
        visit,
        "stores",
        stores=desk.given.settings.stores,
        status=status,
        secrets=secrets,
    )


async def show_deliveries(desk: Desk, visit: Visit) -> web.Response:
    """Ask the platform what became of its newest webhooks to this daemon."""
    store = visit.request.match_info["store"]
    if store not in desk.given.settings.stores:
        raise Missing(f"There is no store {store}.")
    ask = desk.given.deliveries.get(store)
    if ask is None:
        raise BackhaulError(
            "without [public] url the daemon does not know which webhooks are its own"
        )
    return desk.page(visit, "deliveries", store=store, rows=await ask())


async def drop_secret(desk: Desk, visit: Visit) -> web.Response:
    """Accept a secret no more; one in use only where that is said."""
    return await _change_secret(desk, visit, undo=False)


async def accept_secret(desk: Desk, visit: Visit) -> web.Response:
    """Accept a secret again that was dropped."""
    return await _change_secret(desk, visit, undo=True)


async def _change_secret(desk: Desk, visit: Visit, *, undo: bool) -> web.Response:
    store, name = visit.form.get("store", ""), visit.form.get("fingerprint", "")
    force = visit.form.get("force") == "yes"
    asked = {"store": store, "fingerprint": name, "force": force, "undo": undo}
    await desk.change(visit, "secrets/drop", **asked)
    said = "is accepted again" if undo else "is accepted no more"
    visit.session.tell("good", f"{name} {said}.")
    return visit.back_to("/stores")


ROUTES = (
    Route("GET", "/stores", Role.VIEWER, show_stores),
    Route("GET", "/stores/{store}/deliveries", Role.OPERATOR, show_deliveries),
    Route("POST", "/secrets/drop", Role.OPERATOR, drop_secret),
    Route("POST", "/secrets/accept", Role.OPERATOR, accept_secret),
)
