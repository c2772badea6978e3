"""Bodies that record, fulfill and cancel orders."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from backhaul_reference.documents import Document
from backhaul_reference.state.cancellation import Cancel, Reason
from backhaul_reference.state.customers import Contact
from backhaul_reference.state.fulfillment import Dispatch
from backhaul_reference.state.recorded_orders import SentLine, SentOrder
from backhaul_reference.web.bodies import (
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

    def dispatch(self) -> Dispatch:
        items = None
        if self.items is not None:
            items = tuple((item.line_item_id, item.quantity) for item in self.items)
        return Dispatch(
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

    def cancel(self) -> Cancel:
        return Cancel(
            self.restock, self.refund, self.reason, self.note, self.notify_customer
        )
