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
from backhaul_reference.platform import formats
from backhaul_reference.platform.faults import HTTP, WEBHOOKS
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.problems import Flaw, Problem, invalid
from backhaul_reference.platform.quirks import PLAIN, VALUES
from backhaul_reference.platform.state import stores

STEPS = {"minute": 60, "hour": 3600, "day": 86400, "week": 604800}
MEANINGS = {
    "bare-v1": "Responses are the bare object or array, without “data” and “meta”",
    "bare-webhooks": "A delivery's body is the bare resource, without an envelope",
    "bare-headers": "A delivery has its signature and no other header of the platform",
    "number-money": "Money is a JSON number",
    "lowercase-enums": "Statuses come in lower case",
    "plain-errors": "Errors are {“error”: “text”}",
    "clamp-limit": "A limit above the maximum is reduced silently",
    "no-updated-since": "There is no filter “updatedSince”",
    "coarse-time": "Times have whole seconds, so two updates may have the same time",
    "no-sequence": "Events have no sequence number",
    "no-idempotency": "Idempotency-Key is ignored and not advertised",
    "no-history": "There is no inventory history",
    "no-note": "Notes are neither stored nor returned",
    "no-store-endpoint": "GET /store does not exist",
    "pooled-stock": "Without a variant an adjustment moves one shared pool",
    "strict-repeat": "A repeated fulfill or cancel answers 409",
    "refuse-fulfill-cancelled": "A cancelled order cannot be fulfilled",
    "refulfill-attaches": "A new number for a fulfilled order adds a shipment",
    "strict-body": "Members that the specification does not show are rejected",
    "ignore-variant": "An adjustment moves every variant, whichever it names",
    "manual-reason": "The reason of an adjustment must be MANUAL_ADJUSTMENT",
    "no-levels": "There is no GET /inventory",
    "no-webhook-api": "Webhooks can be created only here, not through the API",
    "ignore-page": "The list of orders ignores page and limit",
    "ack-202": "Payment reports and adjustments answer 202",
    "no-retry": "A failed delivery is never retried",
    "restock-field": "The restock flag of a cancel has this name",
    "tracking-fields": "The carrier and the number of a shipment have these names",
}
CONTENTS = {
    "demo": "A small shop: 24 products with variants, and two shipping zones",
    "fresh": "The same small shop before its first order",
    "empty": "Only the default menus and free shipping everywhere",
    "large": "10,000 products and 100,000 orders; loading takes a while",
}


async def show_quirks(context: PageContext) -> web.Response:
    named = (one.partition("=") for one in context.store.quirks.texts)
    on = {name: value for name, _, value in named}
    return context.render(
        "quirks.html", on=on, plain=PLAIN, valued=VALUES, told=MEANINGS
    )


async def save_quirks(context: PageContext) -> web.Response:
    """Save the ticked quirks with the typed names."""
    texts = [one for one in forms.texts(context.form, "quirks") if one in PLAIN]
    named = [one for one in VALUES if forms.text(context.form, one)]
    texts += [f"{one}=" + ",".join(forms.lines(context.form, one)) for one in named]
    try:
        chosen = chosen_quirks(context.body(QuirkList, {"quirks": texts}))
    except Problem as problem:
        places = {f"quirks/{n}": text.split("=")[0] for n, text in enumerate(texts)}
        raise forms.renamed(problem, **places) from None
    values = {"quirks": list(chosen.texts)}
    await context.change(lambda tx: stores.change(tx, context.store.id, values))
    return context.go("quirks", notice=f"{len(texts)} quirks are on.")


async def show_fixtures(context: PageContext) -> web.Response:
    return context.render("fixtures.html", contents=CONTENTS)


async def load_fixture(context: PageContext) -> web.Response:
    """Reset the store to a fixture; its keys stay."""
    name = forms.text(context.form, "fixture")
    if name not in loader.FIXTURES:
        raise invalid([Flaw("/fixture", "NOT_ALLOWED", "choose a fixture")])
    if "sure" not in context.form:
        raise invalid(
            [
                Flaw(
                    "/sure",
                    "REQUIRED",
                    "tick the box: all data of the store is deleted",
                )
            ]
        )
    await refill(context.platform, context.store, name)
    return context.go("fixtures", notice=f"The store was reset to “{name}”.")


async def show_faults(context: PageContext) -> web.Response:
    armed = context.platform.faults.listed(context.store.id)
    return context.render("faults.html", armed=armed, http=HTTP, webhooks=WEBHOOKS)


async def add_fault(context: PageContext) -> web.Response:
    """Add a fault rule; the active rules stay."""
    model: type[HttpRule] | type[WebhookRule] = HttpRule
    place = "route"
    if forms.text(context.form, "fault") in WEBHOOKS:
        model, place = WebhookRule, "topic"
    try:
        rule = context.body(model, _fault(context, place)).rule()
    except Problem as problem:
        raise forms.renamed(problem, route="place", topic="place") from None
    context.platform.faults.add(context.store.id, rule, 0)
    return context.go("faults", notice="The fault rule is active.")


def _fault(context: PageContext, place: str) -> Document:
    numbers = ("count", "burst") if place == "topic" else ("count", "burst", "status")
    words = ("fault",) if place == "topic" else ("fault", "method")
    document = forms.document(context.form, words=words, numbers=numbers)
    document[place] = forms.text(context.form, "place") or "*"
    for name in ("probability", "seconds"):
        document[name] = _decimal(context, name)
    return document


def _decimal(context: PageContext, name: str) -> float:
    try:
        return float(forms.text(context.form, name) or 1)
    except ValueError:
        raise invalid([Flaw(f"/{name}", "WRONG_TYPE", "must be a number")]) from None


async def disarm(context: PageContext) -> web.Response:
    context.platform.faults.disarm(context.store.id)
    return context.go("faults", notice="No fault rule is active.")


async def disarm_one(context: PageContext) -> web.Response:
    context.platform.faults.disarm_one(context.store.id, context.path("fault"))
    return context.go(
        "faults", notice="The fault rule is removed. The other rules stay active."
    )


async def show_clock(context: PageContext) -> web.Response:
    clock = context.request.app[CLOCK]
    return context.render(
        "clock.html",
        now=formats.to_text(clock.now_ms()),
        frozen=clock.frozen,
        ahead=round(clock.ahead_seconds),
        steps=STEPS,
    )


async def move_clock(context: PageContext) -> web.Response:
    clock, step = context.request.app[CLOCK], forms.text(context.form, "step")
    if step in ("freeze", "go"):
        (clock.freeze if step == "freeze" else clock.unfreeze)()
        return context.go("clock", notice="The clock is changed.")
    if step not in STEPS:
        forms.require(context.form, "seconds")
    seconds = STEPS.get(step or "") or forms.number(context.form, "seconds")
    try:
        advance(clock, context.body(ClockMove, {"advance": seconds}))
    except Problem as problem:
        raise forms.renamed(problem, advance="seconds") from None
    return context.go("clock", notice="The clock is advanced.")


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
