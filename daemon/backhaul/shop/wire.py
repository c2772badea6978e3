"""The platform's payloads: every field name of theirs, and how it becomes ours.

Shapes: platform contract, JSON shapes. Only what we use is checked; the rest is kept in
the document. Statuses may come in any case, money as text or number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import msgspec

from backhaul.core import strict_json
from backhaul.core.clock import normalize
from backhaul.core.money import to_minor
from backhaul.core.resources import (
    Customer,
    Deletion,
    Item,
    Level,
    Order,
    Product,
    Shipment,
    StockChange,
    StockMove,
    Variant,
)
from backhaul.errors import Unusable

if TYPE_CHECKING:
    from collections.abc import Mapping

TRANSIENT = frozenset({"changes", "shipment", "trigger"})
"""Members of a delivery that tell about the event and are not part of the object."""

DERIVED = frozenset({"ordersCount", "totalSpent"})
"""Members of a customer that move without its version: the orders are their home."""

Tracking: TypeAlias = tuple[str, str]
TRACKING: Tracking = ("trackingCompany", "trackingNumber")
"""The members of a parcel that name its carrier and its number."""

Integer: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A whole number that the database can hold."""


class _Wire(msgspec.Struct, rename="camel", gc=False):
    pass


WireT = TypeVar("WireT", bound=_Wire)


class _Confirmation(_Wire):
    required: bool = False
    confirmed_at: str | None = None


class _Reference(_Wire):
    id: str | None = None


class _Totals(_Wire):
    total: Any = 0


class _Cancellation(_Wire):
    cancelled_at: str | None = None


class _Item(_Wire):
    id: str
    quantity: Integer
    product_id: str | None = None
    variant_id: str | None = None
    sku: str | None = None
    title: str = ""
    fulfilled_quantity: Integer = 0
    unit_price: Any = 0


class _Shipment(_Wire):
    id: str
    tracking_company: str | None = None
    tracking_number: str | None = None
    shipped_at: str | None = None


class _Order(_Wire):
    id: str
    updated_at: str
    status: str
    financial_status: str
    fulfillment_status: str
    items: list[_Item]
    number: Integer | None = None
    name: str | None = None
    external_id: str | None = None
    confirmation: _Confirmation | None = None
    currency: str = ""
    customer: _Reference | None = None
    totals: _Totals | None = None
    shipments: list[_Shipment] = []
    cancellation: _Cancellation | None = None
    placed_at: str | None = None


class _Variant(_Wire):
    id: str
    sku: str | None = None
    barcode: str | None = None
    title: str | None = None
    price: Any = None
    stock: Integer | None = None


class _Product(_Wire):
    id: str
    title: str
    updated_at: str
    handle: str | None = None
    status: str = "active"
    external_id: str | None = None
    variants: list[_Variant] = []


class _Named(_Wire):
    id: str


class _Variants(_Wire):
    variants: list[_Named] = []


class _Deletion(_Wire):
    id: str
    deleted_at: str
    handle: str | None = None
    title: str | None = None
    external_id: str | None = None


class _Customer(_Wire):
    id: str
    updated_at: str
    name: str | None = None
    email: str | None = None
    phone: str | None = None


class _Move(_Wire):
    variant_id: str
    stock: Integer
    adjustment: Integer = 0


class _StockChange(_Wire):
    product_id: str
    updated_at: str
    levels: list[_Move]
    adjustment_id: str | None = None
    reason: str = ""
    order_id: str | None = None


class _Level(_Wire):
    product_id: str
    variant_id: str
    stock: Integer
    updated_at: str


class Source(_Wire):
    """Who changed the stock."""

    id: str | None = None


class Moved(_Wire):
    """What tells in a row of the stock's history whose it is; times in normal form."""

    id: str
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


class Hook(_Wire):
    """A webhook subscription."""

    id: str
    status: str | None = None
    topics: list[str] | None = None
    consecutive_failures: int | None = None


class Attempt(_Wire):
    """One try to deliver; `at` is in normal form. No answer has no status."""

    at: str
    status_code: int | None = None
    error: object = None
    duration_ms: object = None


class _Delivery(_Wire):
    attempts: list[Attempt] | None = None


class Delivery(_Delivery, kw_only=True):
    """What became of one webhook at the platform; its times are in normal form."""

    id: str
    topic: str = ""
    status: str = ""
    created_at: str | None = None
    next_attempt_at: str | None = None


def order(data: Mapping[str, Any], tracking: Tracking = TRACKING) -> Order:
    """Read a v1 order. Raises Unusable, naming the member.

    `tracking` is how the store names the carrier and the number of a parcel; its
    document keeps them so.
    """
    wire = _read(_with_tracking(data, tracking), _Order)
    cancellation = wire.cancellation
    return Order(
        id=wire.id,
        number=wire.number,
        name=wire.name,
        external_id=wire.external_id,
        awaiting_confirmation=_awaits(wire.confirmation),
        status=wire.status.upper(),
        financial_status=wire.financial_status.upper(),
        fulfillment_status=wire.fulfillment_status.upper(),
        placed_at=_time_or_none(wire.placed_at, "placedAt"),
        cancelled_at=_time_or_none(
            cancellation.cancelled_at if cancellation else None, "cancelledAt"
        ),
        total_minor=_money(
            wire.totals.total if wire.totals else 0, wire.currency, "totals.total"
        ),
        currency=wire.currency,
        customer_id=wire.customer.id if wire.customer else None,
        updated_at=_time(wire.updated_at),
        items=tuple(_item(item, wire.currency) for item in wire.items),
        shipments=tuple(_shipment(parcel) for parcel in wire.shipments),
        document=_document(data),
    )


def _with_tracking(data: Mapping[str, Any], names: Tracking) -> Mapping[str, Any]:
    """Name carrier and number of every parcel as the specification does."""
    parcels = data.get("shipments")
    if names == TRACKING or not isinstance(parcels, list):
        return data
    ours = dict(zip(names, TRACKING, strict=True))
    renamed = [
        {ours.get(name, name): value for name, value in parcel.items()}
        if isinstance(parcel, dict)
        else parcel
        for parcel in parcels
    ]
    return {**data, "shipments": renamed}


def _awaits(confirmation: _Confirmation | None) -> bool:
    if confirmation is None:
        return False
    return confirmation.required and confirmation.confirmed_at is None


def _item(item: _Item, currency: str) -> Item:
    return Item(
        id=item.id,
        product_id=item.product_id,
        variant_id=item.variant_id,
        sku=item.sku,
        title=item.title,
        quantity=item.quantity,
        fulfilled_quantity=item.fulfilled_quantity,
        unit_price_minor=_money(item.unit_price, currency, "unitPrice"),
    )


def _shipment(parcel: _Shipment) -> Shipment:
    return Shipment(
        id=parcel.id,
        tracking_company=parcel.tracking_company,
        tracking_number=parcel.tracking_number,
        shipped_at=_time_or_none(parcel.shipped_at, "shippedAt"),
    )


def product(data: Mapping[str, Any], currency: str) -> Product:
    """Read a v1 product; its variants' stock becomes `levels`. Raises Unusable.

    A product names no currency of its own: `currency` is the store's.
    """
    wire = _read(data, _Product)
    return Product(
        id=wire.id,
        handle=wire.handle,
        title=wire.title,
        status=wire.status.lower(),
        external_id=wire.external_id,
        updated_at=_time(wire.updated_at),
        variants=tuple(_variant(variant, currency) for variant in wire.variants),
        levels=tuple(
            Level(wire.id, variant.id, variant.stock)
            for variant in wire.variants
            if variant.stock is not None
        ),
        document=_document(_without_stock(data)),
    )


def _variant(variant: _Variant, currency: str) -> Variant:
    price = variant.price
    if price is not None:
        price = _money(price, currency, "price")
    return Variant(variant.id, variant.sku, variant.barcode, variant.title, price)


def _without_stock(data: Mapping[str, Any]) -> dict[str, Any]:
    """Drop stock from the document: the levels are its only home."""
    variants = [
        {name: value for name, value in variant.items() if name != "stock"}
        for variant in data.get("variants", ())
    ]
    return {**data, "variants": variants}


def variant_ids(data: Mapping[str, Any]) -> set[str]:
    """Return the ids of the variants that a product has. Raises Unusable."""
    return {variant.id for variant in _read(data, _Variants).variants}


def deletion(data: Mapping[str, Any]) -> Deletion:
    """Read what products/delete carries. Raises Unusable."""
    wire = _read(data, _Deletion)
    return Deletion(
        id=wire.id,
        deleted_at=_time(wire.deleted_at, "deletedAt"),
        handle=wire.handle,
        title=wire.title or "",
        external_id=wire.external_id,
        document=_document(data),
    )


def gone(data: Mapping[str, Any]) -> str:
    """Read the id of an object that was asked for and is not there."""
    return _read(data, _Named).id


def customer(data: Mapping[str, Any]) -> Customer:
    """Read a v1 customer. Raises Unusable."""
    wire = _read(data, _Customer)
    return Customer(
        id=wire.id,
        name=wire.name,
        email=wire.email,
        phone=wire.phone,
        updated_at=_time(wire.updated_at),
        document=_document({k: v for k, v in data.items() if k not in DERIVED}),
    )


def stock_change(data: Mapping[str, Any]) -> StockChange:
    """Read what inventory/level_update carries. Raises Unusable."""
    wire = _read(data, _StockChange)
    moves = tuple(
        StockMove(
            Level(wire.product_id, move.variant_id, move.stock),
            move.adjustment,
            wire.reason.upper(),
        )
        for move in wire.levels
    )
    return StockChange(
        adjustment_id=wire.adjustment_id,
        product_id=wire.product_id,
        order_id=wire.order_id,
        updated_at=_time(wire.updated_at),
        moves=moves,
    )


def level(data: Mapping[str, Any]) -> tuple[Level, str]:
    """Read one inventory level and its `updatedAt`. Raises Unusable."""
    wire = _read(data, _Level)
    found = Level(wire.product_id, wire.variant_id, wire.stock)
    return found, _time(wire.updated_at)


def entry(data: Mapping[str, Any]) -> Entry:
    """Read a row of the stock's history. Raises Unusable."""
    return _moved(data, Entry)


def moved(data: Mapping[str, Any]) -> Moved:
    """Read of a row of the stock's history whose it is. Raises Unusable."""
    return _moved(data, Moved)


def _moved(data: Mapping[str, Any], shape: type[MovedT]) -> MovedT:
    wire = _read(data, shape)
    wire.created_at = _time(wire.created_at, "createdAt")
    return wire


def hook(data: Mapping[str, Any]) -> Hook:
    """Read a webhook subscription. Raises Unusable."""
    return _read(data, Hook)


def last_attempt(data: Mapping[str, Any]) -> Attempt | None:
    """Read when a delivery was tried last, if it was. Raises Unusable."""
    attempts = _read(data, _Delivery).attempts
    if not attempts:
        return None
    attempts[-1].at = _time(attempts[-1].at, "at")
    return attempts[-1]


def delivery(data: Mapping[str, Any]) -> Delivery:
    """Read a delivery with every attempt. Raises Unusable."""
    found = _read(data, Delivery)
    found.created_at = found.created_at and _time(found.created_at, "createdAt")
    due = found.next_attempt_at
    found.next_attempt_at = due and _time(due, "nextAttemptAt")
    for attempt in found.attempts or ():
        attempt.at = _time(attempt.at, "at")
    return found


def resource(document: object) -> dict[str, Any]:
    """Take one object out of an answer, wrapped in `data` or bare. Raises Unusable."""
    inner = document.get("data", document) if isinstance(document, dict) else document
    if not isinstance(inner, dict):
        raise Unusable("the answer holds no object")
    return inner


def rows(document: object) -> list[Any]:
    """Take a list out of an answer, wrapped in `data` or bare. Raises Unusable."""
    inner = document.get("data") if isinstance(document, dict) else document
    if not isinstance(inner, list):
        raise Unusable("the answer holds no list")
    return inner


def _read(data: Mapping[str, Any], shape: type[WireT]) -> WireT:
    try:
        return msgspec.convert(data, shape)
    except msgspec.ValidationError as error:
        raise Unusable(f"not the expected shape: {error}") from None


def _money(amount: object, currency: str, member: str) -> int:
    try:
        return to_minor(amount, currency)
    except Unusable as error:
        raise Unusable(f"{member}: {error}") from None


def _time(text: str, member: str = "updatedAt") -> str:
    try:
        return normalize(text)
    except ValueError:
        raise Unusable(f"{member}: {text!r:.60} is no time") from None


def _time_or_none(text: str | None, member: str) -> str | None:
    return None if text is None else _time(text, member)


def _document(data: Mapping[str, Any]) -> bytes:
    if not TRANSIENT.isdisjoint(data):
        data = {name: value for name, value in data.items() if name not in TRANSIENT}
    return strict_json.encode(data)
