"""The platform's objects as the mirror stores them, payment statuses and money."""

from __future__ import annotations

import re
from decimal import (
    ROUND_HALF_UP,
    Context,
    Decimal,
    Inexact,
    InvalidOperation,
    Overflow,
    Underflow,
)
from functools import lru_cache

from msgspec import Struct

from backhaul.errors import Unusable


class Level(Struct, frozen=True, gc=False):
    """Stock of one variant, in units."""

    product_id: str
    variant_id: str
    stock: int


class Variant(Struct, frozen=True, gc=False):
    """One buyable form of a product."""

    id: str
    sku: str | None
    barcode: str | None
    title: str | None
    price_minor: int | None


class Product(Struct, frozen=True, gc=False):
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


class Item(Struct, frozen=True, gc=False):
    """A line of an order."""

    id: str
    product_id: str | None
    variant_id: str | None
    sku: str | None
    title: str
    quantity: int
    fulfilled_quantity: int
    unit_price_minor: int | None


class Shipment(Struct, frozen=True, gc=False):
    """A parcel of an order."""

    id: str
    tracking_company: str | None
    tracking_number: str | None
    shipped_at: str | None


class Order(Struct, frozen=True, gc=False):
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


PAID = frozenset({"PAID", "PARTIALLY_REFUNDED"})
"""The order is paid: what is not given back is to be shipped."""


def status_word(status: str | None) -> str:
    """Return a status as the contract spells it, whatever its case and blanks."""
    return (status or "").strip().upper()


def is_paid(financial_status: str | None) -> bool:
    """Return True if an order with this status is paid, be it in part given back."""
    return status_word(financial_status) in PAID


def is_refunded(financial_status: str | None) -> bool:
    """Return True if all that was paid is given back: nothing is left to be shipped."""
    return status_word(financial_status) == "REFUNDED"


def is_stopped(financial_status: str | None, fulfillment_status: str | None) -> bool:
    """Return True if a refund ends the work on an order.

    A refund of an order that has shipped whole changes nothing: no work is left.
    """
    return (
        is_refunded(financial_status) and status_word(fulfillment_status) != "FULFILLED"
    )


class Customer(Struct, frozen=True, gc=False):
    """A customer of the store."""

    id: str
    name: str | None
    email: str | None
    phone: str | None
    updated_at: str
    document: bytes
    notes: tuple[str, ...] = ()


class Deletion(Struct, frozen=True, gc=False):
    """A product that was removed: leaves a tombstone.

    Its title and handle come from the deletion event, if the platform sends them.
    """

    id: str
    deleted_at: str
    handle: str | None = None
    title: str = ""
    external_id: str | None = None
    document: bytes = b"{}"


class StockMove(Struct, frozen=True, gc=False):
    """One variant's share of a stock change, for the ledger."""

    level: Level
    adjustment: int
    reason: str


class StockChange(Struct, frozen=True, gc=False):
    """A stock change of one product: one `adjustment_id`, one move per variant."""

    adjustment_id: str | None
    product_id: str
    order_id: str | None
    updated_at: str
    moves: tuple[StockMove, ...]


_PLAIN = frozenset("0123456789.+-eE")
_USUAL = re.compile(r"[0-9]{1,15}\.[0-9]{2}", re.ASCII)

_WHOLE = {"BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF"} | {
    *("UGX", "UYI", "VND", "VUV", "XAF", "XOF", "XPF")
}
_THOUSANDTHS = {"BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"}
EXPONENTS = dict.fromkeys(_WHOLE, 0) | dict.fromkeys(_THOUSANDTHS, 3)
"""Currencies whose minor unit is not 1/100."""

# Rounding is an error here, never a result.
_EXACT = Context(prec=40, traps=[Inexact, InvalidOperation, Overflow, Underflow])


def to_minor(amount: object, currency: str) -> int:
    """Return `amount` (decimal text or exact number) in minor units. Raises Unusable.

    Never through a float: a number read from JSON arrives as int or Decimal.
    """
    exponent = _exponent(currency)
    # Nearly every amount has this form, and Decimal would be far slower.
    if exponent == 2 and isinstance(amount, str) and _USUAL.fullmatch(amount):
        return int(amount.replace(".", ""))
    if isinstance(amount, bool) or not isinstance(amount, str | int | Decimal):
        raise Unusable(f"{amount!r:.60} is not an amount of money")
    try:
        minor = Decimal(amount).scaleb(exponent, _EXACT)
        exact = minor.copy_abs() < 2**63 and minor == int(minor)
    except (ArithmeticError, ValueError):
        exact = False
    # Decimal reads "1_000" and digits of other scripts; no platform writes them.
    if not exact or (isinstance(amount, str) and not _PLAIN.issuperset(amount)):
        raise Unusable(f"{amount!r:.60} is not an amount of {currency or 'money'}")
    return int(minor)


def nearest_minor(amount: object, currency: str) -> int:
    """Return the nearest amount in minor units, half a unit up. Raises Unusable."""
    try:
        exact = Decimal(str(amount))
        minor = exact.scaleb(_exponent(currency)).quantize(1, ROUND_HALF_UP)
    except (ArithmeticError, ValueError):
        raise Unusable(f"{amount!r:.60} is not an amount of money") from None
    return to_minor(minor.scaleb(-_exponent(currency)), currency)


def from_minor(minor: int, currency: str) -> Decimal:
    """Return an amount in minor units as the amount itself, with all its digits."""
    return Decimal(minor).scaleb(-_exponent(currency))


@lru_cache(maxsize=64)
def _exponent(currency: str) -> int:
    return EXPONENTS.get(currency.upper(), 2)
