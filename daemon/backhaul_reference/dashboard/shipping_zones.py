"""Shipping zones: destinations and prices."""

from aiohttp import web

from backhaul_reference.control.shop_resources import (
    ChangedZone,
    NewZone,
    change_zone,
    create_zone,
)
from backhaul_reference.dashboard import forms
from backhaul_reference.dashboard.page_context import STORE, B, PageContext, Route
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.problems import Problem
from backhaul_reference.platform.state import shipping

SPARE = 3
"""Empty rows under the rates."""
PLACES = ("countries", "provinces", "cities", "zips")
RATE = ("rate", "price", "minSubtotal", "maxSubtotal")


async def show_zones(context: PageContext) -> web.Response:
    found = context.read(lambda rows: shipping.every(rows, context.store))
    return context.render("shipping.html", zones=found)


async def show_zone(context: PageContext) -> web.Response:
    zone = context.read(
        lambda rows: shipping.view(rows, context.store, context.path("id"))
    )
    return context.render("shipping_one.html", zone=zone, spare=SPARE)


async def new_zone(context: PageContext) -> web.Response:
    return context.render("shipping_one.html", zone=None, spare=SPARE)


def _body(context: PageContext, model: type[B]) -> B:
    form = context.form
    kept = forms.rows(form, *RATE)
    needed = [f"{name}{n}" for n in kept for name in ("rate", "price")]
    forms.require(form, "name", *(needed or ["rate0", "price0"]))
    document = forms.document(form, words=("name",), numbers=("priority",))
    document.setdefault("priority", 0)
    document |= {name: forms.lines(form, name) for name in PLACES}
    document["rates"] = [_rate(context, n) for n in kept]
    try:
        return context.body(model, document)
    except Problem as problem:
        raise forms.renumbered(_at_the_limit(problem), "rates", kept) from None


def _at_the_limit(problem: Problem) -> Problem:
    """Move the schema's error about a rate's limits to a form field."""
    for flaw in problem.members.get("errors") or ():
        if flaw["code"] == "OUT_OF_RANGE":
            flaw["pointer"] += "/maxSubtotal"
            flaw["detail"] = "must not be below “from”"
    return problem


def _rate(context: PageContext, n: int) -> Document:
    found = forms.row(context.form, n, *RATE)
    return {"name": found.pop("rate"), **found}


async def add_zone(context: PageContext) -> web.Response:
    body = _body(context, NewZone)
    await context.change(lambda tx: create_zone(tx, context.store, body))
    return context.go("shipping", notice="The zone is added.")


async def save_zone(context: PageContext) -> web.Response:
    body, zone_id = _body(context, ChangedZone), context.path("id")
    await context.change(lambda tx: change_zone(tx, context.store, zone_id, body))
    return context.go("shipping", notice="The zone is saved.")


async def delete_zone(context: PageContext) -> web.Response:
    zone_id = context.path("id")
    await context.change(lambda tx: shipping.delete(tx, context.store, zone_id))
    return context.go("shipping", notice="The zone is deleted.")


ZONES, NEW = STORE + "/shipping", STORE + "/new-zone"
ROUTES = (
    Route("GET", ZONES, show_zones),
    Route("GET", NEW, new_zone),
    Route("POST", NEW, add_zone, new_zone),
    Route("GET", ZONES + "/{id}", show_zone),
    Route("POST", ZONES + "/{id}", save_zone, show_zone),
    Route("POST", ZONES + "/{id}/delete", delete_zone, show_zone),
)
