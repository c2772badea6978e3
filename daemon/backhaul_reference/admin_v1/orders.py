"""/api/v1/orders."""

from dataclasses import replace

from aiohttp import web

from backhaul_reference.admin_v1.order_bodies import CancelOrder, Fulfill, NewOrder
from backhaul_reference.lifecycle import (
    FINANCIAL_STATUSES,
    FULFILLMENT_STATUSES,
    STATUSES,
)
from backhaul_reference.problems import Flaw, invalid
from backhaul_reference.state import (
    cancellation,
    fulfillment,
    order_views,
    recorded_orders,
)
from backhaul_reference.state.writer import Tx
from backhaul_reference.web import queries, quirky_requests
from backhaul_reference.web.answers import data_answer, page_answer
from backhaul_reference.web.endpoint import Answer, Call, Endpoint


async def list_orders(call: Call) -> web.Response:
    query = call.query
    window = queries.window(query, sortable=True)
    if quirky_requests.ignores_pages(call.store.quirks, PATH):
        window = replace(window, limit=queries.MAX_PAGE)
    filters = {
        "status": queries.choice(query, "status", STATUSES),
        "fulfillment": queries.choice(query, "fulfillmentStatus", FULFILLMENT_STATUSES),
        "financial": queries.choice(query, "financialStatus", FINANCIAL_STATUSES),
        "external_id": queries.text(query, "externalId"),
    }
    listing = call.read(
        lambda rows: order_views.page(rows, call.store, filters, window)
    )
    return page_answer(call.request, listing, window)


async def get_order(call: Call) -> web.Response:
    found = call.read(lambda rows: order_views.view(rows, call.store, call.path("id")))
    return data_answer(found)


async def create_order(call: Call) -> web.Response:
    body: NewOrder = call.body
    if body.currency not in (None, call.store.currency):
        detail = "must be the store's currency"
        raise invalid([Flaw("/currency", "NOT_ALLOWED", detail)])
    sent = body.order()

    def record(tx: Tx) -> Answer:
        made = recorded_orders.record(tx, call.store, call.caller.source, sent)
        return Answer(made, 201, location=f"/api/v1/orders/{made['id']}")

    return await call.mutate(record)


async def fulfill_order(call: Call) -> web.Response:
    wanted = call.body.dispatch()
    order_id = call.path("id")
    return await call.mutate(
        lambda tx: Answer(fulfillment.fulfill(tx, call.store, order_id, wanted))
    )


async def cancel_order(call: Call) -> web.Response:
    wanted = call.body.cancel()
    store, source, order_id = call.store, call.caller.source, call.path("id")
    return await call.mutate(
        lambda tx: Answer(cancellation.cancel(tx, store, source, order_id, wanted))
    )


PATH = "/api/v1/orders"
ONE = PATH + "/{id}"
READ, WRITE = "orders:read", "orders:write"
ENDPOINTS = (
    Endpoint("GET", PATH, list_orders, READ),
    Endpoint("POST", PATH, create_order, WRITE, body=NewOrder),
    Endpoint("GET", ONE, get_order, READ),
    Endpoint(
        "POST", ONE + "/fulfill", fulfill_order, WRITE, body=Fulfill, body_optional=True
    ),
    Endpoint(
        "POST",
        ONE + "/cancel",
        cancel_order,
        WRITE,
        body=CancelOrder,
        body_optional=True,
    ),
)
