"""Ranks order and payment statuses: which changes are progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from backhaul.core.resources import Order

FINANCIAL: Mapping[str, int] = {
    "PENDING": 0,
    "PAID": 1,
    "PARTIALLY_REFUNDED": 2,
    "VOIDED": 3,
    "REFUNDED": 3,
}
PAID = frozenset({"PAID", "PARTIALLY_REFUNDED"})
"""The order is paid: what is not given back is to be shipped."""
FULFILLMENT: Mapping[str, int] = {
    "UNFULFILLED": 0,
    "PARTIALLY_FULFILLED": 1,
    "FULFILLED": 2,
    "RESTOCKED": 3,
}
# `status` follows from the others and may go back by itself (a refund before the order
# was confirmed): only its CANCELLED counts.

_PLACES = (6, 4, 2, 0)
"""Two bits each: gone, cancelled, financial, fulfillment."""
GONE = 1 << 6


def word(status: str | None) -> str:
    """Return a status as the contract spells it, whatever its case and blanks."""
    return (status or "").strip().upper()


def is_paid(financial_status: str | None) -> bool:
    """Return True if an order with this status is paid, be it in part given back."""
    return word(financial_status) in PAID


def is_refunded(financial_status: str | None) -> bool:
    """Return True if all that was paid is given back: nothing is left to be shipped."""
    return word(financial_status) == "REFUNDED"


def is_stopped(financial_status: str | None, fulfillment_status: str | None) -> bool:
    """Return True if a refund ends the work on an order.

    A refund of an order that has shipped whole changes nothing: no work is left.
    """
    return is_refunded(financial_status) and word(fulfillment_status) != "FULFILLED"


def of_order(order: Order) -> int:
    """Return the standing of an order."""
    cancelled = order.status == "CANCELLED" or order.cancelled_at is not None
    return (
        cancelled << 4
        | FINANCIAL.get(word(order.financial_status), 0) << 2
        | FULFILLMENT.get(order.fulfillment_status, 0)
    )


def progress(before: int, after: int) -> Iterator[bool]:
    """Yield, for each part of the standing that differs, whether it went forward."""
    if before == after:
        return
    for place in _PLACES:
        was, is_now = before >> place & 3, after >> place & 3
        if was != is_now:
            yield is_now > was
