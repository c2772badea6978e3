"""Opening a store: a name, a currency, and what is in it from the start."""

from aiohttp import web

from backhaul_reference import money
from backhaul_reference.control.bodies import NewStore
from backhaul_reference.control.stores import add_store
from backhaul_reference.dashboard import forms
from backhaul_reference.dashboard.levers import CONTENTS
from backhaul_reference.dashboard.visit import STORE, Route, Visit
from backhaul_reference.roll import ROLL
from backhaul_reference.web import bodies

WORDS = ("subdomain", "storeName", "currency", "country", "timezone", "fixture")


async def show_form(visit: Visit) -> web.Response:
    return visit.render("stores_new.html", contents=CONTENTS)


async def open_store(visit: Visit) -> web.Response:
    """The store's first key is shown in this one answer."""
    forms.require(visit.form, "subdomain", "storeName", "currency")
    document = forms.document(visit.form, words=WORDS)
    exponent = money.exponent_of(document["currency"])
    body = bodies.parse(NewStore, document, exponent)
    roll = visit.request.app[ROLL]
    opened, key = await add_store(visit.platform, roll, body)
    shown = {"kind": "API key", "name": opened.name, "text": key}
    return visit.render("stores_opened.html", opened=opened, shown_once=shown)


NEW = STORE + "/new-store"
ROUTES = (
    Route("GET", NEW, show_form),
    Route("POST", NEW, open_store, show_form),
)
