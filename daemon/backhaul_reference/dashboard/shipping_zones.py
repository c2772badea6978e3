"""Shipping zones: destinations and prices."""

from aiohttp import web

from backhaul_reference.control.shop_resource_bodies import ChangedZone, NewZone
from backhaul_reference.control.shop_resources import change_zone, create_zone
from backhaul_reference.dashboard import forms
from backhaul_reference.dashboard.page_context import STORE, B, PageContext, Route
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.problems import Problem
from backhaul_reference.platform.state import shipping_zones

SPARE = 3
"""Empty rows under the rates."""
PLACES = ("countries", "provinces", "cities", "zips")
RATE = ("rate", "price", "minSubtotal", "maxSubtotal")


async def show_zones(visit: PageContext) -> web.Response:
    found = visit.read(lambda rows: shipping_zones.every(rows, visit.store))
    return visit.render("shipping.html", zones=found)


async def show_zone(visit: PageContext) -> web.Response:
    zone = visit.read(
        lambda rows: shipping_zones.view(rows, visit.store, visit.path("id"))
    )
    return visit.render("shipping_one.html", zone=zone, spare=SPARE)


async def new_zone(visit: PageContext) -> web.Response:
    return visit.render("shipping_one.html", zone=None, spare=SPARE)


def _body(visit: PageContext, model: type[B]) -> B:
    form = visit.form
    kept = forms.rows(form, *RATE)
    needed = [f"{name}{n}" for n in kept for name in ("rate", "price")]
    forms.require(form, "name", *(needed or ["rate0", "price0"]))
    document = forms.document(form, words=("name",), numbers=("priority",))
    document.setdefault("priority", 0)
    document |= {name: forms.lines(form, name) for name in PLACES}
    document["rates"] = [_rate(visit, n) for n in kept]
    try:
        return visit.body(model, document)
    except Problem as problem:
        raise forms.renumbered(_at_the_limit(problem), "rates", kept) from None


def _at_the_limit(problem: Problem) -> Problem:
    """The schema tells of a whole rate that it ends before it begins."""
    for flaw in problem.members.get("errors") or ():
        if flaw["code"] == "OUT_OF_RANGE":
            flaw["pointer"] += "/maxSubtotal"
            flaw["detail"] = "must not be below “from”"
    return problem


def _rate(visit: PageContext, n: int) -> Document:
    found = forms.row(visit.form, n, *RATE)
    return {"name": found.pop("rate"), **found}


async def add_zone(visit: PageContext) -> web.Response:
    body = _body(visit, NewZone)
    await visit.change(lambda tx: create_zone(tx, visit.store, body))
    return visit.go("shipping", notice="The zone is added.")


async def save_zone(visit: PageContext) -> web.Response:
    body, zone_id = _body(visit, ChangedZone), visit.path("id")
    await visit.change(lambda tx: change_zone(tx, visit.store, zone_id, body))
    return visit.go("shipping", notice="The zone is saved.")


async def delete_zone(visit: PageContext) -> web.Response:
    zone_id = visit.path("id")
    await visit.change(lambda tx: shipping_zones.delete(tx, visit.store, zone_id))
    return visit.go("shipping", notice="The zone is deleted.")


ZONES, NEW = STORE + "/shipping", STORE + "/new-zone"
ROUTES = (
    Route("GET", ZONES, show_zones),
    Route("GET", NEW, new_zone),
    Route("POST", NEW, add_zone, new_zone),
    Route("GET", ZONES + "/{id}", show_zone),
    Route("POST", ZONES + "/{id}", save_zone, show_zone),
    Route("POST", ZONES + "/{id}/delete", delete_zone, show_zone),
)
