"""What an ERP needs of an order: its lines with prices, and its recipient.

The fields are those of the platform's orders. Raises RequestRefused for an order that
cannot be written.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backhaul_sdk.erp.failures import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CENTS_OF_A_CENT = Decimal("0.0001")


class OrderLine(Struct, frozen=True):
    """`quantity` units of the article `sku`, at the price that was paid for one."""

    sku: str
    quantity: int
    unit_price: Decimal


def order_lines(document: Mapping[str, Any]) -> Sequence[OrderLine]:
    """Return the lines of an order. Each discount is spread over its line's units."""
    return [
        OrderLine(_sku(item), item["quantity"], _unit_price(item))
        for item in document.get("items", ())
    ]


def shipping_price(document: Mapping[str, Any]) -> Decimal:
    """Return what the customer pays for shipping."""
    return _amount((document.get("totals") or {}).get("shipping") or 0)


def order_name(document: Mapping[str, Any]) -> str:
    """Return the order's name in the store, such as `#1001`."""
    return str(document.get("name") or document.get("number"))


def delivery_text(document: Mapping[str, Any]) -> str:
    """Return the recipient and the address as a text of several lines."""
    address = document.get("shippingAddress") or {}
    return "\n".join(str(value) for value in address.values() if value)


def require_known(
    system: str, wanted: set[str], known: Mapping[str, object], field: str
) -> None:
    """Raise RequestRefused for the first SKU that the system has no product for."""
    if missing := sorted(wanted - known.keys()):
        raise RequestRefused(
            f"{system} has no product with the {field} {missing[0]!r}; create it"
            f" with this {field}"
        )


def _sku(item: Any) -> str:
    if not item.get("sku"):
        raise RequestRefused(
            f"the variant {item.get('title')!r} of the order has no SKU"
        )
    return str(item["sku"])


def _unit_price(item: Any) -> Decimal:
    quantity = Decimal(item["quantity"])
    discount = _amount(item.get("discount") or 0)
    price = _amount(item.get("unitPrice") or 0) - discount / quantity
    return price.quantize(CENTS_OF_A_CENT)


def _amount(value: object) -> Decimal:
    try:
        return Decimal(str(value))
    except InvalidOperation:
        raise RequestRefused(f"{value!r} is not an amount of money") from None
