"""What buyers pay: discounts, and shipping zones with their rates."""

from aiohttp import web

from backhaul_reference.control.offer_bodies import (
    ChangedDiscount,
    ChangedZone,
    NewDiscount,
    NewZone,
)
from backhaul_reference.control.shop import (
    change_discount,
    change_zone,
    create_discount,
    create_zone,
)
from backhaul_reference.dashboard import forms
from backhaul_reference.dashboard.visit import STORE, Route, Visit
from backhaul_reference.documents import Document
from backhaul_reference.state import discounts, zones

TYPES = ("PERCENTAGE", "FIXED_AMOUNT", "FREE_SHIPPING")
RATES = 4
AMOUNTS = ("price", "minSubtotal", "maxSubtotal")


async def show_discounts(visit: Visit) -> web.Response:
    window = visit.window()
    listing = visit.read(lambda rows: discounts.page(rows, visit.store, window))
    return visit.render("discounts.html", listing=listing, window=window, types=TYPES)


async def add_discount(visit: Visit) -> web.Response:
    words = ("code", "type", "value", "minimumSubtotal", "startsAt", "endsAt")
    numbers = ("usageLimit", "usageLimitPerCustomer")
    document = forms.document(visit.form, words=words, numbers=numbers)
    for name in ("startsAt", "endsAt"):
        if name in document:
            document[name] += ":00Z"
    body = visit.body(NewDiscount, document)
    await visit.change(lambda tx: create_discount(tx, visit.store, body))
    return visit.go("discounts", notice=f"{body.code} may now be used.")


async def switch_discount(visit: Visit) -> web.Response:
    active = forms.text(visit.form, "active") == "yes"
    body = visit.body(ChangedDiscount, {"active": active})
    discount_id = visit.path("id")
    await visit.change(lambda tx: change_discount(tx, visit.store, discount_id, body))
    return visit.go("discounts", notice="The discount is changed.")


async def delete_discount(visit: Visit) -> web.Response:
    discount_id = visit.path("id")
    await visit.change(lambda tx: discounts.delete(tx, visit.store, discount_id))
    return visit.go("discounts", notice="The discount is deleted.")


async def show_zones(visit: Visit) -> web.Response:
    found = visit.read(lambda rows: zones.every(rows, visit.store))
    return visit.render("shipping.html", zones=found)


async def show_zone(visit: Visit) -> web.Response:
    zone = visit.read(lambda rows: zones.view(rows, visit.store, visit.path("id")))
    return visit.render("shipping_one.html", zone=zone, count=RATES)


async def new_zone(visit: Visit) -> web.Response:
    return visit.render("shipping_one.html", zone=None, count=RATES)


def _zone(visit: Visit) -> Document:
    form = visit.form
    document = forms.document(form, words=("name",), numbers=("priority",))
    places = ("countries", "provinces", "cities", "zips")
    document |= {name: forms.lines(form, name) for name in places}
    document["rates"] = [
        {
            "name": name,
            **{
                one: typed
                for one in AMOUNTS
                if (typed := forms.text(form, one + str(n)))
            },
        }
        for n in range(RATES + 50)
        if (name := forms.text(form, f"rate{n}"))
    ]
    return document


async def add_zone(visit: Visit) -> web.Response:
    body = visit.body(NewZone, _zone(visit))
    await visit.change(lambda tx: create_zone(tx, visit.store, body))
    return visit.go("shipping", notice="The zone is added.")


async def save_zone(visit: Visit) -> web.Response:
    body, zone_id = visit.body(ChangedZone, _zone(visit)), visit.path("id")
    await visit.change(lambda tx: change_zone(tx, visit.store, zone_id, body))
    return visit.go("shipping", notice="The zone is saved.")


async def delete_zone(visit: Visit) -> web.Response:
    zone_id = visit.path("id")
    await visit.change(lambda tx: zones.delete(tx, visit.store, zone_id))
    return visit.go("shipping", notice="The zone is deleted.")


DISCOUNTS, ZONES = STORE + "/discounts", STORE + "/shipping"
ROUTES = (
    Route("GET", DISCOUNTS, show_discounts),
    Route("POST", DISCOUNTS, add_discount, show_discounts),
    Route("POST", DISCOUNTS + "/{id}/active", switch_discount, show_discounts),
    Route("POST", DISCOUNTS + "/{id}/delete", delete_discount, show_discounts),
    Route("GET", ZONES, show_zones),
    Route("GET", STORE + "/new-zone", new_zone),
    Route("POST", STORE + "/new-zone", add_zone, new_zone),
    Route("GET", ZONES + "/{id}", show_zone),
    Route("POST", ZONES + "/{id}", save_zone, show_zone),
    Route("POST", ZONES + "/{id}/delete", delete_zone, show_zone),
)
