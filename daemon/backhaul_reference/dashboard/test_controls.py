"""Test controls: quirks, faults, fixtures and the clock."""

from aiohttp import web

from backhaul_reference.control.test_controls import (
    CLOCK,
    ClockMove,
    HttpRule,
    QuirkList,
    WebhookRule,
    advance,
    chosen_quirks,
    refill,
)
from backhaul_reference.dashboard import forms
from backhaul_reference.dashboard.page_context import STORE, PageContext, Route
from backhaul_reference.fixtures import loader
from backhaul_reference.platform import timestamps
from backhaul_reference.platform.faults import HTTP, WEBHOOKS
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.problems import Flaw, Problem, invalid
from backhaul_reference.platform.quirks import PLAIN, VALUES
from backhaul_reference.platform.state import stores

STEPS = {"minute": 60, "hour": 3600, "day": 86400, "week": 604800}
MEANINGS = {
    "bare-v1": "Answers are the bare object or array, without “data” and “meta”",
    "bare-webhooks": "A delivery's body is the bare resource, without an envelope",
    "bare-headers": "A delivery carries its signature and no other header of ours",
    "number-money": "Money is a JSON number",
    "lowercase-enums": "Statuses come in lower case",
    "plain-errors": "Errors are {“error”: “text”}",
    "clamp-limit": "A limit above the maximum is clamped without a word",
    "no-updated-since": "There is no filter “updatedSince”",
    "coarse-time": "Times have whole seconds, so that updates may share one",
    "no-sequence": "Events carry no sequence",
    "no-idempotency": "Idempotency-Key is ignored and not advertised",
    "no-history": "There is no inventory history",
    "no-note": "A note is neither stored nor given back",
    "no-store-endpoint": "GET /store does not exist",
    "pooled-stock": "Without a variant an adjustment moves one shared pool",
    "strict-repeat": "A repeated fulfill or cancel answers 409",
    "refuse-fulfill-cancelled": "A cancelled order cannot be fulfilled",
    "refulfill-attaches": "Another number for a fulfilled order is a further shipment",
    "strict-body": "Members that the specification does not show are refused",
    "ignore-variant": "An adjustment moves every variant, whichever it names",
    "manual-reason": "The reason of an adjustment must be MANUAL_ADJUSTMENT",
    "no-levels": "There is no GET /inventory",
    "no-webhook-api": "Webhooks are made here only, not through the API",
    "ignore-page": "The list of orders ignores page and limit",
    "ack-202": "Payment reports and adjustments answer 202",
    "no-retry": "A failed delivery is never tried again",
    "restock-field": "The restock flag of a cancel has this name",
    "tracking-fields": "The carrier and the number of a shipment have these names",
}
CONTENTS = {
    "demo": "A small shop: 24 products with variants, and two shipping zones",
    "fresh": "The same small shop before its first order",
    "empty": "Nothing but the first menus and free shipping everywhere",
    "large": "10,000 products and 100,000 orders; loading takes a while",
}


async def show_quirks(visit: PageContext) -> web.Response:
    named = (one.partition("=") for one in visit.store.quirks.texts)
    on = {name: value for name, _, value in named}
    return visit.render("quirks.html", on=on, plain=PLAIN, valued=VALUES, told=MEANINGS)


async def save_quirks(visit: PageContext) -> web.Response:
    """The boxes that are ticked, and the names that were typed."""
    texts = [one for one in forms.texts(visit.form, "quirks") if one in PLAIN]
    named = [one for one in VALUES if forms.text(visit.form, one)]
    texts += [f"{one}=" + ",".join(forms.lines(visit.form, one)) for one in named]
    try:
        chosen = chosen_quirks(visit.body(QuirkList, {"quirks": texts}))
    except Problem as problem:
        places = {f"quirks/{n}": text.split("=")[0] for n, text in enumerate(texts)}
        raise forms.renamed(problem, **places) from None
    values = {"quirks": list(chosen.texts)}
    await visit.change(lambda tx: stores.change(tx, visit.store.id, values))
    return visit.go("quirks", notice=f"{len(texts)} quirks are on.")


async def show_fixtures(visit: PageContext) -> web.Response:
    return visit.render("fixtures.html", contents=CONTENTS)


async def load_fixture(visit: PageContext) -> web.Response:
    """Empty the store and begin again; its keys stay."""
    name = forms.text(visit.form, "fixture")
    if name not in loader.FIXTURES:
        raise invalid([Flaw("/fixture", "NOT_ALLOWED", "choose what to load")])
    if "sure" not in visit.form:
        raise invalid([Flaw("/sure", "REQUIRED", "tick it: nothing is kept")])
    await refill(visit.platform, visit.store, name)
    return visit.go("fixtures", notice=f"The store begins anew with “{name}”.")


async def show_faults(visit: PageContext) -> web.Response:
    armed = visit.platform.faults.listed(visit.store.id)
    return visit.render("faults.html", armed=armed, http=HTTP, webhooks=WEBHOOKS)


async def add_fault(visit: PageContext) -> web.Response:
    """One more rule beside those in force, which go on as they are."""
    model: type[HttpRule] | type[WebhookRule] = HttpRule
    place = "route"
    if forms.text(visit.form, "fault") in WEBHOOKS:
        model, place = WebhookRule, "topic"
    try:
        rule = visit.body(model, _fault(visit, place)).rule()
    except Problem as problem:
        raise forms.renamed(problem, route="place", topic="place") from None
    visit.platform.faults.add(visit.store.id, rule, 0)
    return visit.go("faults", notice="The fault is armed.")


def _fault(visit: PageContext, place: str) -> Document:
    numbers = ("count", "burst") if place == "topic" else ("count", "burst", "status")
    words = ("fault",) if place == "topic" else ("fault", "method")
    document = forms.document(visit.form, words=words, numbers=numbers)
    document[place] = forms.text(visit.form, "place") or "*"
    for name in ("probability", "seconds"):
        document[name] = _decimal(visit, name)
    return document


def _decimal(visit: PageContext, name: str) -> float:
    try:
        return float(forms.text(visit.form, name) or 1)
    except ValueError:
        raise invalid([Flaw(f"/{name}", "WRONG_TYPE", "must be a number")]) from None


async def disarm(visit: PageContext) -> web.Response:
    visit.platform.faults.disarm(visit.store.id)
    return visit.go("faults", notice="No fault is armed any more.")


async def disarm_one(visit: PageContext) -> web.Response:
    visit.platform.faults.disarm_one(visit.store.id, visit.path("fault"))
    return visit.go("faults", notice="The fault is disarmed; the others go on.")


async def show_clock(visit: PageContext) -> web.Response:
    clock = visit.request.app[CLOCK]
    return visit.render(
        "clock.html",
        now=timestamps.to_text(clock.now_ms()),
        frozen=clock.frozen,
        ahead=round(clock.ahead_seconds),
        steps=STEPS,
    )


async def move_clock(visit: PageContext) -> web.Response:
    clock, step = visit.request.app[CLOCK], forms.text(visit.form, "step")
    if step in ("freeze", "go"):
        (clock.freeze if step == "freeze" else clock.unfreeze)()
        return visit.go("clock", notice="The clock is changed.")
    if step not in STEPS:
        forms.require(visit.form, "seconds")
    seconds = STEPS.get(step or "") or forms.number(visit.form, "seconds")
    try:
        advance(clock, visit.body(ClockMove, {"advance": seconds}))
    except Problem as problem:
        raise forms.renamed(problem, advance="seconds") from None
    return visit.go("clock", notice="The clock is ahead.")


ROUTES = (
    Route("GET", STORE + "/quirks", show_quirks),
    Route("POST", STORE + "/quirks", save_quirks, show_quirks),
    Route("GET", STORE + "/fixtures", show_fixtures),
    Route("POST", STORE + "/fixtures", load_fixture, show_fixtures),
    Route("GET", STORE + "/faults", show_faults),
    Route("POST", STORE + "/faults", add_fault, show_faults),
    Route("POST", STORE + "/faults/disarm", disarm, show_faults),
    Route("POST", STORE + "/faults/{fault}/disarm", disarm_one, show_faults),
    Route("GET", STORE + "/clock", show_clock),
    Route("POST", STORE + "/clock", move_clock, show_clock),
)
