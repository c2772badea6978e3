"""Mails, faults and the clock: what the platform does around a store."""

from aiohttp import web

from backhaul_reference import instants
from backhaul_reference.context import TrackingTokens
from backhaul_reference.control.lever_bodies import (
    ClockMove,
    HttpRule,
    WebhookRule,
)
from backhaul_reference.control.levers import CLOCK
from backhaul_reference.dashboard import forms
from backhaul_reference.dashboard.visit import STORE, Route, Visit
from backhaul_reference.faults import HTTP, WEBHOOKS
from backhaul_reference.mail.letters import Desk
from backhaul_reference.problems import Flaw, invalid, not_found
from backhaul_reference.state import mails
from backhaul_reference.state.database import Row, Rows
from backhaul_reference.state.paging import Listing

NOWHERE = Desk(TrackingTokens(b""), "", "")
"""Writes letters without links: its tokens open nothing."""
MAILS = """SELECT m.*, s.subdomain FROM mail m JOIN store s ON s.id = m.store_id
WHERE m.store_id = ?"""
STEPS = {"minute": 60, "hour": 3600, "day": 86400, "week": 604800}


async def show_mails(visit: Visit) -> web.Response:
    window, store_id = visit.window(), visit.store.id

    def find(rows: Rows) -> Listing:
        total = rows.value("SELECT COUNT(*) FROM mail WHERE store_id = ?", (store_id,))
        sql = MAILS + " ORDER BY m.seq DESC LIMIT ? OFFSET ?"
        found = rows.all(sql, (store_id, window.limit, window.offset))
        shown = [
            {**mails.view(row), "letter": NOWHERE.write(rows, row)} for row in found
        ]
        return Listing(shown, total)

    return visit.render("mails.html", listing=visit.read(find), window=window)


async def show_mail(visit: Visit) -> web.Response:
    def find(rows: Rows) -> Row:
        row = rows.one(MAILS + " AND m.id = ?", (visit.store.id, visit.path("id")))
        if row is None:
            raise not_found("MAIL")
        return row

    row = visit.read(find)
    letter = visit.read(lambda rows: NOWHERE.write(rows, row))
    return visit.render("mails_one.html", mail=mails.view(row), letter=letter)


async def show_faults(visit: Visit) -> web.Response:
    armed = visit.platform.faults.listed(visit.store.id)
    return visit.render("faults.html", armed=armed, http=HTTP, webhooks=WEBHOOKS)


async def add_fault(visit: Visit) -> web.Response:
    """One more rule beside those in force, which begin anew."""
    form, faults = visit.form, visit.platform.faults
    on_webhooks = forms.text(form, "fault") in WEBHOOKS
    document = forms.document(form, words=("fault",), numbers=("count", "burst"))
    place = "topic" if on_webhooks else "route"
    document[place] = forms.text(form, "place") or "*"
    for name in ("probability", "seconds"):
        document[name] = _decimal(visit, name)
    model: type[HttpRule] | type[WebhookRule] = HttpRule
    if on_webhooks:
        model = WebhookRule
    rule = visit.body(model, document).rule()
    kept = [armed.rule for armed in faults.by_store.get(visit.store.id, ())]
    faults.arm(visit.store.id, [*kept, rule], 0)
    return visit.go("faults", notice="The fault is armed.")


def _decimal(visit: Visit, name: str) -> float:
    try:
        return float(forms.text(visit.form, name) or 1)
    except ValueError:
        raise invalid([Flaw(f"/{name}", "WRONG_TYPE", "must be a number")]) from None


async def disarm(visit: Visit) -> web.Response:
    visit.platform.faults.disarm(visit.store.id)
    return visit.go("faults", notice="No fault is armed any more.")


async def show_clock(visit: Visit) -> web.Response:
    clock = visit.request.app[CLOCK]
    return visit.render(
        "clock.html",
        now=instants.to_text(clock.now_ms()),
        frozen=clock.frozen,
        ahead=round(clock.ahead_seconds),
        steps=STEPS,
    )


async def move_clock(visit: Visit) -> web.Response:
    clock, step = visit.request.app[CLOCK], forms.text(visit.form, "step")
    if step in ("freeze", "go"):
        (clock.freeze if step == "freeze" else clock.unfreeze)()
        return visit.go("clock", notice="The clock is changed.")
    seconds = STEPS.get(step or "") or forms.number(visit.form, "seconds")
    move = visit.body(ClockMove, {"advance": seconds})
    if clock.now_ms() + move.advance * 1000 > instants.MAX_MS:
        raise invalid([Flaw("/seconds", "TOO_BIG", "ends after the year 9999")])
    clock.advance(move.advance)
    return visit.go("clock", notice="The clock is ahead.")


ROUTES = (
    Route("GET", STORE + "/mails", show_mails),
    Route("GET", STORE + "/mails/{id}", show_mail),
    Route("GET", STORE + "/faults", show_faults),
    Route("POST", STORE + "/faults", add_fault, show_faults),
    Route("POST", STORE + "/faults/disarm", disarm, show_faults),
    Route("GET", STORE + "/clock", show_clock),
    Route("POST", STORE + "/clock", move_clock, show_clock),
)
