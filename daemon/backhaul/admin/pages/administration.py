"""Stores, secrets, connectors, jobs, drift, charts, audit log and users."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from backhaul.admin.auth import Missing, Route
from backhaul.admin.context import before, turned
from backhaul.admin.throttle import counted
from backhaul.core.clock import to_text
from backhaul.errors import BackhaulError
from backhaul.store.users import ROLES, Role

if TYPE_CHECKING:
    from aiohttp import web

    from backhaul.admin.context import Desk, Visit
    from backhaul.store.sqlite.board import Board


MOST = 60
RECORDS = 5
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
JOB_VERBS = {"run": "started", "pause": "paused", "resume": "resumed"}


async def show_connectors(desk: Desk, visit: Visit) -> web.Response:
    """Show each instance, whether it works, and what it brought last."""
    status = await desk.given.status()

    def read(board: Board) -> dict[str, list[dict[str, Any]]]:
        return {
            name: board.last_records(name, RECORDS)
            for name in desk.given.settings.connectors
        }

    return desk.page(
        visit,
        "connectors",
        connectors=desk.given.settings.connectors,
        states=status["connectors"],
        records=await desk.reading.ask(read),
    )


async def run_connector(desk: Desk, visit: Visit) -> web.Response:
    """Ask an instance for its records now."""
    name = visit.form.get("name", "")
    if name not in desk.given.settings.connectors:
        raise BackhaulError(f"no connector is called {name!r}")
    done = await desk.change(visit, "connectors/run", name=name)
    counts = ", ".join(f"{n} {state}" for state, n in done["records"].items())
    told = counts or "nothing new"
    visit.session.tell("good", f"{name}: {told}.")
    return visit.back_to("/connectors")


async def show_jobs(desk: Desk, visit: Visit) -> web.Response:
    """Show when each job runs, did, and will."""
    status = await desk.given.status()
    since = before(visit)
    states, found = await desk.reading.ask(
        lambda board: (board.jobs(), board.job_runs(MOST + 1, since))
    )
    runs, pager = turned(visit, found, MOST)
    rows = [
        {
            "job": job,
            "store": store,
            "when": words,
            "state": states.get((job, store), {}),
            "next": status["jobs"].get(label),
        }
        for label, words in status["plans"].items()
        for job, _, store in [label.partition(":")]
    ]
    return desk.page(visit, "jobs", rows=rows, runs=runs, pager=pager)


async def change_job(desk: Desk, visit: Visit) -> web.Response:
    """Run, pause or resume one."""
    verb, name = visit.request.match_info["verb"], visit.form.get("job", "")
    store = visit.form.get("store") or None
    await desk.change(visit, f"jobs/{verb}", name=name, store=store)
    visit.session.tell("good", f"{name} is {JOB_VERBS[verb]}.")
    return visit.back_to("/jobs")


async def show_drift(desk: Desk, visit: Visit) -> web.Response:
    """Show since when the mirror is equal, and what each walk found."""
    since = before(visit)
    consistency, found = await desk.reading.ask(
        lambda board: (board.consistency(), board.sweeps(MOST + 1, since))
    )
    sweeps, pager = turned(visit, found, MOST)
    return desk.page(
        visit, "drift", consistency=consistency, sweeps=sweeps, pager=pager
    )


async def show_charts(desk: Desk, visit: Visit) -> web.Response:
    """Draw the last hour, or the last day."""
    span = DAY if visit.asked("span") == "day" else HOUR
    now = desk.given.clock.now()
    since = to_text(now - span)
    rows = await desk.reading.ask(lambda board: board.samples(since))
    return desk.page(visit, "charts", rows=rows, span=span, is_day=span == DAY)


async def show_audit(desk: Desk, visit: Visit) -> web.Response:
    """Show who did what."""
    who = visit.asked("who")
    since = before(visit)
    found = await desk.reading.ask(lambda board: board.audit(who, MOST + 1, since))
    rows, pager = turned(visit, found, MOST)
    return desk.page(visit, "audit", rows=rows, who=who, pager=pager)


ROUTES = (
    Route("GET", "/connectors", Role.VIEWER, show_connectors),
    Route("POST", "/connectors/run", Role.OPERATOR, run_connector),
    Route("GET", "/jobs", Role.VIEWER, show_jobs),
    Route("POST", f"/jobs/{{verb:{'|'.join(JOB_VERBS)}}}", Role.OPERATOR, change_job),
    Route("GET", "/drift", Role.VIEWER, show_drift),
    Route("GET", "/charts", Role.VIEWER, show_charts),
    Route("GET", "/audit", Role.OPERATOR, show_audit),
)


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


STORE_ROUTES = (
    Route("GET", "/stores", Role.VIEWER, show_stores),
    Route("GET", "/stores/{store}/deliveries", Role.OPERATOR, show_deliveries),
    Route("POST", "/secrets/drop", Role.OPERATOR, drop_secret),
    Route("POST", "/secrets/accept", Role.OPERATOR, accept_secret),
)


async def show_users(desk: Desk, visit: Visit) -> web.Response:
    """Show everybody."""
    people = await desk.given.users.list()
    return desk.page(visit, "users", people=people, roles=list(ROLES))


async def add(desk: Desk, visit: Visit) -> web.Response:
    """Add somebody."""
    form = visit.form
    name = form.get("name", "").strip().lower()
    password = form.get("password", "")
    role = form.get("role", "")
    await desk.change(visit, "users/add", name=name, role=role, password=password)
    visit.session.tell("good", f"{name} may log in now.")
    return visit.back_to("/users")


async def remove(desk: Desk, visit: Visit) -> web.Response:
    """Take somebody away; whoever is logged in under that name is out at once."""
    name = visit.form.get("name", "")
    await desk.change(visit, "users/remove", name=name)
    visit.session.tell("good", f"{name} may not log in any more.")
    return visit.back_to("/users")


async def set_role(desk: Desk, visit: Visit) -> web.Response:
    """Change what somebody may."""
    name, role = visit.form.get("name", ""), visit.form.get("role", "")
    await desk.change(visit, "users/role", name=name, role=role)
    visit.session.tell("good", f"{name} is {role} now.")
    return visit.back_to("/users")


async def show_own(desk: Desk, visit: Visit) -> web.Response:
    """Show who one is."""
    return desk.page(visit, "account")


async def set_own_password(desk: Desk, visit: Visit) -> web.Response:
    """Change the own password, for who knows the old one; ends every session."""
    form, user = visit.form, visit.user
    address = counted(desk.origin.address(visit.request))
    if desk.throttle.wait(user.name, address) > 0:
        raise BackhaulError("too many failed attempts; wait a moment")
    desk.throttle.failed(user.name, address)
    if not await desk.passwords.fits(user.secret, form.get("old", "")):
        raise BackhaulError("that is not your password")
    desk.throttle.succeeded(user.name, address)
    new = form.get("new", "")
    if new != form.get("again", ""):
        raise BackhaulError("the two new passwords differ")
    await desk.change(visit, "users/password", name=user.name, password=new)
    return visit.back_to("/login")


USER_ROUTES = (
    Route("GET", "/account", Role.VIEWER, show_own),
    Route("POST", "/account/password", Role.VIEWER, set_own_password),
    Route("GET", "/users", Role.ADMIN, show_users),
    Route("POST", "/users/add", Role.ADMIN, add),
    Route("POST", "/users/remove", Role.ADMIN, remove),
    Route("POST", "/users/role", Role.ADMIN, set_role),
)
