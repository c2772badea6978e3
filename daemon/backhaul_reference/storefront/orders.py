"""/storefront/orders: placing, tracking, reporting a payment."""

from typing import Annotated, Literal

from aiohttp import web
from pydantic import Field, StringConstraints

from backhaul_reference.platform import order_models
from backhaul_reference.platform.http.endpoint import Answer, Call, Endpoint
from backhaul_reference.platform.http.request_bodies import (
    WHOLE,
    Body,
    Country,
    Email,
    Identifier,
    LongText,
    OptionalText,
    Phone,
    Printable,
    Text,
    Upper,
)
from backhaul_reference.platform.http.responses import data_answer
from backhaul_reference.platform.state import checkout, order_payments, order_views
from backhaul_reference.platform.state.checkout import Cart, CartLine
from backhaul_reference.platform.state.customers import Contact
from backhaul_reference.platform.state.database import Rows
from backhaul_reference.platform.state.order_payments import PaymentReport
from backhaul_reference.platform.state.writer import Tx
from backhaul_reference.storefront.store_access import (
    PRIVATE,
    allows_orders_without_account,
)


class Item(Body):
    product_id: Identifier
    variant_id: Identifier | None = None
    quantity: Annotated[int, Field(ge=1, le=999), WHOLE]


class Customer(Body):
    name: Text
    email: Email
    phone: Phone | None = None


class Address(Body):
    name: OptionalText | None = None
    phone: Phone | None = None
    address1: Text
    address2: OptionalText | None = None
    city: Text
    province: OptionalText | None = None
    country: Country
    zip: OptionalText | None = None


class PlaceOrder(Body):
    payment_method: Annotated[Literal["COD", "CUSTOM_QR"], Upper]
    items: Annotated[list[Item], Field(min_length=1, max_length=100)]
    customer: Customer
    shipping_address: Address
    discount_code: OptionalText | None = None
    note: LongText | None = None
    accepts_marketing: bool = False

    def cart(self) -> Cart:
        items = [
            CartLine(item.product_id, item.variant_id, item.quantity)
            for item in self.items
        ]
        contact = Contact(
            name=self.customer.name,
            email=self.customer.email,
            phone=self.customer.phone,
            accepts_marketing=self.accepts_marketing,
        )
        return Cart(
            payment_method=self.payment_method,
            items=items,
            contact=contact,
            address=self.shipping_address.model_dump(),
            discount_code=self.discount_code or None,
            note=self.note,
        )


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

    def find(rows: Rows) -> order_models.TrackedOrder:
        row = order_views.find_by_token(rows, call.store, token_hash)
        return order_views.tracking_view(rows, call.store, row)

    return data_answer(call.read(find))


ENDPOINTS = (
    Endpoint(
        "POST",
        "/storefront/orders",
        place_order,
        body=PlaceOrder,
        gate=allows_orders_without_account,
    ),
    Endpoint("GET", "/storefront/orders/track/{token}", track_order),
)


Transaction = Annotated[
    str,
    StringConstraints(min_length=1, max_length=100, strip_whitespace=True),
    Printable,
]
PayerName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=200, strip_whitespace=True),
    Printable,
]


class ReportPayment(Body):
    transaction_id: Transaction
    payer_name: PayerName | None = None


async def report_payment(call: Call) -> web.Response:
    token_hash = call.platform.tokens.hash_of(call.path("token"))
    sent = PaymentReport(call.body.transaction_id, call.body.payer_name)

    def report(tx: Tx) -> Answer:
        row = order_views.find_by_token(tx, call.store, token_hash)
        return Answer(order_payments.report(tx, call.store, row, sent))

    return await call.mutate(report)


PAYMENT_ENDPOINTS = (
    Endpoint(
        "POST",
        "/storefront/orders/track/{token}/payment",
        report_payment,
        body=ReportPayment,
    ),
)
