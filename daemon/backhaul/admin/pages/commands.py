"""Pages of commands and stock targets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul.admin.auth import Missing, Route
from backhaul.admin.context import BEFORE, before, turned
from backhaul.core.lifecycle import Kind, State
from backhaul.errors import BackhaulError
from backhaul.store.deciding import RESTOCK_UNSHIPPED, can_restock_unshipped, possible
from backhaul.store.sqlite.members import document_of
from backhaul.store.sqlite.outbox_reading import Wanted
from backhaul.store.users import Role

if TYPE_CHECKING:
    from aiohttp import web

    from backhaul.admin.context import Desk, Visit


MOST = 100
KINDS = [kind.value for kind in Kind]
VERBS = {
    "settle": ("Look again", "Read the platform for its effect, now and later."),
    "settle --applied": ("It took effect", "You know that it did: nothing is sent."),
    "resend": ("Send again…", "See the exact bytes first."),
    RESTOCK_UNSHIPPED: (
        "Cancel, restock the rest",
        "Cancel the order, and put back only what has not shipped.",
    ),
    "park": ("Park", "Nothing is done until somebody decides."),
    "drop": ("Drop", "It is not to be done any more."),
}
"""What a person may say: its button, and what it means."""
PATHS = {verb: verb.replace(" --", "-") for verb in VERBS}
MEANINGS = {
    State.PLANNED: "It will be sent.",
    State.SENDING: "It is being sent this moment.",
    State.APPLIED: "It took effect.",
    State.REJECTED: "It will not be sent again by itself.",
    State.UNCERTAIN: "It may have taken effect; the platform is being read for it.",
    State.PARKED: "Nothing is done until a person decides.",
    State.SUPERSEDED: "A newer one took its place.",
}


async def show_list(desk: Desk, visit: Visit) -> web.Response:
    """List those that wait for a person first, then the newest."""
    wanted = Wanted(visit.asked("state"), visit.asked("store"), visit.asked("kind"))
    after = visit.asked(BEFORE)
    found = await desk.reading.ask(
        lambda board: board.commands(wanted, MOST + 1, after)
    )
    rows, pager = turned(visit, found, MOST)
    return desk.page(
        visit,
        "commands",
        rows=rows,
        pager=pager,
        wanted=wanted,
        states=[state.value for state in State],
        stores=list(desk.given.settings.stores),
        kinds=KINDS,
    )


async def show_one(desk: Desk, visit: Visit) -> web.Response:
    """Show one with its timeline, its evidence, and what can be decided."""
    command = await _found(desk, visit)
    verbs = [
        verb
        for verb in possible(State(command["state"]))
        if _makes_sense(verb, command)
    ]
    payload = document_of(command["payload"])
    if can_restock_unshipped(command["kind"], State(command["state"]), payload):
        verbs.append(RESTOCK_UNSHIPPED)
    return desk.page(
        visit,
        "command",
        command=command,
        timeline=_timeline(command),
        verbs=[(PATHS[verb], *VERBS[verb]) for verb in verbs],
        meaning=MEANINGS[State(command["state"])],
    )


async def show_resend(desk: Desk, visit: Visit) -> web.Response:
    """Show the exact bytes that would be sent, and ask for the reason."""
    command = await _found(desk, visit)
    preview = await desk.given.changes["commands/preview"]({"command": command["id"]})
    return desk.page(visit, "resend", command=command, preview=preview)


async def decide(desk: Desk, visit: Visit) -> web.Response:
    """Do what the person says, in its name."""
    command = await _found(desk, visit)
    verb = {path: verb for verb, path in PATHS.items()}[
        visit.request.match_info["verb"]
    ]
    seen = {name: visit.form[name] for name in ("shown", "body") if name in visit.form}
    done = await desk.change(
        visit,
        "commands/decide",
        command=command["id"],
        verb=verb,
        reason=visit.form.get("reason", ""),
        **({"body": ""} | seen),
    )
    visit.session.tell("good", f"It was {command['state']} and is {done['state']} now.")
    return visit.back_to(f"/commands/{command['id']}")


async def _found(desk: Desk, visit: Visit) -> dict[str, Any]:
    id_ = visit.request.match_info["id"]
    command = await desk.reading.ask(lambda board: board.command(id_))
    if command is None:
        raise Missing(f"There is no command {id_}, or more than one begins so.")
    return command


def _makes_sense(verb: str, command: dict[str, Any]) -> bool:
    return verb != "settle" or command["sent_at"] is not None


def _timeline(command: dict[str, Any]) -> list[dict[str, Any]]:
    """Return everything that happened to it, in order of time."""
    found = [
        _step(command["created_at"], "planned", "planned", f"by {command['cause']}")
    ]
    if record := command["record"]:
        came = f"{record['key']} of {record['instance']}"
        found.append(_step(record["received_at"], "record", "accepted", came))
    for each in command["attempts"]:
        at = each["finished_at"] or each["started_at"]
        reason = each["reason"] or "no answer was written down"
        state = each["outcome"] or "no answer"
        found.append(
            _step(at, f"attempt {each['number']}", state, reason, each["response"])
        )
    for each in command["looks"]:
        what = f"look {each['number']}"
        found.append(
            _step(each["at"], what, each["found"], each["reason"], each["read"])
        )
    for each in command["by_hand"]:
        said = f"by {each['who']}" + (f": {each['reason']}" if each["reason"] else "")
        found.append(_step(each["at"], each["action"], each["state_after"], said))
    if command["settled_at"]:
        state, reason = command["state"], command["reason"]
        found.append(_step(command["settled_at"], "settled", state, reason))
    return sorted(found, key=lambda step: str(step["at"]))


def _step(
    at: str, what: str, state: str, detail: str, read: object = None
) -> dict[str, Any]:
    return {"at": at, "what": what, "state": state, "detail": detail, "read": read}


_ONE = r"/commands/{id:[\w-]{4,64}}"
_SAID = "|".join(PATHS.values())
ROUTES = (
    Route("GET", "/commands", Role.VIEWER, show_list),
    Route("GET", _ONE, Role.VIEWER, show_one),
    Route("GET", f"{_ONE}/resend", Role.OPERATOR, show_resend),
    Route("POST", f"{_ONE}/{{verb:{_SAID}}}", Role.OPERATOR, decide),
)


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


TARGET_ROUTES = (
    Route("GET", "/targets", Role.VIEWER, show_targets),
    Route("POST", "/targets/resume", Role.OPERATOR, resume),
)
