"""Store settings, payment methods, and opening a new store."""

import base64
from zoneinfo import available_timezones

from aiohttp import web
from aiohttp.web_request import FileField

from backhaul_reference.control.stores import NewStore, StoreSettings, add_store
from backhaul_reference.dashboard import forms
from backhaul_reference.dashboard.page_context import STORE, PageContext, Route
from backhaul_reference.dashboard.test_controls import CONTENTS
from backhaul_reference.data_folder import STORE_REGISTRY
from backhaul_reference.platform import money
from backhaul_reference.platform.http import request_bodies
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.problems import Flaw, invalid
from backhaul_reference.platform.state import stores

MAX_PICTURE_BYTES = 140_000
PICTURES = ("image/png", "image/jpeg", "image/webp", "image/gif")
MODES = ("OPTIONAL", "REQUIRED", "GUEST_ONLY")
WORDS = (
    *("storeName", "timezone", "locale", "country", "logo", "seoTitle"),
    *("seoDescription", "merchantEmail", "trackingPage"),
)


async def show_settings(context: PageContext) -> web.Response:
    return context.render(
        "settings.html",
        shown=stores.control_view(context.store),
        modes=MODES,
        zones=sorted(available_timezones()),
    )


async def save_settings(context: PageContext) -> web.Response:
    flags = ("active", "codConfirmation")
    forms.require(context.form, "storeName", "country", "locale", "timezone")
    document = forms.document(context.form, words=WORDS, flags=flags, clearing=True)
    if document["timezone"] != context.store.timezone:
        _check_zone(document["timezone"])
    mode = forms.text(context.form, "accountMode") or context.store.account_mode
    document["customerAccounts"] = {"mode": mode}
    return await _save(context, document, "settings")


def _check_zone(name: str) -> None:
    """Reject an unknown time zone, which would silently show every time in UTC."""
    if name not in available_timezones():
        detail = "must be a time zone such as Asia/Kolkata"
        raise invalid([Flaw("/timezone", "NOT_ALLOWED", detail)])


async def show_payments(context: PageContext) -> web.Response:
    return context.render("payments.html", shown=stores.control_view(context.store))


async def save_payments(context: PageContext) -> web.Response:
    methods = {"cod": _method(context, "cod"), "customQr": _method(context, "qr")}
    methods["customQr"]["qr"] = _picture(context)
    return await _save(context, {"paymentSettings": methods}, "payments")


def _method(context: PageContext, name: str) -> Document:
    form = context.form
    return {
        "enabled": f"{name}Enabled" in form,
        "fee": forms.text(form, f"{name}Fee") or "0",
        "instructions": forms.text(form, f"{name}Instructions"),
    }


def _picture(context: PageContext) -> str | None:
    """Return the uploaded picture as a data URL, else the store's present picture."""
    kept: str | None = context.store.custom_qr.get("qr")
    file = context.form.get("qrFile")
    if not isinstance(file, FileField) or not file.filename:
        return None if "qrRemove" in context.form else kept
    if file.content_type not in PICTURES:
        raise invalid([Flaw("/qrFile", "NOT_ALLOWED", "must be a picture")])
    content = file.file.read(MAX_PICTURE_BYTES + 1)
    if len(content) > MAX_PICTURE_BYTES:
        detail = f"must be at most {MAX_PICTURE_BYTES // 1000} kB"
        raise invalid([Flaw("/qrFile", "TOO_BIG", detail)])
    return f"data:{file.content_type};base64,{base64.b64encode(content).decode()}"


async def _save(context: PageContext, document: Document, page: str) -> web.Response:
    columns = context.body(StoreSettings, document).columns()
    await context.change(lambda tx: stores.change(tx, context.store.id, columns))
    return context.go(page, notice="The settings are saved.")


ROUTES = (
    Route("GET", STORE + "/settings", show_settings),
    Route("POST", STORE + "/settings", save_settings, show_settings),
    Route("GET", STORE + "/payments", show_payments),
    Route("POST", STORE + "/payments", save_payments, show_payments),
)


NEW_STORE_FIELDS = (
    "subdomain",
    "storeName",
    "currency",
    "country",
    "timezone",
    "fixture",
)


async def show_form(context: PageContext) -> web.Response:
    return context.render("stores_new.html", contents=CONTENTS)


async def open_store(context: PageContext) -> web.Response:
    """Create a store; only this response shows its first API key."""
    forms.require(context.form, "subdomain", "storeName", "currency")
    document = forms.document(context.form, words=NEW_STORE_FIELDS)
    exponent = money.exponent_of(document["currency"])
    body = request_bodies.parse(NewStore, document, exponent)
    roll = context.request.app[STORE_REGISTRY]
    opened, key = await add_store(context.platform, roll, body)
    shown = {"kind": "API key", "name": opened.name, "text": key}
    return context.render("stores_opened.html", opened=opened, shown_once=shown)


NEW = STORE + "/new-store"
NEW_STORE_ROUTES = (
    Route("GET", NEW, show_form),
    Route("POST", NEW, open_store, show_form),
)
