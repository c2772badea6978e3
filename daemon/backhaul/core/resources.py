"""The platform's objects as the mirror keeps them.

Times are RFC 3339 in UTC with milliseconds, money is integer minor units, statuses are
upper case. `document` is the whole JSON object as canonical bytes, unknown fields
included. `notes` name what of the payload was left out or rounded.
"""

from __future__ import annotations

from msgspec import Struct


class Level(Struct, frozen=True):
    """Stock of one variant, in units."""

    product_id: str
    variant_id: str
    stock: int


class Variant(Struct, frozen=True):
    """One buyable form of a product."""

    id: str
    sku: str | None
    barcode: str | None
    title: str | None
    price_minor: int | None


class Product(Struct, frozen=True):
    """A catalogue item. `levels` holds the stock its variants were shown with."""

    id: str
    handle: str | None
    title: str
    status: str
    external_id: str | None
    updated_at: str
    variants: tuple[Variant, ...]
    levels: tuple[Level, ...]
    document: bytes
    notes: tuple[str, ...] = ()


class Item(Struct, frozen=True):
    """A line of an order."""

    id: str
    product_id: str | None
    variant_id: str | None
    sku: str | None
    title: str
    quantity: int
    fulfilled_quantity: int
    unit_price_minor: int | None


class Shipment(Struct, frozen=True):
    """A parcel of an order."""

    id: str
    tracking_company: str | None
    tracking_number: str | None
    shipped_at: str | None


class Order(Struct, frozen=True):
    """An order with its lines and parcels."""

    id: str
    number: int | None
    name: str | None
    external_id: str | None
    awaiting_confirmation: bool
    status: str
    financial_status: str
    fulfillment_status: str
    placed_at: str | None
    cancelled_at: str | None
    total_minor: int | None
    currency: str
    customer_id: str | None
    updated_at: str
    items: tuple[Item, ...]
    shipments: tuple[Shipment, ...]
    document: bytes
    notes: tuple[str, ...] = ()


class Customer(Struct, frozen=True):
    """A person who orders."""

    id: str
    name: str | None
    email: str | None
    phone: str | None
    updated_at: str
    document: bytes
    notes: tuple[str, ...] = ()


class Deletion(Struct, frozen=True):
    """A product that was removed: leaves a tombstone.

    What it was called is told by the deletion itself, where the platform does.
    """

    id: str
    deleted_at: str
    handle: str | None = None
    title: str = ""
    external_id: str | None = None
    document: bytes = b"{}"


class StockMove(Struct, frozen=True):
    """One variant's share of a stock change, for the ledger."""

    level: Level
    adjustment: int
    reason: str


class StockChange(Struct, frozen=True):
    """A stock change of one product: one `adjustment_id`, one move per variant."""

    adjustment_id: str | None
    product_id: str
    order_id: str | None
    updated_at: str
    moves: tuple[StockMove, ...]
