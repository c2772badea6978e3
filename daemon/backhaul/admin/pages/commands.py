"""Pages of commands and stock targets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul.admin.auth import NotFound, Route
from backhaul.admin.bulk import TITLES, change_rows, show_preview
from backhaul.admin.context import cursor_of, paginate
from backhaul.admin.filtering import Listing, by_number, download, show_rows
from backhaul.core.lifecycle import State, TargetState
from backhaul.errors import BackhaulError
from backhaul.store.advice import advise, facts_of
from backhaul.store.bulk import BulkVerb
from backhaul.store.command_records import ListedCommand
from backhaul.store.commands import (
    RESTOCK_UNSHIPPED,
    can_restock_unshipped,
    possible_verbs,
)
from backhaul.store.filters import COMMANDS, Sort
from backhaul.store.operators import Role

if TYPE_CHECKING:
    from aiohttp import web

    from backhaul.admin.context import PageContext, PageRequest
    from backhaul.store.command_records import CommandDetail


DECISIONS = {
    "resolve": (
        "Check again",
        "Reads at the platform whether the command took effect, now and later.",
    ),
    "resolve --applied": (
        "Mark as applied",
        "Takes the command as done; nothing is sent. If it did not take effect, the"
        " change is missing in the store.",
    ),
    "resend": (
        "Send again…",
        "Shows the exact request first. If an earlier attempt took effect, the change"
        " is made twice.",
    ),
    RESTOCK_UNSHIPPED: (
        "Cancel and restock unshipped units",
        "Cancels the order and restocks only the units that have not shipped.",
    ),
    "park": ("Park", "Stops sending and automatic checks until you decide."),
    "discard": (
        "Discard",
        "Closes the command for good. If it did not take effect, the change is missing"
        " in the store.",
    ),
}
"""Each decision of an operator, with its button and its consequence."""
PATHS = {verb: verb.replace(" --", "-") for verb in DECISIONS}
MEANINGS = {
    State.PLANNED: "Backhaul will send it.",
    State.SENDING: "Backhaul is sending it now.",
    State.APPLIED: "The command took effect.",
    State.REJECTED: "Backhaul will not send it again automatically.",
    State.UNCERTAIN: "The outcome is unknown. Backhaul is checking the platform.",
    State.PARKED: "The command waits for your decision.",
    State.SUPERSEDED: "A newer command replaced it.",
}


ON_HOLD = "A newer count replaces this count, or you release it under Stock counts."


LISTING = Listing(
    "commands",
    "Commands",
    COMMANDS,
    ListedCommand,
    by_number(
        "commands",
        lambda reader, wanted, limit, after=None, sort=Sort.USUAL, within=None: (
            reader.commands(wanted, limit, after, sort, within)
        ),
    ),
    selects=("kind", "connector", "store"),
    sorts=(Sort.USUAL, Sort.NEWEST, Sort.OLDEST),
    views=(
        ("rejected, last day", "state=rejected since=1d"),
        ("stock counts", "kind=target"),
    ),
    numbered=False,
)


async def show_list(context: PageContext, page_request: PageRequest) -> web.Response:
    """List the commands that match a filter, parked ones first."""
    settings = context.services.settings
    known = {"store": list(settings.stores), "connector": list(settings.connectors)}
    verbs = [(verb.value, TITLES[verb]) for verb in BulkVerb]
    return await show_rows(context, page_request, LISTING, known, verbs=verbs)


async def show_download(
    context: PageContext, page_request: PageRequest
) -> web.Response:
    """Return the commands that match the filter of the page as a file."""
    return await download(context, page_request, LISTING)


async def show_changes(context: PageContext, page_request: PageRequest) -> web.Response:
    """Show what a decision about many commands will do."""
    return await show_preview(context, page_request, LISTING)


async def change_many(context: PageContext, page_request: PageRequest) -> web.Response:
    """Carry out a decision about many commands."""
    return await change_rows(context, page_request, LISTING)


async def show_command(context: PageContext, page_request: PageRequest) -> web.Response:
    """Show a command with its timeline, its evidence and the possible decisions."""
    command = await _command_of(context, page_request)
    verbs = [
        verb
        for verb in possible_verbs(State(command.state))
        if _makes_sense(verb, command)
    ]
    payload = command.wanted
    if can_restock_unshipped(command.kind, State(command.state), payload):
        verbs.append(RESTOCK_UNSHIPPED)
    advice = advise(facts_of(command), verbs)
    is_on_hold = command.hold_reason == "restore"
    return context.page(
        page_request,
        "command",
        command=command,
        timeline=_timeline(command),
        advice=advice,
        recommended=[_choice(verb) for verb in verbs if verb == advice.verb],
        others=[_choice(verb) for verb in verbs if verb != advice.verb],
        meaning=ON_HOLD if is_on_hold else MEANINGS[State(command.state)],
    )


def _choice(verb: str) -> tuple[str, str, str]:
    return (PATHS[verb], *DECISIONS[verb])


async def show_resend(context: PageContext, page_request: PageRequest) -> web.Response:
    """Show the exact request that would be sent, and ask for a reason."""
    command = await _command_of(context, page_request)
    preview = await context.services.changes["commands/preview"](
        {"command": command.id}
    )
    return context.page(page_request, "resend", command=command, preview=preview)


async def decide(context: PageContext, page_request: PageRequest) -> web.Response:
    """Carry out the operator's decision in the operator's name."""
    command = await _command_of(context, page_request)
    verb = {path: verb for verb, path in PATHS.items()}[
        page_request.request.match_info["verb"]
    ]
    seen = {
        name: page_request.form[name]
        for name in ("shown", "body")
        if name in page_request.form
    }
    done = await context.change(
        page_request,
        "commands/decide",
        command=command.id,
        verb=verb,
        reason=page_request.form.get("reason", ""),
        **({"body": ""} | seen),
    )
    page_request.session.add_notice(
        "good", f"The command was {command.state} and is {done['state']} now."
    )
    return page_request.redirect(f"/commands/{command.id}")


async def _command_of(context: PageContext, page_request: PageRequest) -> CommandDetail:
    id_ = page_request.request.match_info["id"]
    command = await context.services.store.read(lambda reader: reader.command(id_))
    if command is None:
        raise NotFound(f"No command has the id {id_}, or several ids begin with it.")
    return command


def _makes_sense(verb: str, command: CommandDetail) -> bool:
    return verb != "resolve" or command.sent_at is not None


def _timeline(command: CommandDetail) -> list[dict[str, Any]]:
    """Return everything that happened to a command, in order of time."""
    found = [_step(command.created_at, "planned", "planned", f"by {command.cause}")]
    if record := command.record:
        came = f"{record.key} of {record.instance}"
        found.append(_step(record.received_at, "record", "accepted", came))
    for attempt in command.attempts:
        at = attempt.finished_at or attempt.started_at
        reason = attempt.reason or "no response was recorded"
        state = attempt.outcome or "no response"
        what = f"attempt {attempt.number}"
        found.append(_step(at, what, state, reason, attempt.response))
    for check in command.looks:
        what = f"check {check.number}"
        found.append(_step(check.at, what, check.found, check.reason, check.read))
    for decision in command.by_hand:
        detail = f"by {decision.who}"
        detail += f": {decision.reason}" if decision.reason else ""
        found.append(_step(decision.at, decision.action, decision.state_after, detail))
    if command.settled_at:
        state, reason = command.state, command.reason
        found.append(_step(command.settled_at, "closed", state, reason))
    return sorted(found, key=lambda step: str(step["at"]))


def _step(
    at: str, what: str, state: str | None, detail: str, read: object = None
) -> dict[str, Any]:
    return {"at": at, "what": what, "state": state, "detail": detail, "read": read}


_ONE = r"/commands/{id:[\w-]{4,64}}"
_PATHS = "|".join(PATHS.values())
ROUTES = (
    Route("GET", "/commands", Role.VIEWER, show_list),
    Route("GET", "/commands.{form:csv|json}", Role.VIEWER, show_download),
    Route("GET", "/commands/preview", Role.OPERATOR, show_changes),
    Route("POST", "/commands/change", Role.OPERATOR, change_many),
    Route("GET", _ONE, Role.VIEWER, show_command),
    Route("GET", f"{_ONE}/resend", Role.OPERATOR, show_resend),
    Route("POST", f"{_ONE}/{{verb:{_PATHS}}}", Role.OPERATOR, decide),
)


PAGE_ROWS = 100
STATES = [
    *(state.value for state in State if state not in {State.SENDING, State.UNCERTAIN}),
    TargetState.HELD.value,
]
"""The states of a stock target; only its adjustment is sent and can be uncertain."""


async def show_targets(context: PageContext, page_request: PageRequest) -> web.Response:
    """List the newest stock targets, and the stores whose targets are stopped."""
    state, store = page_request.query("state"), page_request.query("store")
    since = cursor_of(page_request)
    stopped, held, found = await context.services.store.read(
        lambda reader: (
            reader.stopped_targets(),
            reader.held_by_store(),
            reader.stock_targets(state, store, PAGE_ROWS + 1, since),
        )
    )
    rows, pager = paginate(page_request, found, PAGE_ROWS, "seq")
    return context.page(
        page_request,
        "targets",
        rows=rows,
        pager=pager,
        stopped=stopped,
        held=held,
        state=state,
        store=store,
        states=STATES,
        stores=list(context.services.settings.stores),
    )


async def resume_targets(
    context: PageContext, page_request: PageRequest
) -> web.Response:
    """Resume the stock targets of a store."""
    store = page_request.form.get("store", "")
    if store not in context.services.settings.stores:
        raise BackhaulError(f"no store of the configuration is called {store!r}")
    was = (await context.change(page_request, "stock/resume", store=store))["was"]
    cursor_of = f"they were stopped: {was}" if was else "they were not stopped"
    page_request.session.add_notice(
        "good", f"The stock counts of {store} run again; {cursor_of}."
    )
    return page_request.redirect("/targets")


async def release_targets(
    context: PageContext, page_request: PageRequest
) -> web.Response:
    """Release the stock targets of a store that are on hold after a restore."""
    form = page_request.form
    store, reason = form.get("store", ""), form.get("reason", "")
    asked = {"store": store, "reason": reason}
    done = await context.change(page_request, "stock/release", **asked)
    page_request.session.add_notice(
        "good", f"Stock counts of {store} released: {done['released']:,}."
    )
    return page_request.redirect("/targets")


TARGET_ROUTES = (
    Route("POST", "/stock/release", Role.OPERATOR, release_targets),
    Route("GET", "/targets", Role.VIEWER, show_targets),
    Route("POST", "/stock/resume", Role.OPERATOR, resume_targets),
)
