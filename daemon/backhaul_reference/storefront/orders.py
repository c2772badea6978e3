"""/storefront/orders: placing an order and following it."""

from aiohttp import web

from backhaul_reference.documents import Document
from backhaul_reference.state import checkout, order_views
from backhaul_reference.state.database import Rows
from backhaul_reference.state.writer import Tx
from backhaul_reference.storefront.admission import PRIVATE, guests_may_order
from backhaul_reference.storefront.order_bodies import PlaceOrder
from backhaul_reference.web.answers import data_answer
from backhaul_reference.web.endpoint import Answer, Call, Endpoint


async def place_order(call: Call) -> web.Response:
    cart = call.body.cart()
    tokens = call.platform.tokens

    def place(tx: Tx) -> Answer:
        order_id = tx.ids.new("ord")
        token_hash = tokens.hash_of(tokens.token(order_id))
        order = checkout.check_out(tx, call.store, cart, order_id, token_hash)
        row = order_views.find(tx, call.store, order_id)
        # The token itself is rendered when the answer is sent, never stored.
        data = {"id": order["id"], "trackingToken": None}
        tracked = order_views.tracked(call.store, row, order)
        return Answer({**data, **tracked}, 201, token_order_id=order_id)

    answer = await call.mutate(place)
    answer.headers.update(PRIVATE)
    return answer


async def track_order(call: Call) -> web.Response:
    token_hash = call.platform.tokens.hash_of(call.path("token"))

    def find(rows: Rows) -> Document:
        row = order_views.find_by_token(rows, call.store, token_hash)
        return order_views.tracking_view(rows, call.store, row)

    return data_answer(call.read(find))


ENDPOINTS = (
    Endpoint(
        "POST",
        "/storefront/orders",
        place_order,
        body=PlaceOrder,
        gate=guests_may_order,
    ),
    Endpoint("GET", "/storefront/orders/track/{token}", track_order),
)
