"""The merchant's work on one store: orders, webhooks, the whole state."""

from collections.abc import Callable

from aiohttp import web

from backhaul_reference.admin_v1.webhooks import NewWebhook, check
from backhaul_reference.documents import Document
from backhaul_reference.state import settling, subscriptions
from backhaul_reference.state.snapshot import snapshot
from backhaul_reference.state.stores import Store
from backhaul_reference.state.writer import Tx
from backhaul_reference.web.endpoint import Answer, Call, Endpoint, Handler
from backhaul_reference.web.streaming import stream_json

ONE = "/_control/stores/{subdomain}"
Step = Callable[[Tx, Store, str], Document]


def order_step(step: Step) -> Handler:
    async def handle(call: Call) -> web.Response:
        order_id = call.path("order_id")
        return await call.mutate(lambda tx: Answer(step(tx, call.store, order_id)))

    return handle


async def create_webhook(call: Call) -> web.Response:
    values = check(call.body, allow_private=call.platform.allow_private_targets)
    return await call.mutate(
        lambda tx: Answer(
            subscriptions.add(
                tx,
                call.store.id,
                values["address"],
                values["topics"],
                values.get("description"),
            ),
            201,
        )
    )


async def get_state(call: Call) -> web.StreamResponse:
    with call.platform.open_rows() as rows:
        rows.connection.execute("BEGIN")
        return await stream_json(call.request, snapshot(rows, call.store.subdomain))


ORDER = ONE + "/orders/{order_id}"
ENDPOINTS = (
    Endpoint("POST", ORDER + "/confirm", order_step(settling.confirm)),
    Endpoint("POST", ORDER + "/mark-paid", order_step(settling.mark_paid)),
    Endpoint("POST", ORDER + "/refund", order_step(settling.refund)),
    Endpoint("POST", ONE + "/webhooks", create_webhook, body=NewWebhook),
    Endpoint("GET", ONE + "/state", get_state),
)
