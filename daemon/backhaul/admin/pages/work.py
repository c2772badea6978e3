"""Connectors, jobs, drift, charts and audit: how the daemon does."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from backhaul.admin.guard import Route
from backhaul.admin.paging import before, turned
from backhaul.core.clock import to_text
from backhaul.errors import BackhaulError
from backhaul.store.users import Role

if TYPE_CHECKING:
    from aiohttp import web

    from backhaul.admin.desk import Desk, Visit
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
