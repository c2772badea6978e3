"""Discount codes: list, create, edit, switch on and off."""

from aiohttp import web

from backhaul_reference.control.shop_resources import (
    ChangedDiscount,
    NewDiscount,
    change_discount,
    create_discount,
)
from backhaul_reference.dashboard import forms
from backhaul_reference.dashboard.page_context import STORE, PageContext, Route
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.state import discounts

TYPES = ("PERCENTAGE", "FIXED_AMOUNT", "FREE_SHIPPING")
WORDS = ("code", "type", "value", "minimumSubtotal", "startsAt", "endsAt")
NUMBERS = ("usageLimit", "usageLimitPerCustomer")
TIMES = ("startsAt", "endsAt")


async def show_discounts(context: PageContext) -> web.Response:
    window = context.window()
    listing = context.read(lambda rows: discounts.page(rows, context.store, window))
    return context.render("discounts.html", listing=listing, window=window)


async def new_discount(context: PageContext) -> web.Response:
    return context.render("discounts_one.html", discount=None, types=TYPES)


async def show_discount(context: PageContext) -> web.Response:
    found = context.read(
        lambda rows: discounts.view(rows, context.store, context.path("id"))
    )
    return context.render("discounts_one.html", discount=found, types=TYPES)


def _document(context: PageContext) -> Document:
    forms.require(context.form, "code", *(("value",) if _has_a_value(context) else ()))
    document = forms.document(
        context.form, words=WORDS, numbers=NUMBERS, flags=("active",), clearing=True
    )
    for name in TIMES:
        document[name] = forms.instant(document.get(name), context.store.timezone)
    return document


def _has_a_value(context: PageContext) -> bool:
    return forms.text(context.form, "type") != "FREE_SHIPPING"


async def add_discount(context: PageContext) -> web.Response:
    body = context.body(NewDiscount, _document(context))
    await context.change(lambda tx: create_discount(tx, context.store, body))
    return context.go("discounts", notice=f"{body.code} is added.")


async def save_discount(context: PageContext) -> web.Response:
    body, discount_id = (
        context.body(ChangedDiscount, _document(context)),
        context.path("id"),
    )
    await context.change(
        lambda tx: change_discount(tx, context.store, discount_id, body)
    )
    return context.go("discounts", notice=f"{body.code} is saved.")


async def switch_discount(context: PageContext) -> web.Response:
    active = forms.text(context.form, "active") == "yes"
    body = context.body(ChangedDiscount, {"active": active})
    discount_id = context.path("id")
    await context.change(
        lambda tx: change_discount(tx, context.store, discount_id, body)
    )
    notice = "The discount holds again." if active else "The discount is paused."
    return context.go("discounts", notice=notice)


async def delete_discount(context: PageContext) -> web.Response:
    discount_id = context.path("id")
    await context.change(lambda tx: discounts.delete(tx, context.store, discount_id))
    return context.go("discounts", notice="The discount is deleted.")


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
