"""Customers, and the mails that the store sent."""

from aiohttp import web

from backhaul_reference.dashboard import forms
from backhaul_reference.dashboard.page_context import STORE, PageContext, Route
from backhaul_reference.mail.texts import MailRenderer
from backhaul_reference.platform.context import TrackingTokens
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.problems import Problem, not_found
from backhaul_reference.platform.state import customers, mail_outbox, order_views
from backhaul_reference.platform.state.database import Listing, Row, Rows, Window
from backhaul_reference.platform.v1.customers import ChangedCustomer, NewCustomer

RECENT = Window(1, 20)
WORDS = ("email", "phone", "firstName", "lastName", "name", "note", "externalId")
ADDRESS = (
    *("name", "phone", "address1", "address2"),
    *("city", "province", "country", "zip"),
)


async def show_customers(context: PageContext) -> web.Response:
    email = context.query.get("email", "").strip().casefold() or None
    window = context.window()
    filters = {"email_key": email}
    listing = context.read(
        lambda rows: customers.page(rows, context.store, filters, window)
    )
    return context.render("customers.html", listing=listing, window=window)


async def show_customer(context: PageContext) -> web.Response:
    store, customer_id = context.store, context.path("id")
    customer = context.read(lambda rows: customers.view(rows, store, customer_id))
    filters: dict[str, str | None] = {"customer_id": customer_id}
    orders = context.read(lambda rows: order_views.page(rows, store, filters, RECENT))
    return context.render("customers_one.html", customer=customer, orders=orders)


async def new_customer(context: PageContext) -> web.Response:
    return context.render("customers_edit.html", customer=None)


async def edit_customer(context: PageContext) -> web.Response:
    customer = context.read(
        lambda rows: customers.view(rows, context.store, context.path("id"))
    )
    return context.render("customers_edit.html", customer=customer)


async def create(context: PageContext) -> web.Response:
    kept = _kept_addresses(context)
    document = _document(context, kept)
    filled = {name: value for name, value in document.items() if value is not None}
    try:
        values = context.body(NewCustomer, filled).values()
    except Problem as problem:
        raise _placed(problem, kept) from None
    made = await context.change(lambda tx: customers.create(tx, context.store, values))
    return context.go("customers", made["id"], notice="The customer is added.")


async def save(context: PageContext) -> web.Response:
    store, customer_id, kept = (
        context.store,
        context.path("id"),
        _kept_addresses(context),
    )
    try:
        values = context.body(ChangedCustomer, _document(context, kept)).values()
        await context.change(
            lambda tx: customers.update(tx, store, customer_id, values)
        )
    except Problem as problem:
        raise _placed(problem, kept) from None
    return context.go("customers", customer_id, notice="The customer is saved.")


async def delete(context: PageContext) -> web.Response:
    customer_id = context.path("id")
    await context.change(lambda tx: customers.delete(tx, context.store, customer_id))
    return context.go("customers", notice="The customer is deleted.")


def _placed(problem: Problem, kept: list[int]) -> Problem:
    """Move the schema's error about a missing email and phone to a form field."""
    for flaw in problem.members.get("errors") or ():
        flaw["pointer"] = flaw["pointer"] or "/email"
    return forms.renumbered(problem, "addresses", kept)


def _kept_addresses(context: PageContext) -> list[int]:
    listed = forms.rows(context.form, *ADDRESS)
    return [n for n in listed if f"remove{n}" not in context.form]


def _document(context: PageContext, kept: list[int]) -> Document:
    form = context.form
    flags = ("acceptsMarketing",)
    document = forms.document(form, words=WORDS, flags=flags, clearing=True)
    document["tags"] = forms.lines(form, "tags")
    document["addresses"] = [_address(context, n) for n in kept]
    return document


def _address(context: PageContext, n: int) -> Document:
    form = context.form
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


RENDERER = MailRenderer(TrackingTokens(b""), "", "")
"""Renders mails without working tracking links: its tokens are fake."""
MAILS = """SELECT m.*, s.subdomain FROM mail m JOIN store s ON s.id = m.store_id
WHERE m.store_id = ?"""


async def show_mails(context: PageContext) -> web.Response:
    window, store_id = context.window(), context.store.id

    def find(rows: Rows) -> Listing:
        total = rows.value("SELECT COUNT(*) FROM mail WHERE store_id = ?", (store_id,))
        sql = MAILS + " ORDER BY m.seq DESC LIMIT ? OFFSET ?"
        found = rows.all(sql, (store_id, window.limit, window.offset))
        shown = [
            {**mail_outbox.view(row), "text": RENDERER.write(rows, row)}
            for row in found
        ]
        return Listing(shown, total)

    return context.render("mails.html", listing=context.read(find), window=window)


async def show_mail(context: PageContext) -> web.Response:
    def find(rows: Rows) -> Row:
        row = rows.one(MAILS + " AND m.id = ?", (context.store.id, context.path("id")))
        if row is None:
            raise not_found("MAIL")
        return row

    row = context.read(find)
    text = context.read(lambda rows: RENDERER.write(rows, row))
    return context.render("mails_one.html", mail=mail_outbox.view(row), text=text)


MAIL_ROUTES = (
    Route("GET", STORE + "/mails", show_mails),
    Route("GET", STORE + "/mails/{id}", show_mail),
)
