"""Stores, secrets, connectors, jobs, drift, audit log and users."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from backhaul.admin.auth import NotFound, Route
from backhaul.admin.context import cursor_of, paginate
from backhaul.core.fold import Drift
from backhaul.errors import BackhaulError
from backhaul.store.operators import ROLES, Role

if TYPE_CHECKING:
    from aiohttp import web

    from backhaul.admin.context import PageContext, PageRequest


PAGE_ROWS = 60
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
JOB_VERBS = {"run": "started", "pause": "paused", "resume": "resumed"}


async def show_jobs(context: PageContext, page_request: PageRequest) -> web.Response:
    """Show each job's schedule, last run and next run, and the run history."""
    status = await context.services.status()
    since = cursor_of(page_request)
    states, found = await context.services.store.read(
        lambda reader: (reader.jobs(), reader.job_runs(PAGE_ROWS + 1, since))
    )
    runs, pager = paginate(page_request, found, PAGE_ROWS)
    rows = [
        {
            "job": job,
            "store": store,
            "when": schedule,
            "state": states.get((job, store)),
            "next": status["jobs"].get(label),
        }
        for label, schedule in status["plans"].items()
        for job, _, store in [label.partition(":")]
    ]
    standby = status.get("standby")
    return context.page(
        page_request, "jobs", rows=rows, runs=runs, pager=pager, standby=standby
    )


async def change_job(context: PageContext, page_request: PageRequest) -> web.Response:
    """Run, pause or resume a job."""
    verb, name = (
        page_request.request.match_info["verb"],
        page_request.form.get("job", ""),
    )
    store = page_request.form.get("store") or None
    await context.change(page_request, f"jobs/{verb}", name=name, store=store)
    page_request.session.add_notice("good", f"{name} is {JOB_VERBS[verb]}.")
    return page_request.redirect("/jobs")


async def show_drift(context: PageContext, page_request: PageRequest) -> web.Response:
    """Show when the mirror was last verified, and the result of each full sync."""
    since = cursor_of(page_request)
    consistency, found = await context.services.store.read(
        lambda reader: (reader.consistency(), reader.passes(PAGE_ROWS + 1, since))
    )
    sweeps, pager = paginate(page_request, found, PAGE_ROWS)
    return context.page(
        page_request,
        "drift",
        consistency=consistency,
        sweeps=sweeps,
        pager=pager,
        drifts=list(Drift),
    )


async def show_audit(context: PageContext, page_request: PageRequest) -> web.Response:
    """Show the audit log, of one user if the query names one."""
    who = page_request.query("who")
    since = cursor_of(page_request)
    found = await context.services.store.read(
        lambda reader: reader.audit_entries(who, PAGE_ROWS + 1, since)
    )
    rows, pager = paginate(page_request, found, PAGE_ROWS)
    return context.page(page_request, "audit", rows=rows, who=who, pager=pager)


ROUTES = (
    Route("GET", "/jobs", Role.VIEWER, show_jobs),
    Route("POST", f"/jobs/{{verb:{'|'.join(JOB_VERBS)}}}", Role.OPERATOR, change_job),
    Route("GET", "/drift", Role.VIEWER, show_drift),
    Route("GET", "/audit", Role.OPERATOR, show_audit),
)


async def show_stores(context: PageContext, page_request: PageRequest) -> web.Response:
    """Show each store: whether Backhaul sends to it, and its webhook secrets."""
    status = await context.services.status()
    secrets = await context.services.store.read(lambda reader: reader.webhook_secrets())
    return context.page(
        page_request,
        "stores",
        stores=context.services.settings.stores,
        status=status,
        secrets=secrets,
        standby=status.get("standby"),
    )


async def show_deliveries(
    context: PageContext, page_request: PageRequest
) -> web.Response:
    """Show the platform's list of its latest webhook deliveries to this daemon."""
    store = page_request.request.match_info["store"]
    if store not in context.services.settings.stores:
        raise NotFound(f"No store is called {store}.")
    ask = context.services.deliveries.get(store)
    if ask is None:
        raise BackhaulError(
            "without `url` in [public], Backhaul does not know which webhook"
            " subscription is its own; set `url` in the configuration and restart"
            " the daemon"
        )
    return context.page(page_request, "store_webhooks", store=store, rows=await ask())


STORE_ACTIONS = {
    "test": (
        "Send a test webhook",
        "The platform sends a test webhook to this daemon. It appears under Events.",
    ),
    "redeliver": (
        "Redeliver",
        "The platform sends this webhook again, with the same id and the same bytes. If"
        " the mirror already contains the event, the event changes nothing.",
    ),
    "poll": (
        "Poll now",
        "Backhaul reads what changed in the store since the last poll.",
    ),
    "sync": (
        "Full sync now",
        "Backhaul reads all lists of the store, compares them with the mirror, and"
        " repairs differences. For a large store this takes minutes to hours; the page"
        " Drift shows its progress.",
    ),
}
"""What an operator can ask for, with its button and what happens."""
_JOBS = {"poll": "reconcile_incremental", "sync": "reconcile_full"}


async def show_store_action(
    context: PageContext, page_request: PageRequest
) -> web.Response:
    """Show what an action on a store will do, and ask for confirmation."""
    store = _store_of(context, page_request)
    verb = page_request.request.match_info["verb"]
    title, means = STORE_ACTIONS[verb]
    return context.page(
        page_request,
        "store_action",
        store=store,
        verb=verb,
        title=title,
        means=means,
        delivery=page_request.query("delivery") or "",
    )


async def act_on_store(context: PageContext, page_request: PageRequest) -> web.Response:
    """Send a test webhook, redeliver one, or start a job of the store."""
    store = _store_of(context, page_request)
    verb = page_request.request.match_info["verb"]
    if verb in _JOBS:
        await context.change(page_request, "jobs/run", name=_JOBS[verb], store=store)
        done = f"{_JOBS[verb]} of {store} is started."
    elif verb == "test":
        await context.change(page_request, "stores/test", store=store)
        done = f"The platform sends a test webhook to {store}; see Events."
    else:
        delivery = page_request.form.get("delivery", "")
        if not delivery:
            raise BackhaulError("choose a delivery on the page of the webhooks")
        await context.change(
            page_request, "stores/redeliver", store=store, delivery=delivery
        )
        done = f"The platform sends delivery {delivery} again; see Events."
    page_request.session.add_notice("good", done)
    return page_request.redirect("/stores")


def _store_of(context: PageContext, page_request: PageRequest) -> str:
    store = page_request.request.match_info["store"]
    if store not in context.services.settings.stores:
        raise NotFound(f"No store is called {store}.")
    return store


async def revoke_secret(
    context: PageContext, page_request: PageRequest
) -> web.Response:
    """Revoke a webhook secret; one used within the last day only with `force`."""
    return await _change_secret(context, page_request, undo=False)


async def accept_secret(
    context: PageContext, page_request: PageRequest
) -> web.Response:
    """Accept a revoked webhook secret again."""
    return await _change_secret(context, page_request, undo=True)


async def _change_secret(
    context: PageContext, page_request: PageRequest, *, undo: bool
) -> web.Response:
    store, name = (
        page_request.form.get("store", ""),
        page_request.form.get("fingerprint", ""),
    )
    force = page_request.form.get("force") == "yes"
    values = {"store": store, "fingerprint": name, "force": force, "undo": undo}
    await context.change(page_request, "secrets/revoke", **values)
    result = "is accepted again" if undo else "is revoked"
    page_request.session.add_notice("good", f"Webhook secret {name} {result}.")
    return page_request.redirect("/stores")


_ACTION = f"/stores/{{store}}/{{verb:{'|'.join(STORE_ACTIONS)}}}"
STORE_ROUTES = (
    Route("GET", "/stores", Role.VIEWER, show_stores),
    Route("GET", "/stores/{store}/deliveries", Role.OPERATOR, show_deliveries),
    Route("GET", _ACTION, Role.OPERATOR, show_store_action),
    Route("POST", _ACTION, Role.OPERATOR, act_on_store),
    Route("POST", "/secrets/revoke", Role.OPERATOR, revoke_secret),
    Route("POST", "/secrets/accept", Role.OPERATOR, accept_secret),
)


async def show_users(context: PageContext, page_request: PageRequest) -> web.Response:
    """Show the users."""
    members = await context.services.store.users.list()
    return context.page(page_request, "users", members=members, roles=list(ROLES))


async def add_user(context: PageContext, page_request: PageRequest) -> web.Response:
    """Add a user."""
    form = page_request.form
    name = form.get("name", "").strip().lower()
    password = form.get("password", "")
    role = form.get("role", "")
    await context.change(
        page_request, "users/add", name=name, role=role, password=password
    )
    page_request.session.add_notice(
        "good", f"User {name} was added and can log in now."
    )
    return page_request.redirect("/users")


async def remove_user(context: PageContext, page_request: PageRequest) -> web.Response:
    """Remove a user; sessions of the user end at once."""
    name = page_request.form.get("name", "")
    await context.change(page_request, "users/remove", name=name)
    page_request.session.add_notice(
        "good", f"User {name} was removed and can no longer log in."
    )
    return page_request.redirect("/users")


async def set_user_role(
    context: PageContext, page_request: PageRequest
) -> web.Response:
    """Change a user's role."""
    name, role = page_request.form.get("name", ""), page_request.form.get("role", "")
    await context.change(page_request, "users/role", name=name, role=role)
    page_request.session.add_notice("good", f"User {name} has the role {role} now.")
    return page_request.redirect("/users")


async def set_user_state(
    context: PageContext, page_request: PageRequest
) -> web.Response:
    """Disable or enable a user, or reset the second factor."""
    name = page_request.form.get("name", "")
    verb = page_request.request.match_info["verb"]
    await context.change(page_request, f"users/{verb}", name=name)
    page_request.session.add_notice("good", f"User {name} {USER_VERBS[verb]}.")
    return page_request.redirect("/users")


USER_VERBS = {
    "disable": "is disabled and can no longer log in",
    "enable": "is enabled and can log in",
    "resettotp": "has no second factor now",
}
USER_ROUTES = (
    Route("GET", "/users", Role.ADMIN, show_users),
    Route("POST", "/users/add", Role.ADMIN, add_user),
    Route("POST", "/users/remove", Role.ADMIN, remove_user),
    Route("POST", "/users/role", Role.ADMIN, set_user_role),
    Route(
        "POST",
        f"/users/{{verb:{'|'.join(USER_VERBS)}}}",
        Role.ADMIN,
        set_user_state,
    ),
)


async def show(context: PageContext, page_request: PageRequest) -> web.Response:
    """List the open incidents, the oldest first."""
    rows = await context.services.store.read(lambda reader: reader.incidents())
    return context.page(page_request, "incidents", rows=rows)


async def resolve(context: PageContext, page_request: PageRequest) -> web.Response:
    """Close an incident with the reason that the operator gives."""
    id_ = int(page_request.request.match_info["id"])
    reason = page_request.form.get("reason", "").strip()
    await context.change(page_request, "incidents/resolve", id=id_, reason=reason)
    page_request.session.add_notice("good", f"Incident {id_} is resolved.")
    return page_request.redirect("/incidents")


INCIDENT_ROUTES = (
    Route("GET", "/incidents", Role.VIEWER, show),
    Route("POST", r"/incidents/{id:\d{1,18}}/resolve", Role.OPERATOR, resolve),
)
