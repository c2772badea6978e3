"""Discount codes: list, create, edit, switch on and off."""

from aiohttp import web

from backhaul_reference.control.shop_resource_bodies import ChangedDiscount, NewDiscount
from backhaul_reference.control.shop_resources import change_discount, create_discount
from backhaul_reference.dashboard import forms
from backhaul_reference.dashboard.page_context import STORE, PageContext, Route
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.state import discounts

TYPES = ("PERCENTAGE", "FIXED_AMOUNT", "FREE_SHIPPING")
WORDS = ("code", "type", "value", "minimumSubtotal", "startsAt", "endsAt")
NUMBERS = ("usageLimit", "usageLimitPerCustomer")
TIMES = ("startsAt", "endsAt")


async def show_discounts(visit: PageContext) -> web.Response:
    window = visit.window()
    listing = visit.read(lambda rows: discounts.page(rows, visit.store, window))
    return visit.render("discounts.html", listing=listing, window=window)


async def new_discount(visit: PageContext) -> web.Response:
    return visit.render("discounts_one.html", discount=None, types=TYPES)


async def show_discount(visit: PageContext) -> web.Response:
    found = visit.read(lambda rows: discounts.view(rows, visit.store, visit.path("id")))
    return visit.render("discounts_one.html", discount=found, types=TYPES)


def _document(visit: PageContext) -> Document:
    forms.require(visit.form, "code", *(("value",) if _has_a_value(visit) else ()))
    document = forms.document(
        visit.form, words=WORDS, numbers=NUMBERS, flags=("active",), clearing=True
    )
    for name in TIMES:
        document[name] = forms.instant(document.get(name), visit.store.timezone)
    return document


def _has_a_value(visit: PageContext) -> bool:
    return forms.text(visit.form, "type") != "FREE_SHIPPING"


async def add_discount(visit: PageContext) -> web.Response:
    body = visit.body(NewDiscount, _document(visit))
    await visit.change(lambda tx: create_discount(tx, visit.store, body))
    return visit.go("discounts", notice=f"{body.code} is added.")


async def save_discount(visit: PageContext) -> web.Response:
    body, discount_id = visit.body(ChangedDiscount, _document(visit)), visit.path("id")
    await visit.change(lambda tx: change_discount(tx, visit.store, discount_id, body))
    return visit.go("discounts", notice=f"{body.code} is saved.")


async def switch_discount(visit: PageContext) -> web.Response:
    active = forms.text(visit.form, "active") == "yes"
    body = visit.body(ChangedDiscount, {"active": active})
    discount_id = visit.path("id")
    await visit.change(lambda tx: change_discount(tx, visit.store, discount_id, body))
    notice = "The discount holds again." if active else "The discount is paused."
    return visit.go("discounts", notice=notice)


async def delete_discount(visit: PageContext) -> web.Response:
    discount_id = visit.path("id")
    await visit.change(lambda tx: discounts.delete(tx, visit.store, discount_id))
    return visit.go("discounts", notice="The discount is deleted.")


DISCOUNTS, NEW = STORE + "/discounts", STORE + "/new-discount"
ONE = DISCOUNTS + "/{id}"
ROUTES = (
    Route("GET", DISCOUNTS, show_discounts),
    Route("GET", NEW, new_discount),
    Route("POST", NEW, add_discount, new_discount),
    Route("GET", ONE, show_discount),
    Route("POST", ONE, save_discount, show_discount),
    Route("POST", ONE + "/active", switch_discount, show_discounts),
    Route("POST", ONE + "/delete", delete_discount, show_discounts),
)
