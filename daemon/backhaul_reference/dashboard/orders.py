"""Orders: list, one order with its actions, and orders placed by staff."""

from typing import get_args

from aiohttp import web

from backhaul_reference.control.store_actions import Step
from backhaul_reference.dashboard import forms, page_context
from backhaul_reference.dashboard.page_context import STORE, Handler, PageContext, Route
from backhaul_reference.platform.http import query_params
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.problems import Flaw, Problem, invalid
from backhaul_reference.platform.state import (
    order_cancellation,
    order_fulfillment,
    order_payments,
    order_views,
    products,
    recorded_orders,
    stock_ledger,
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


async def show_orders(visit: PageContext) -> web.Response:
    filters: dict[str, str | None] = {
        name: query_params.choice(visit.query, name, allowed)
        for name, (_, allowed) in CHOICES.items()
    }
    number = visit.query.get("number", "").strip().removeprefix("#")
    window = visit.window()
    if number:
        filters["number"] = number if number.isascii() and number.isdigit() else "-1"
    listing = visit.read(
        lambda rows: order_views.page(rows, visit.store, filters, window)
    )
    return visit.render("orders.html", listing=listing, window=window, choices=CHOICES)


async def show_order(visit: PageContext) -> web.Response:
    order = visit.read(
        lambda rows: order_views.view(rows, visit.store, visit.path("id"))
    )
    return visit.render(
        "orders_one.html",
        order=order,
        moments=moments(order),
        reasons=get_args(order_cancellation.Reason),
    )


def moments(order: Document) -> list[Moment]:
    """What happened to an order, oldest first: when, what, and a detail."""
    found: list[Moment] = [
        (order["placedAt"], "Placed", order["source"]),
        (order["confirmation"]["confirmedAt"], "Confirmed", None),
        (order["payment"]["paidAt"], "Paid", order["paymentMethod"]),
    ]
    if report := order["payment"]["report"]:
        detail = f"Transaction {report['transactionId']}"
        found.append((report["reportedAt"], "Payment reported", detail))
    for shipment in order["shipments"]:
        names = (shipment["trackingCompany"], shipment["trackingNumber"])
        detail = " ".join(name for name in names if name)
        found.append((shipment["shippedAt"], "Shipped", detail or None))
    if cancelled := order["cancellation"]:
        found.append((cancelled["cancelledAt"], "Cancelled", cancelled["note"]))
    return sorted((one for one in found if one[0]), key=lambda one: one[0])


def settle(step: Step, notice: str) -> Handler:
    async def handle(visit: PageContext) -> web.Response:
        order_id = visit.path("id")
        await visit.change(lambda tx: step(tx, visit.store, order_id))
        return visit.go("orders", order_id, notice=notice)

    return handle


async def fulfill(visit: PageContext) -> web.Response:
    """Ship what is chosen; with nothing left out it is simply the rest."""
    order_id, store, form = visit.path("id"), visit.store, visit.form
    order = visit.read(lambda rows: order_views.view(rows, store, order_id))
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
        wanted = visit.body(Fulfill, document).dispatch()
        await visit.change(
            lambda tx: order_fulfillment.fulfill(tx, store, order_id, wanted)
        )
    except Problem as problem:
        places = {
            f"items/{n}/quantity": f"q-{one['lineItemId']}"
            for n, one in enumerate(some)
        }
        raise forms.renamed(problem, **places) from None
    return visit.go("orders", order_id, notice="The shipment is recorded.")


async def cancel(visit: PageContext) -> web.Response:
    order_id, store = visit.path("id"), visit.store
    flags = ("restock", "refund", "notifyCustomer")
    document = forms.document(visit.form, words=("reason", "note"), flags=flags)
    wanted = visit.body(CancelOrder, document).cancel()
    await visit.change(
        lambda tx: order_cancellation.cancel(
            tx, store, stock_ledger.DASHBOARD, order_id, wanted
        )
    )
    return visit.go("orders", order_id, notice="The order is cancelled.")


ONE = STORE + "/orders/{id}"
confirm = settle(order_payments.confirm, "The order is confirmed.")
mark_paid = settle(order_payments.mark_paid, "The order is marked as paid.")
refund = settle(order_payments.refund, "The order is refunded.")
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


def _offered(visit: PageContext) -> dict[str, Document]:
    """The variants on sale that were searched for, and those chosen already."""
    filters = {"status": "active", "search": query_params.search(visit.query)}
    listing = visit.read(
        lambda rows: products.page(rows, visit.store, filters, page_context.OFFERED)
    )
    return {
        variant["id"]: {**variant, "product": product["title"]}
        for product in [*listing.rows, *_chosen_products(visit)]
        for variant in product["variants"]
    }


def _chosen_products(visit: PageContext) -> list[Document]:
    store, form = visit.store, visit.form
    ids = [forms.text(form, f"variant{n}") for n in forms.rows(form, "variant")]

    def find(rows: Rows) -> list[Document]:
        found = [rows.value(PRODUCT_OF, (store.id, one)) for one in ids]
        return [products.view(rows, store, one) for one in found if one is not None]

    return visit.read(find)


async def show_form(visit: PageContext) -> web.Response:
    searched = query_params.search(visit.query) is not None
    return visit.render(
        "orders_new.html",
        offered=_offered(visit),
        searched=searched,
        lines=range(LINES),
        most=page_context.OFFERED.limit,
    )


async def place(visit: PageContext) -> web.Response:
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
            lambda tx: recorded_orders.record(tx, store, stock_ledger.DASHBOARD, sent)
        )
    except Problem as problem:
        raise forms.renumbered(problem, "items", chosen) from None
    return visit.go("orders", order["id"], notice=f"Order {order['name']} is placed.")


def _item(visit: PageContext, offered: dict[str, Document], n: int) -> Document:
    form = visit.form
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
