"""Decodes the platform's payloads into our objects."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

from backhaul.core import strict_json
from backhaul.core.clock import normalize
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
    nearest_minor,
    to_minor,
)
from backhaul.errors import Unreadable, Unusable
from backhaul.platform import schemas
from backhaul.platform.fields import identity, money, tidied, word

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TRANSIENT = frozenset({"changes", "shipment", "trigger"})
"""Members of a delivery that tell about the event and are not part of the object."""

DERIVED = frozenset({"ordersCount", "totalSpent"})
"""Members of a customer that move without its version: the orders are their home."""

Tracking: TypeAlias = tuple[str, str]
TRACKING: Tracking = ("trackingCompany", "trackingNumber")
"""The members of a parcel that name its carrier and its number."""

Data: TypeAlias = "Mapping[str, Any]"
T = TypeVar("T")


def order(data: Data, tracking: Tracking = TRACKING, currency: str = "") -> Order:
    """Read a v1 order. Raises Unreadable, or Unusable where its id cannot be read.

    `tracking` is how the store names the carrier and the number of a parcel; the
    document keeps them so. `currency` is the store's, for an order that names none.
    """
    try:
        strict = _strict(_with_tracking(data, tracking), schemas.Order)
        return _order(strict, data, [], currency)
    except Unusable:
        pass
    try:
        return _odd_order(data, tracking, currency)
    except Unusable as error:
        raise _named(error, "order", data) from None


def _odd_order(data: Data, tracking: Tracking, currency: str) -> Order:
    """Read an order of which some members are not in the contract's form."""
    notes: list[str] = []
    document = tidied(data, schemas.SHAPES[schemas.Order], notes)
    _require_cancellation(data, document)
    if "fulfillmentStatus" not in document:
        document["fulfillmentStatus"] = _fulfillment_of(document["items"])
    renamed = _with_tracking(document, tracking)
    if renamed is not document:
        renamed = tidied(renamed, schemas.SHAPES[schemas.Order], [])
        document = _plain(data) or document
    return _order(_strict(renamed, schemas.Order), document, notes, currency)


def _plain(data: Data) -> dict[str, Any] | None:
    """Return an order that is in the contract's form but for its parcels' own names.

    Its document must not depend on those names: versions are compared by it.
    """
    try:
        _order(_strict(data, schemas.Order), data, [], "")
    except Unusable:
        return None
    return dict(data)


def _require_cancellation(data: Data, document: Data) -> None:
    """Refuse an order whose cancellation cannot be read, unless its status tells it."""
    is_left_out = data.get("cancellation") is not None and (
        "cancellation" not in document
    )
    if is_left_out and document["status"] != "CANCELLED":
        raise Unusable(
            f"the member cancellation cannot be read: {data['cancellation']!r:.60}"
        )


def _cancelled_at(wire: schemas.Order) -> str | None:
    """Return when an order was cancelled; None for one that is not.

    An order whose status is CANCELLED is cancelled, whether or not a time is given: it
    must not be shipped. Then the time of its last change stands for the missing one.
    """
    given = wire.cancellation.cancelled_at if wire.cancellation else None
    if given is None and word(wire.status) == "CANCELLED":
        return _time(wire.updated_at)
    return _time_or_none(given, "cancelledAt")


def _fulfillment_of(items: list[dict[str, Any]]) -> str:
    """Return the fulfillment status that the lines of an order show."""
    lines = [(item.get("fulfilledQuantity"), item["quantity"]) for item in items]
    if not lines or any(sent is None for sent, _ in lines):
        raise Unusable("the member fulfillmentStatus is missing or null")
    if not any(sent for sent, _ in lines):
        return "UNFULFILLED"
    is_whole = all(sent >= quantity for sent, quantity in lines)
    return "FULFILLED" if is_whole else "PARTIALLY_FULFILLED"


def _order(
    wire: schemas.Order, document: Data, notes: list[str], currency: str
) -> Order:
    currency = wire.currency or currency
    total = wire.totals.total if wire.totals else 0
    found = Order(
        id=wire.id,
        number=wire.number,
        name=wire.name,
        external_id=wire.external_id,
        awaiting_confirmation=_awaits(wire.confirmation),
        status=word(wire.status),
        financial_status=word(wire.financial_status),
        fulfillment_status=word(wire.fulfillment_status),
        placed_at=_time_or_none(wire.placed_at, "placedAt"),
        cancelled_at=_cancelled_at(wire),
        total_minor=_minor(total, currency, "totals.total", notes),
        currency=currency,
        customer_id=wire.customer.id if wire.customer else None,
        updated_at=_time(wire.updated_at),
        items=tuple([_item(item, wire, currency, notes) for item in wire.items]),
        shipments=tuple([_shipment(parcel) for parcel in wire.shipments]),
        document=_document(document),
    )
    return _with_notes(found, notes)


def _with_tracking(data: Data, names: Tracking) -> Data:
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


def _awaits(confirmation: schemas.Confirmation | None) -> bool:
    if confirmation is None:
        return False
    return confirmation.required and confirmation.confirmed_at is None


def _item(
    item: schemas.Item, order: schemas.Order, currency: str, notes: list[str]
) -> Item:
    if item.id.isspace():
        raise Unusable("a line of the order has an empty id")
    return Item(
        id=item.id,
        product_id=item.product_id,
        variant_id=item.variant_id,
        sku=item.sku,
        title=item.title,
        quantity=item.quantity,
        fulfilled_quantity=_fulfilled(item, order),
        unit_price_minor=_minor(item.unit_price, currency, "unitPrice", notes),
    )


def _fulfilled(item: schemas.Item, order: schemas.Order) -> int:
    """Return how many units of a line have left, as the order's status tells it.

    Where the line does not say and the order is partly fulfilled, nobody knows.
    """
    if item.fulfilled_quantity is not None:
        return item.fulfilled_quantity
    status = word(order.fulfillment_status)
    if status == "PARTIALLY_FULFILLED":
        raise Unusable("a line of the order has no fulfilledQuantity, or it is null")
    return item.quantity if status == "FULFILLED" else 0


def _shipment(parcel: schemas.Shipment) -> Shipment:
    return Shipment(
        id=parcel.id,
        tracking_company=parcel.tracking_company,
        tracking_number=parcel.tracking_number,
        shipped_at=_time_or_none(parcel.shipped_at, "shippedAt"),
    )


def product(data: Data, currency: str) -> Product:
    """Read a v1 product; its variants' stock becomes `levels`. Raises Unusable.

    A product names no currency of its own: `currency` is the store's.
    """
    return _read(data, schemas.Product, partial(_product, currency), "product")


def _product(
    currency: str, wire: schemas.Product, document: Data, notes: list[str]
) -> Product:
    found = Product(
        id=wire.id,
        handle=wire.handle,
        title=wire.title,
        status=wire.status.lower(),
        external_id=wire.external_id,
        updated_at=_time(wire.updated_at),
        variants=tuple(_variant(one, currency, notes) for one in wire.variants),
        levels=tuple(
            Level(wire.id, variant.id, variant.stock)
            for variant in wire.variants
            if variant.stock is not None
        ),
        document=_document(_without_stock(document)),
    )
    return _with_notes(found, notes)


def _variant(variant: schemas.Variant, currency: str, notes: list[str]) -> Variant:
    price = _minor(variant.price, currency, "price", notes)
    return Variant(variant.id, variant.sku, variant.barcode, variant.title, price)


def _without_stock(data: Data) -> dict[str, Any]:
    """Drop stock from the document: the levels are its only home."""
    variants = [
        {name: value for name, value in variant.items() if name != "stock"}
        for variant in data.get("variants", ())
    ]
    return {**data, "variants": variants}


def variant_ids(data: Data) -> set[str]:
    """Return the ids of the variants that a product has. Raises Unusable."""
    return _read(
        data,
        schemas.Variants,
        lambda wire, _data, _notes: {variant.id for variant in wire.variants},
        "product",
    )


def deletion(data: Data) -> Deletion:
    """Read what products/delete carries. Raises Unusable."""
    return _read(data, schemas.Deletion, _deletion, "product")


def _deletion(wire: schemas.Deletion, document: Data, _notes: list[str]) -> Deletion:
    return Deletion(
        id=wire.id,
        deleted_at=_time(wire.deleted_at, "deletedAt"),
        handle=wire.handle,
        title=wire.title or "",
        external_id=wire.external_id,
        document=_document(document),
    )


def gone(data: Data) -> str:
    """Read the id of an object that was asked for and is not there."""
    return identity(data.get("id"))


def customer(data: Data) -> Customer:
    """Read a v1 customer. Raises Unusable."""
    return _read(data, schemas.Customer, _customer, "customer")


def _customer(wire: schemas.Customer, document: Data, notes: list[str]) -> Customer:
    found = Customer(
        id=wire.id,
        name=wire.name,
        email=wire.email,
        phone=wire.phone,
        updated_at=_time(wire.updated_at),
        document=_document({k: v for k, v in document.items() if k not in DERIVED}),
    )
    return _with_notes(found, notes)


def stock_change(data: Data) -> StockChange:
    """Read what inventory/level_update carries. Raises Unusable."""
    return _read(data, schemas.StockChange, _stock_change, "level", "productId")


def _stock_change(
    wire: schemas.StockChange, _document: Data, _notes: list[str]
) -> StockChange:
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


def level(data: Data) -> tuple[Level, str]:
    """Read one inventory level and its `updatedAt`. Raises Unusable."""
    return _read(data, schemas.Level, _level, "level", "productId")


def _level(
    wire: schemas.Level, _document: Data, _notes: list[str]
) -> tuple[Level, str]:
    found = Level(wire.product_id, wire.variant_id, wire.stock)
    return found, _time(wire.updated_at)


def entry(data: Data) -> schemas.Entry:
    """Read a row of the stock's history. Raises Unusable."""
    return _read(data, schemas.Entry, _moved, "level", "productId")


def moved(data: Data) -> schemas.Moved:
    """Read of a row of the stock's history whose it is. Raises Unusable."""
    return _read(data, schemas.Moved, _moved, "level", "productId")


def _moved(wire: schemas.MovedT, _document: Data, _notes: list[str]) -> schemas.MovedT:
    wire.created_at = _time(wire.created_at, "createdAt")
    return wire


def hook(data: Data) -> schemas.Hook:
    """Read a webhook subscription. Raises Unusable."""
    return _read(data, schemas.Hook, _as_it_is, "subscription")


def _as_it_is(wire: schemas.WireT, _document: Data, _notes: list[str]) -> schemas.WireT:
    return wire


def last_attempt(data: Data) -> schemas.Attempt | None:
    """Read when a delivery was tried last, if it was. Raises Unusable."""
    attempts = _read(data, schemas.Attempts, _attempts, "delivery").attempts
    return attempts[-1] if attempts else None


def delivery(data: Data) -> schemas.Delivery:
    """Read a delivery with every attempt. Raises Unusable."""
    found = _read(data, schemas.Delivery, _attempts, "delivery")
    found.created_at = _time_or_none(found.created_at, "createdAt")
    found.next_attempt_at = _time_or_none(found.next_attempt_at, "nextAttemptAt")
    return found


def _attempts(
    wire: schemas.AttemptsT, _document: Data, _notes: list[str]
) -> schemas.AttemptsT:
    for attempt in wire.attempts or ():
        attempt.at = _time(attempt.at, "at")
    return wire


def resource(document: object) -> dict[str, Any]:
    """Take one object out of an answer, wrapped in `data` or bare. Raises Unusable."""
    inner = document.get("data", document) if isinstance(document, dict) else document
    if not isinstance(inner, dict):
        raise Unusable("the platform's response contains no object")
    return inner


def rows(document: object) -> list[Any]:
    """Take a list out of an answer, wrapped in `data` or bare. Raises Unusable."""
    inner = document.get("data") if isinstance(document, dict) else document
    if not isinstance(inner, list):
        raise Unusable("the platform's response contains no list")
    return inner


def _read(
    data: Data,
    shape: type[schemas.WireT],
    build: Callable[[schemas.WireT, Data, list[str]], T],
    kind: str,
    key: str = "id",
) -> T:
    """Build an object from its payload, which is tidied first where it has to be.

    Raises Unreadable, or Unusable where what `key` names cannot be read either.
    """
    try:
        return build(_strict(data, shape), data, [])
    except Unusable:
        pass
    try:
        notes: list[str] = []
        document = tidied(data, schemas.SHAPES[shape], notes)
        return build(_strict(document, shape), document, notes)
    except Unusable as error:
        raise _named(error, kind, data, key) from None


def _strict(data: Data, shape: type[schemas.WireT]) -> schemas.WireT:
    try:
        return msgspec.convert(data, shape)
    except msgspec.ValidationError as error:
        raise Unusable(
            f"the object does not have the expected shape: {error}"
        ) from None


def _named(error: Unusable, kind: str, data: Data, key: str = "id") -> Unusable:
    """Say of which object something cannot be read, where its id can."""
    try:
        id_ = identity(data.get(key))
    except Unusable:
        return Unusable(f"{kind} without an id that can be read: {error}")
    name = data.get("name") if kind == "order" else None
    called = f"{kind} {name} ({id_})" if isinstance(name, str) else f"{kind} {id_}"
    return Unreadable(f"{called}: {error}", kind, id_)


NotedT = TypeVar("NotedT", Order, Product, Customer)


def _with_notes(found: NotedT, notes: list[str]) -> NotedT:
    return msgspec.structs.replace(found, notes=tuple(notes)) if notes else found


def _minor(amount: object, currency: str, member: str, notes: list[str]) -> int | None:
    """Return an amount in minor units; one with too many digits is rounded.

    None where there is none. Raises Unusable for what is not written as an amount.
    """
    if amount is None:
        return None
    try:
        return to_minor(amount, currency)
    except Unusable:
        if money(amount) != amount:
            raise
    try:
        notes.append(f"{member} {amount} is rounded to the currency's digits")
        return nearest_minor(amount, currency)
    except Unusable as error:
        notes[-1] = f"left out {member}: {error}"
        return None


def _time(text: str, member: str = "updatedAt") -> str:
    try:
        return normalize(text)
    except ValueError:
        raise Unusable(f"the member {member} is not a time: {text!r:.60}") from None


def _time_or_none(text: str | None, member: str) -> str | None:
    return None if text is None else _time(text, member)


def _document(data: Data) -> bytes:
    if not data.keys().isdisjoint(TRANSIENT):
        data = {name: value for name, value in data.items() if name not in TRANSIENT}
    return strict_json.encode(data)
