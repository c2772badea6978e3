"""Orders: list, one order with its actions, and orders placed by staff."""

from typing import get_args

from aiohttp import web

from backhaul_reference.control.stores import Step
from backhaul_reference.dashboard import forms, page_context
from backhaul_reference.dashboard.page_context import STORE, Handler, PageContext, Route
from backhaul_reference.platform import models, order_models
from backhaul_reference.platform.http import query_params
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.problems import Flaw, Problem, invalid
from backhaul_reference.platform.state import (
    inventory,
    order_cancellation,
    order_fulfillment,
    order_payments,
    order_views,
    products,
    recorded_orders,
)
from backhaul_reference.platform.state.database import Rows
from backhaul_reference.platform.state.order_lifecycle import (
    FINANCIAL_STATUSES,
    FULFILLMENT_STATUSES,
    STATUSES,
)
from backhaul_reference.platform.v1.orders import CancelOrder, Fulfill, NewOrder

CHOICES = {
    "status": ("Status", STATUSES),
    "financial": ("Payment", FINANCIAL_STATUSES),
    "fulfillment": ("Delivery", FULFILLMENT_STATUSES),
}
Moment = tuple[str, str, str | None]


async def show_orders(context: PageContext) -> web.Response:
    filters: dict[str, str | None] = {
        name: query_params.choice(context.query, name, allowed)
        for name, (_, allowed) in CHOICES.items()
    }
    number = context.query.get("number", "").strip().removeprefix("#")
    window = context.window()
    if number:
        filters["number"] = number if number.isascii() and number.isdigit() else "-1"
    listing = context.read(
        lambda rows: order_views.page(rows, context.store, filters, window)
    )
    return context.render(
        "orders.html", listing=listing, window=window, choices=CHOICES
    )


async def show_order(context: PageContext) -> web.Response:
    order = context.read(
        lambda rows: order_views.view(rows, context.store, context.path("id"))
    )
    return context.render(
        "orders_one.html",
        order=order,
        moments=moments(order),
        reasons=get_args(order_cancellation.Reason),
    )


def moments(order: order_models.Order) -> list[Moment]:
    """Return an order's history, oldest first: time, event and detail."""
    found: list[Moment] = [
        (order["placedAt"], "Placed", order["source"]),
    ]
    if confirmed := order["confirmation"]["confirmedAt"]:
        found.append((confirmed, "Confirmed", None))
    if paid := order["payment"]["paidAt"]:
        found.append((paid, "Paid", order["paymentMethod"]))
    if report := order["payment"]["report"]:
        detail = f"Transaction {report['transactionId']}"
        found.append((report["reportedAt"], "Payment reported", detail))
    for shipment in order["shipments"]:
        names = (shipment["trackingCompany"], shipment["trackingNumber"])
        detail = " ".join(name for name in names if name)
        found.append((shipment["shippedAt"], "Shipped", detail or None))
    if cancelled := order["cancellation"]:
        found.append((cancelled["cancelledAt"], "Cancelled", cancelled["note"]))
    return sorted(found, key=lambda one: one[0])


def change_payment(step: Step, notice: str) -> Handler:
    async def handle(context: PageContext) -> web.Response:
        order_id = context.path("id")
        await context.change(lambda tx: step(tx, context.store, order_id))
        return context.go("orders", order_id, notice=notice)

    return handle


async def fulfill(context: PageContext) -> web.Response:
    """Ship the chosen lines; if all open lines are chosen, send no line list."""
    order_id, store, form = context.path("id"), context.store, context.form
    order = context.read(lambda rows: order_views.view(rows, store, order_id))
    words = ("trackingCompany", "trackingNumber", "trackingUrl")
    document = forms.document(form, words=words, flags=("notifyCustomer",))
    chosen = [
        {"lineItemId": line["id"], "quantity": forms.number(form, f"q-{line['id']}")}
        for line in order["items"]
    ]
    left = [line["quantity"] - line["fulfilledQuantity"] for line in order["items"]]
    some = [one for one in chosen if one["quantity"] not in (None, 0)]
    if [one["quantity"] or 0 for one in chosen] != left:
        document["items"] = some
    try:
        wanted = context.body(Fulfill, document).dispatch()
        await context.change(
            lambda tx: order_fulfillment.fulfill(tx, store, order_id, wanted)
        )
    except Problem as problem:
        places = {
            f"items/{n}/quantity": f"q-{one['lineItemId']}"
            for n, one in enumerate(some)
        }
        raise forms.renamed(problem, **places) from None
    return context.go("orders", order_id, notice="The shipment is recorded.")


async def cancel(context: PageContext) -> web.Response:
    order_id, store = context.path("id"), context.store
    flags = ("restock", "refund", "notifyCustomer")
    document = forms.document(context.form, words=("reason", "note"), flags=flags)
    wanted = context.body(CancelOrder, document).cancel()
    await context.change(
        lambda tx: order_cancellation.cancel(
            tx, store, inventory.DASHBOARD, order_id, wanted
        )
    )
    return context.go("orders", order_id, notice="The order is cancelled.")


ONE = STORE + "/orders/{id}"
confirm = change_payment(order_payments.confirm, "The order is confirmed.")
mark_paid = change_payment(order_payments.mark_paid, "The order is marked as paid.")
refund = change_payment(order_payments.refund, "The order is refunded.")
ROUTES = (
    Route("GET", STORE + "/orders", show_orders),
    Route("GET", ONE, show_order),
    Route("POST", ONE + "/confirm", confirm, show_order),
    Route("POST", ONE + "/mark-paid", mark_paid, show_order),
    Route("POST", ONE + "/refund", refund, show_order),
    Route("POST", ONE + "/fulfill", fulfill, show_order),
    Route("POST", ONE + "/cancel", cancel, show_order),
)


LINES = 4
PRODUCT_OF = "SELECT product_id FROM variant WHERE store_id = ? AND id = ?"
CUSTOMER = ("name", "email", "phone")
ADDRESS = ("address1", "address2", "city", "province", "country", "zip")


def _offered(context: PageContext) -> dict[str, Document]:
    """Return the variants on sale that match the search, and those already chosen."""
    filters = {"status": "active", "search": query_params.search(context.query)}
    listing = context.read(
        lambda rows: products.page(rows, context.store, filters, page_context.OFFERED)
    )
    return {
        variant["id"]: {**variant, "product": product["title"]}
        for product in [*listing.rows, *_chosen_products(context)]
        for variant in product["variants"]
    }


def _chosen_products(context: PageContext) -> list[models.CatalogueProduct]:
    store, form = context.store, context.form
    ids = [forms.text(form, f"variant{n}") for n in forms.rows(form, "variant")]

    def find(rows: Rows) -> list[models.CatalogueProduct]:
        found = [rows.value(PRODUCT_OF, (store.id, one)) for one in ids]
        return [products.view(rows, store, one) for one in found if one is not None]

    return context.read(find)


async def show_form(context: PageContext) -> web.Response:
    searched = query_params.search(context.query) is not None
    return context.render(
        "orders_new.html",
        offered=_offered(context),
        searched=searched,
        lines=range(LINES),
        most=page_context.OFFERED.limit,
    )


async def place(context: PageContext) -> web.Response:
    form, store = context.form, context.store
    offered, chosen = _offered(context), forms.rows(context.form, "variant")
    if not chosen:
        raise invalid([Flaw("/variant0", "REQUIRED", "choose at least one product")])
    forms.require(form, "name", *(f"quantity{n}" for n in chosen))
    words = ("paymentMethod", "financialStatus", "note")
    document = forms.document(form, words=words, flags=("sendReceipt",))
    document["items"] = [_item(context, offered, n) for n in chosen]
    document["totals"] = forms.document(form, words=("shipping", "discount"))
    document["customer"] = forms.document(form, words=CUSTOMER)
    address = forms.document(form, words=ADDRESS)
    if address.keys() - {"country"}:
        names = {name: document["customer"].get(name) for name in ("name", "phone")}
        document["shippingAddress"] = {**names, **address}
    try:
        sent = context.body(NewOrder, document).order()
        order = await context.change(
            lambda tx: recorded_orders.record(tx, store, inventory.DASHBOARD, sent)
        )
    except Problem as problem:
        raise forms.renumbered(problem, "items", chosen) from None
    return context.go("orders", order["id"], notice=f"Order {order['name']} is placed.")


def _item(context: PageContext, offered: dict[str, Document], n: int) -> Document:
    form = context.form
    variant_id = forms.text(form, f"variant{n}") or ""
    price = forms.text(form, f"price{n}")
    if price is None and variant_id in offered:
        price = offered[variant_id]["price"]
    quantity = forms.number(form, f"quantity{n}")
    return {"variantId": variant_id, "quantity": quantity, "price": price or "0"}


NEW_ORDER_ROUTES = (
    Route("GET", STORE + "/new-order", show_form),
    Route("POST", STORE + "/new-order", place, show_form),
)
