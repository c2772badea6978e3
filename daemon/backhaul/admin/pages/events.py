"""Pages of events and quarantine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from backhaul.admin.auth import Missing, Route
from backhaul.admin.context import before, turned
from backhaul.connect.quarantine_retry import READ_ONLY_FIELDS
from backhaul.errors import BackhaulError
from backhaul.store.refolds import EventState, Selection
from backhaul.store.users import Role

if TYPE_CHECKING:
    from aiohttp import web

    from backhaul.admin.context import Desk, Visit


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


MOST = 100
BLANKS = 2
"""Further fields that a row can be given: which there are, its kind says."""
FIELD, NAME, VALUE = "field:", "name:", "value:"
DONE = {
    "edit": "is mended and tried again",
    "retry": "is tried again",
    "correct": "is sent to the store as a further number",
    "drop": "is given up",
}


async def show_quarantine(desk: Desk, visit: Visit) -> web.Response:
    """List what waits for a person."""
    since = before(visit)
    found = await desk.reading.ask(lambda board: board.quarantine(MOST + 1, since))
    rows, pager = turned(visit, found, MOST)
    return desk.page(visit, "quarantine", rows=rows, pager=pager)


async def show_quarantined(desk: Desk, visit: Visit) -> web.Response:
    """Show one row as it came, and its fields to be mended."""
    row = await _found(desk, visit)
    known = _known(row)
    fields = {
        name: _text(value)
        for name, value in (known["record"] if known else {}).items()
        if name not in READ_ONLY_FIELDS
    }
    kind = known["kind"] if known else None
    may_correct = await desk.reading.ask(lambda board: board.may_correct(row["id"]))
    return desk.page(
        visit,
        "quarantined",
        row=row,
        kind=kind,
        fields=fields,
        blanks=BLANKS,
        may_correct=may_correct,
    )


async def change(desk: Desk, visit: Visit) -> web.Response:
    """Mend a row, try it again, send its number alone or give it up."""
    row, verb = await _found(desk, visit), visit.request.match_info["verb"]
    reason = visit.form.get("reason", "").strip()
    asked: dict[str, Any] = {"row": row["id"], "reason": reason or DONE[verb]}
    if verb == "drop" and not reason:
        raise BackhaulError("say why, for whoever looks at it later")
    if verb == "edit":
        asked |= {"kind": visit.form.get("kind") or None, "fields": _given(row, visit)}
    await desk.change(visit, f"quarantine/{verb}", **asked)
    visit.session.tell("good", f"Row {row['id']} {DONE[verb]}.")
    return visit.back_to("/quarantine")


async def _found(desk: Desk, visit: Visit) -> dict[str, Any]:
    id_ = int(visit.request.match_info["id"])
    row = await desk.reading.ask(lambda board: board.set_aside(id_))
    if row is None:
        raise Missing(f"There is no row {id_} in quarantine.")
    return row


def _known(row: dict[str, Any]) -> dict[str, Any] | None:
    """Return the record that a row became, if it became one."""
    payload = row["payload"]
    known = msgspec.json.decode(payload) if payload else None
    return known if isinstance(known, dict) else None


def _given(row: dict[str, Any], visit: Visit) -> dict[str, str]:
    """Return the fields that are different now, and those that were named anew."""
    known = _known(row)
    before = known["record"] if known else {}
    form = visit.form
    changed = {
        name.removeprefix(FIELD): value
        for name, value in form.items()
        if name.startswith(FIELD) and value != _text(before.get(name[len(FIELD) :]))
    }
    for number in range(BLANKS):
        if name := form.get(f"{NAME}{number}", "").strip():
            changed[name] = form.get(f"{VALUE}{number}", "")
    if not changed:
        raise BackhaulError("no field is different; to try it as it is, say so")
    return changed


def _text(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()


_ROW = r"/quarantine/{id:\d{1,18}}"
QUARANTINE_ROUTES = (
    Route("GET", "/quarantine", Role.VIEWER, show_quarantine),
    Route("GET", _ROW, Role.VIEWER, show_quarantined),
    Route("POST", f"{_ROW}/{{verb:{'|'.join(DONE)}}}", Role.OPERATOR, change),
)
