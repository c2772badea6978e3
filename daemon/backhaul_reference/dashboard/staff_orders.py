"""Placing an order as staff: on the telephone, over the counter."""

from aiohttp import web

from backhaul_reference.admin_v1.order_bodies import NewOrder
from backhaul_reference.dashboard import forms, offering
from backhaul_reference.dashboard.visit import STORE, Route, Visit
from backhaul_reference.documents import Document
from backhaul_reference.problems import Flaw, Problem, invalid
from backhaul_reference.state import products, recorded_orders, stock
from backhaul_reference.state.database import Rows
from backhaul_reference.web import queries

LINES = 4
PRODUCT_OF = "SELECT product_id FROM variant WHERE store_id = ? AND id = ?"
CUSTOMER = ("name", "email", "phone")
ADDRESS = ("address1", "address2", "city", "province", "country", "zip")


def _offered(visit: Visit) -> dict[str, Document]:
    """The variants on sale that were searched for, and those chosen already."""
    filters = {"status": "active", "search": queries.search(visit.query)}
    listing = visit.read(
        lambda rows: products.page(rows, visit.store, filters, offering.OFFERED)
    )
    return {
        variant["id"]: {**variant, "product": product["title"]}
        for product in [*listing.rows, *_chosen_products(visit)]
        for variant in product["variants"]
    }


def _chosen_products(visit: Visit) -> list[Document]:
    store, form = visit.store, visit.form
    ids = [forms.text(form, f"variant{n}") for n in forms.rows(form, "variant")]

    def find(rows: Rows) -> list[Document]:
        found = [rows.value(PRODUCT_OF, (store.id, one)) for one in ids]
        return [products.view(rows, store, one) for one in found if one is not None]

    return visit.read(find)


async def show_form(visit: Visit) -> web.Response:
    searched = queries.search(visit.query) is not None
    return visit.render(
        "orders_new.html",
        offered=_offered(visit),
        searched=searched,
        lines=range(LINES),
        most=offering.OFFERED.limit,
    )


async def place(visit: Visit) -> web.Response:
    form, store = visit.form, visit.store
    offered, chosen = _offered(visit), forms.rows(visit.form, "variant")
    if not chosen:
        raise invalid([Flaw("/variant0", "REQUIRED", "choose at least one product")])
    forms.require(form, "name", *(f"quantity{n}" for n in chosen))
    words = ("paymentMethod", "financialStatus", "note")
    document = forms.document(form, words=words, flags=("sendReceipt",))
    document["items"] = [_item(visit, offered, n) for n in chosen]
    document["totals"] = forms.document(form, words=("shipping", "discount"))
    document["customer"] = forms.document(form, words=CUSTOMER)
    address = forms.document(form, words=ADDRESS)
    if address.keys() - {"country"}:
        names = {name: document["customer"].get(name) for name in ("name", "phone")}
        document["shippingAddress"] = {**names, **address}
    try:
        sent = visit.body(NewOrder, document).order()
        order = await visit.change(
            lambda tx: recorded_orders.record(tx, store, stock.DASHBOARD, sent)
        )
    except Problem as problem:
        raise forms.renumbered(problem, "items", chosen) from None
    return visit.go("orders", order["id"], notice=f"Order {order['name']} is placed.")


def _item(visit: Visit, offered: dict[str, Document], n: int) -> Document:
    form = visit.form
    variant_id = forms.text(form, f"variant{n}") or ""
    price = forms.text(form, f"price{n}")
    if price is None and variant_id in offered:
        price = offered[variant_id]["price"]
    quantity = forms.number(form, f"quantity{n}")
    return {"variantId": variant_id, "quantity": quantity, "price": price or "0"}


ROUTES = (
    Route("GET", STORE + "/new-order", show_form),
    Route("POST", STORE + "/new-order", place, show_form),
)
