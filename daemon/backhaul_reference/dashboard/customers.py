"""Customers: list, one customer with orders, create and edit."""

from aiohttp import web

from backhaul_reference.dashboard import forms
from backhaul_reference.dashboard.page_context import STORE, PageContext, Route
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.problems import Problem
from backhaul_reference.platform.state import customers, order_views
from backhaul_reference.platform.state.pagination import Window
from backhaul_reference.platform.v1.customers import ChangedCustomer, NewCustomer

RECENT = Window(1, 20)
WORDS = ("email", "phone", "firstName", "lastName", "name", "note", "externalId")
ADDRESS = (
    *("name", "phone", "address1", "address2"),
    *("city", "province", "country", "zip"),
)


async def show_customers(visit: PageContext) -> web.Response:
    email = visit.query.get("email", "").strip().casefold() or None
    window = visit.window()
    filters = {"email_key": email}
    listing = visit.read(
        lambda rows: customers.page(rows, visit.store, filters, window)
    )
    return visit.render("customers.html", listing=listing, window=window)


async def show_customer(visit: PageContext) -> web.Response:
    store, customer_id = visit.store, visit.path("id")
    customer = visit.read(lambda rows: customers.view(rows, store, customer_id))
    filters: dict[str, str | None] = {"customer_id": customer_id}
    orders = visit.read(lambda rows: order_views.page(rows, store, filters, RECENT))
    return visit.render("customers_one.html", customer=customer, orders=orders)


async def new_customer(visit: PageContext) -> web.Response:
    return visit.render("customers_edit.html", customer=None)


async def edit_customer(visit: PageContext) -> web.Response:
    customer = visit.read(
        lambda rows: customers.view(rows, visit.store, visit.path("id"))
    )
    return visit.render("customers_edit.html", customer=customer)


async def create(visit: PageContext) -> web.Response:
    kept = _kept_addresses(visit)
    document = _document(visit, kept)
    filled = {name: value for name, value in document.items() if value is not None}
    try:
        values = visit.body(NewCustomer, filled).values()
    except Problem as problem:
        raise _placed(problem, kept) from None
    made = await visit.change(lambda tx: customers.create(tx, visit.store, values))
    return visit.go("customers", made["id"], notice="The customer is added.")


async def save(visit: PageContext) -> web.Response:
    store, customer_id, kept = visit.store, visit.path("id"), _kept_addresses(visit)
    try:
        values = visit.body(ChangedCustomer, _document(visit, kept)).values()
        await visit.change(lambda tx: customers.update(tx, store, customer_id, values))
    except Problem as problem:
        raise _placed(problem, kept) from None
    return visit.go("customers", customer_id, notice="The customer is saved.")


async def delete(visit: PageContext) -> web.Response:
    customer_id = visit.path("id")
    await visit.change(lambda tx: customers.delete(tx, visit.store, customer_id))
    return visit.go("customers", notice="The customer is deleted.")


def _placed(problem: Problem, kept: list[int]) -> Problem:
    """The schema tells of the whole body that neither email nor phone is there."""
    for flaw in problem.members.get("errors") or ():
        flaw["pointer"] = flaw["pointer"] or "/email"
    return forms.renumbered(problem, "addresses", kept)


def _kept_addresses(visit: PageContext) -> list[int]:
    listed = forms.rows(visit.form, *ADDRESS)
    return [n for n in listed if f"remove{n}" not in visit.form]


def _document(visit: PageContext, kept: list[int]) -> Document:
    form = visit.form
    flags = ("acceptsMarketing",)
    document = forms.document(form, words=WORDS, flags=flags, clearing=True)
    document["tags"] = forms.lines(form, "tags")
    document["addresses"] = [_address(visit, n) for n in kept]
    return document


def _address(visit: PageContext, n: int) -> Document:
    form = visit.form
    found = forms.row(form, n, *ADDRESS, clearing=True)
    found["isDefault"] = forms.text(form, "default") == str(n)
    known = forms.text(form, f"id{n}")
    return {**found, "id": known} if known else found


ONE, NEW = STORE + "/customers/{id}", STORE + "/new-customer"
ROUTES = (
    Route("GET", STORE + "/customers", show_customers),
    Route("GET", NEW, new_customer),
    Route("POST", NEW, create, new_customer),
    Route("GET", ONE, show_customer),
    Route("GET", ONE + "/edit", edit_customer),
    Route("POST", ONE + "/edit", save, edit_customer),
    Route("POST", ONE + "/delete", delete, show_customer),
)
