"""Orders: the list, one order, and what the merchant does with it."""

from typing import get_args

from aiohttp import web

from backhaul_reference.admin_v1.order_bodies import CancelOrder, Fulfill
from backhaul_reference.control.store_work import Step
from backhaul_reference.dashboard import forms
from backhaul_reference.dashboard.visit import STORE, Handler, Route, Visit
from backhaul_reference.documents import Document
from backhaul_reference.lifecycle import (
    FINANCIAL_STATUSES,
    FULFILLMENT_STATUSES,
    STATUSES,
)
from backhaul_reference.problems import Problem
from backhaul_reference.state import (
    cancellation,
    fulfillment,
    order_views,
    settling,
    stock,
)
from backhaul_reference.web import queries

CHOICES = {
    "status": ("Status", STATUSES),
    "financial": ("Payment", FINANCIAL_STATUSES),
    "fulfillment": ("Delivery", FULFILLMENT_STATUSES),
}
Moment = tuple[str, str, str | None]


async def show_orders(visit: Visit) -> web.Response:
    filters: dict[str, str | None] = {
        name: queries.choice(visit.query, name, allowed)
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


async def show_order(visit: Visit) -> web.Response:
    order = visit.read(
        lambda rows: order_views.view(rows, visit.store, visit.path("id"))
    )
    return visit.render(
        "orders_one.html",
        order=order,
        moments=moments(order),
        reasons=get_args(cancellation.Reason),
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
    async def handle(visit: Visit) -> web.Response:
        order_id = visit.path("id")
        await visit.change(lambda tx: step(tx, visit.store, order_id))
        return visit.go("orders", order_id, notice=notice)

    return handle


async def fulfill(visit: Visit) -> web.Response:
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
        await visit.change(lambda tx: fulfillment.fulfill(tx, store, order_id, wanted))
    except Problem as problem:
        places = {
            f"items/{n}/quantity": f"q-{one['lineItemId']}"
            for n, one in enumerate(some)
        }
        raise forms.renamed(problem, **places) from None
    return visit.go("orders", order_id, notice="The shipment is recorded.")


async def cancel(visit: Visit) -> web.Response:
    order_id, store = visit.path("id"), visit.store
    flags = ("restock", "refund", "notifyCustomer")
    document = forms.document(visit.form, words=("reason", "note"), flags=flags)
    wanted = visit.body(CancelOrder, document).cancel()
    await visit.change(
        lambda tx: cancellation.cancel(tx, store, stock.DASHBOARD, order_id, wanted)
    )
    return visit.go("orders", order_id, notice="The order is cancelled.")


ONE = STORE + "/orders/{id}"
confirm = settle(settling.confirm, "The order is confirmed.")
mark_paid = settle(settling.mark_paid, "The order is marked as paid.")
refund = settle(settling.refund, "The order is refunded.")
ROUTES = (
    Route("GET", STORE + "/orders", show_orders),
    Route("GET", ONE, show_order),
    Route("POST", ONE + "/confirm", confirm, show_order),
    Route("POST", ONE + "/mark-paid", mark_paid, show_order),
    Route("POST", ONE + "/refund", refund, show_order),
    Route("POST", ONE + "/fulfill", fulfill, show_order),
    Route("POST", ONE + "/cancel", cancel, show_order),
)
