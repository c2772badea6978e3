"""Payload schemas of the platform."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec

from backhaul.platform.fields import (
    LARGEST,
    Member,
    Shape,
    flag,
    identity,
    money,
    reference,
    text,
    time,
    units,
    whole,
    word,
)

Integer: TypeAlias = Annotated[int, msgspec.Meta(ge=-LARGEST - 1, le=LARGEST)]
"""A whole number that the database can hold."""
Units: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
"""Units of an order's line."""
Identity: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\S")]
"""The id of an object, which is not blank."""


class Wire(msgspec.Struct, rename="camel", gc=False):
    """A payload as the platform sends it."""


WireT = TypeVar("WireT", bound=Wire)


class Confirmation(Wire):
    """Whether an order waits for the merchant."""

    required: bool = False
    confirmed_at: str | None = None


class Reference(Wire):
    """Another object, by its id."""

    id: str | None = None


class Totals(Wire):
    """What the customer pays."""

    total: Any = None


class Cancellation(Wire):
    """When an order was cancelled."""

    cancelled_at: str | None = None


class Item(Wire):
    """A line of an order. Its reader refuses a blank id.

    Converting an order would take twice as long with a pattern for each line.
    """

    id: Annotated[str, msgspec.Meta(min_length=1)]
    quantity: Units
    product_id: str | None = None
    variant_id: str | None = None
    sku: str | None = None
    title: str = ""
    fulfilled_quantity: Units | None = None
    unit_price: Any = None


class Shipment(Wire):
    """A parcel of an order."""

    id: Identity
    tracking_company: str | None = None
    tracking_number: str | None = None
    shipped_at: str | None = None


class Order(Wire):
    """An order of the keyed API."""

    id: Identity
    updated_at: str
    status: str
    financial_status: str
    fulfillment_status: str
    items: list[Item]
    number: Integer | None = None
    name: str | None = None
    external_id: str | None = None
    confirmation: Confirmation | None = None
    currency: str = ""
    customer: Reference | None = None
    totals: Totals | None = None
    shipments: list[Shipment] = []
    cancellation: Cancellation | None = None
    placed_at: str | None = None


class Variant(Wire):
    """A buyable form of a product."""

    id: Identity
    sku: str | None = None
    barcode: str | None = None
    title: str | None = None
    price: Any = None
    stock: Integer | None = None


class Product(Wire):
    """A product of the keyed API."""

    id: Identity
    updated_at: str
    title: str = ""
    handle: str | None = None
    status: str = "active"
    external_id: str | None = None
    variants: list[Variant] = []


class Named(Wire):
    """Any object, by its id."""

    id: Identity


class Variants(Wire):
    """The variants of a product, by their ids."""

    variants: list[Named] = []


class Deletion(Wire):
    """What products/delete carries."""

    id: Identity
    deleted_at: str
    handle: str | None = None
    title: str | None = None
    external_id: str | None = None


class Customer(Wire):
    """A customer of the keyed API."""

    id: Identity
    updated_at: str
    name: str | None = None
    email: str | None = None
    phone: str | None = None


class Move(Wire):
    """One variant's share of a change of stock."""

    variant_id: Identity
    stock: Integer
    adjustment: Integer = 0


class StockChange(Wire):
    """What inventory/level_update carries."""

    product_id: Identity
    updated_at: str
    levels: list[Move]
    adjustment_id: str | None = None
    reason: str = ""
    order_id: str | None = None


class Level(Wire):
    """A row of the list of levels."""

    product_id: Identity
    variant_id: Identity
    stock: Integer
    updated_at: str


class Source(Wire):
    """Who changed the stock."""

    id: str | None = None


class Moved(Wire):
    """What tells in a row of the stock's history whose it is; times in normal form."""

    id: Identity
    created_at: str
    adjustment_id: str | None = None
    product_id: str | None = None
    variant_id: str | None = None
    adjustment: Integer | None = None
    note: str | None = None
    source: Source | None = None
    order_id: Any = None
    """Of any shape; unless it is empty, an order moved the stock."""


class Entry(Moved):
    """A whole row of the stock's history."""

    order_id: str | None = None
    reason: str | None = None
    stock_after: Integer | None = None


MovedT = TypeVar("MovedT", bound=Moved)


class Hook(Wire):
    """A webhook subscription."""

    id: Identity
    status: str | None = None
    topics: list[str] | None = None
    consecutive_failures: int | None = None


class Attempt(Wire):
    """One try to deliver; `at` is in normal form. No answer has no status."""

    at: str
    status_code: int | None = None
    error: object = None
    duration_ms: object = None


class Attempts(Wire):
    """The attempts of one delivery, the last one last."""

    attempts: list[Attempt] | None = None


AttemptsT = TypeVar("AttemptsT", bound=Attempts)


class Delivery(Attempts, kw_only=True):
    """What became of one webhook at the platform; its times are in normal form."""

    id: Identity
    topic: str = ""
    status: str = ""
    created_at: str | None = None
    next_attempt_at: str | None = None


_ID = Member(identity, required=True)
_WHEN = Member(time, required=True)
_STATUS = Member(word, required=True)
_NUMBER = Member(whole, required=True)
_TEXT, _TIME, _MONEY, _WHOLE = Member(text), Member(time), Member(money), Member(whole)
_SURE_TEXT, _SURE_WHOLE = Member(text, essential=True), Member(whole, essential=True)
_UNITS = Member(units, required=True)

_ITEM: Shape = {
    "id": _ID,
    "quantity": _UNITS,
    "fulfilledQuantity": Member(units, essential=True),
    "restockedQuantity": _WHOLE,
    "productId": _TEXT,
    "variantId": _TEXT,
    "sku": _TEXT,
    "title": _TEXT,
    "unitPrice": _MONEY,
}
_PARCEL_ITEM: Shape = {"lineItemId": _ID, "quantity": _UNITS}
_SHIPMENT: Shape = {
    "id": _ID,
    # A parcel is known by its carrier and number: without them it would be sent again.
    "trackingCompany": _SURE_TEXT,
    "trackingNumber": _SURE_TEXT,
    "shippedAt": _TIME,
    "items": Member(parts=_PARCEL_ITEM, is_list=True),
}
_ATTEMPT: Shape = {"at": _WHEN, "statusCode": _WHOLE}
_HISTORY_ROW: Shape = {
    "id": _ID,
    "createdAt": _WHEN,
    "adjustmentId": _SURE_TEXT,
    "productId": _SURE_TEXT,
    "variantId": _SURE_TEXT,
    "adjustment": _SURE_WHOLE,
    "note": _SURE_TEXT,
    "source": Member(reference, essential=True),
}

SHAPES: dict[type[Wire], Shape] = {
    Order: {
        "id": _ID,
        "updatedAt": _WHEN,
        "status": _STATUS,
        "financialStatus": _STATUS,
        "fulfillmentStatus": Member(word, essential=True),
        "items": Member(parts=_ITEM, is_list=True, required=True),
        "shipments": Member(parts=_SHIPMENT, is_list=True, essential=True),
        "confirmation": Member(
            parts={
                "required": Member(flag, essential=True),
                "confirmedAt": Member(time, essential=True),
            },
            essential=True,
        ),
        # Whether it may be left out depends on the status: see `wire.order`.
        "cancellation": Member(
            parts={"cancelledAt": Member(time, essential=True)},
        ),
        "number": _WHOLE,
        "name": _TEXT,
        "externalId": _TEXT,
        "currency": _TEXT,
        "customer": Member(reference),
        "totals": Member(parts={"total": _MONEY}),
        "placedAt": _TIME,
    },
    Product: {
        "id": _ID,
        "updatedAt": _WHEN,
        "title": _TEXT,
        "handle": _TEXT,
        "status": _TEXT,
        "externalId": _TEXT,
        "variants": Member(
            parts={
                "id": _ID,
                "sku": _TEXT,
                "barcode": _TEXT,
                "title": _TEXT,
                "price": _MONEY,
                "stock": _SURE_WHOLE,
            },
            is_list=True,
            essential=True,
        ),
    },
    Variants: {"variants": Member(parts={"id": _ID}, is_list=True, essential=True)},
    Named: {"id": _ID},
    Deletion: {
        "id": _ID,
        "deletedAt": _WHEN,
        "handle": _TEXT,
        "title": _TEXT,
        "externalId": _TEXT,
    },
    Customer: {
        "id": _ID,
        "updatedAt": _WHEN,
        "name": _TEXT,
        "email": _TEXT,
        "phone": _TEXT,
    },
    StockChange: {
        "productId": _ID,
        "updatedAt": _WHEN,
        "levels": Member(
            parts={"variantId": _ID, "stock": _NUMBER, "adjustment": _SURE_WHOLE},
            is_list=True,
            required=True,
        ),
        "adjustmentId": _SURE_TEXT,
        "orderId": _SURE_TEXT,
        "reason": _TEXT,
    },
    Level: {
        "productId": _ID,
        "variantId": _ID,
        "stock": _NUMBER,
        "updatedAt": _WHEN,
    },
    Moved: _HISTORY_ROW,
    Entry: {
        **_HISTORY_ROW,
        "orderId": _SURE_TEXT,
        "stockAfter": _SURE_WHOLE,
        "reason": _TEXT,
    },
    Hook: {"id": _ID, "status": _TEXT, "consecutiveFailures": _SURE_WHOLE},
    Attempts: {"attempts": Member(parts=_ATTEMPT, is_list=True, essential=True)},
    Delivery: {
        "id": _ID,
        "topic": _TEXT,
        "status": _TEXT,
        "createdAt": _TIME,
        "nextAttemptAt": _TIME,
        "attempts": Member(parts=_ATTEMPT, is_list=True, essential=True),
    },
}
"""How each member is read where a payload does not fit its struct."""
