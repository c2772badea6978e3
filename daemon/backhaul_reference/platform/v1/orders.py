"""/api/v1/orders: operations and request bodies."""

from dataclasses import replace
from typing import Annotated, Literal

from aiohttp import web
from pydantic import ConfigDict, Field

from backhaul_reference.platform.http import query_params, test_controls
from backhaul_reference.platform.http.endpoint import Answer, Call, Endpoint
from backhaul_reference.platform.http.request_bodies import (
    WHOLE,
    Body,
    Country,
    Email,
    Identifier,
    Instant,
    LongText,
    Money,
    OptionalText,
    Tags,
    Text,
    Upper,
    Url,
    at_least_one,
)
from backhaul_reference.platform.http.responses import data_answer, page_answer
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.problems import Flaw, invalid
from backhaul_reference.platform.state import (
    order_cancellation,
    order_fulfillment,
    order_views,
    recorded_orders,
)
from backhaul_reference.platform.state.customers import Contact
from backhaul_reference.platform.state.order_cancellation import CancelRequest, Reason
from backhaul_reference.platform.state.order_fulfillment import ShipmentRequest
from backhaul_reference.platform.state.order_lifecycle import (
    FINANCIAL_STATUSES,
    FULFILLMENT_STATUSES,
    STATUSES,
)
from backhaul_reference.platform.state.recorded_orders import SentLine, SentOrder
from backhaul_reference.platform.state.writer import Tx

Behaviour = Literal["DECREMENT_OBEYING_POLICY", "DECREMENT_IGNORING_POLICY", "BYPASS"]


NAMED: list[Document] = [
    {"required": [name], "properties": {name: {"type": "string"}}}
    for name in ("title", "productId", "variantId", "sku")
]


class Item(Body):
    model_config = ConfigDict(json_schema_extra=at_least_one(*NAMED))

    product_id: Identifier | None = None
    variant_id: Identifier | None = None
    sku: Text | None = None
    title: Text | None = None
    quantity: Annotated[int, Field(ge=1, le=1_000_000), WHOLE]
    price: Money
    discount: Money = 0

    def line(self) -> SentLine:
        return SentLine(**self.model_dump())


class Customer(Body):
    id: Identifier | None = None
    name: OptionalText | None = None
    email: Email | None = None
    phone: OptionalText | None = None


class Address(Body):
    name: OptionalText | None = None
    phone: OptionalText | None = None
    address1: OptionalText | None = None
    address2: OptionalText | None = None
    city: OptionalText | None = None
    province: OptionalText | None = None
    country: Country | None = None
    zip: OptionalText | None = None


class SentTotals(Body):
    discount: Money | None = None
    shipping: Money | None = None
    payment_fee: Money | None = None
    tax: Money | None = None
    total: Money | None = None


class NewOrder(Body):
    external_id: Text | None = None
    items: Annotated[list[Item], Field(min_length=1, max_length=500)]
    customer: Customer = Customer()
    shipping_address: Address | None = None
    totals: SentTotals = SentTotals()
    currency: (
        Annotated[
            str,
            Field(
                pattern=r"^[A-Z]{3}$",
                description="The store's own currency; another is refused with 422.",
            ),
        ]
        | None
    ) = None
    payment_method: Annotated[Literal["COD", "CUSTOM_QR", "OTHER"], Upper] | None = None
    financial_status: Annotated[Literal["PENDING", "PAID"], Upper] = "PENDING"
    discount_code: OptionalText | None = None
    note: LongText | None = None
    tags: Tags = Field(default_factory=list)
    placed_at: Instant | None = None
    inventory_behaviour: Annotated[Behaviour, Upper] = "DECREMENT_OBEYING_POLICY"
    send_receipt: bool = False

    def order(self) -> SentOrder:
        who = self.customer
        contact = Contact(
            name=who.name or "", email=who.email, phone=who.phone, id=who.id
        )
        address = self.shipping_address
        return SentOrder(
            lines=[item.line() for item in self.items],
            contact=contact,
            address=address.model_dump() if address is not None else None,
            totals=self.totals.model_dump(),
            external_id=self.external_id,
            payment_method=self.payment_method,
            financial=self.financial_status,
            discount_code=self.discount_code,
            note=self.note,
            tags=self.tags,
            placed_ms=self.placed_at,
            stock_behaviour=self.inventory_behaviour,
            send_receipt=self.send_receipt,
        )


class ShippedItem(Body):
    line_item_id: Identifier
    quantity: Annotated[int, Field(ge=1, le=1_000_000), WHOLE]


class Fulfill(Body):
    tracking_company: OptionalText | None = None
    tracking_number: OptionalText | None = None
    tracking_url: Url | None = None
    items: Annotated[list[ShippedItem], Field(min_length=1, max_length=500)] | None = (
        None
    )
    notify_customer: bool = True

    def dispatch(self) -> ShipmentRequest:
        items = None
        if self.items is not None:
            items = tuple((item.line_item_id, item.quantity) for item in self.items)
        return ShipmentRequest(
            self.tracking_company,
            self.tracking_number,
            self.tracking_url,
            items,
            self.notify_customer,
        )


class CancelOrder(Body):
    restock: bool = False
    reason: Annotated[Reason, Upper] = "OTHER"
    note: LongText | None = None
    refund: bool = False
    notify_customer: bool = True

    def cancel(self) -> CancelRequest:
        return CancelRequest(
            self.restock, self.refund, self.reason, self.note, self.notify_customer
        )


async def list_orders(call: Call) -> web.Response:
    query = call.query
    window = query_params.window(query, sortable=True)
    if test_controls.ignores_pages(call.store.quirks, PATH):
        window = replace(window, limit=query_params.MAX_PAGE)
    filters = {
        "status": query_params.choice(query, "status", STATUSES),
        "fulfillment": query_params.choice(
            query, "fulfillmentStatus", FULFILLMENT_STATUSES
        ),
        "financial": query_params.choice(query, "financialStatus", FINANCIAL_STATUSES),
        "external_id": query_params.text(query, "externalId"),
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
        lambda tx: Answer(order_fulfillment.fulfill(tx, call.store, order_id, wanted))
    )


async def cancel_order(call: Call) -> web.Response:
    wanted = call.body.cancel()
    store, source, order_id = call.store, call.caller.source, call.path("id")
    return await call.mutate(
        lambda tx: Answer(
            order_cancellation.cancel(tx, store, source, order_id, wanted)
        )
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
