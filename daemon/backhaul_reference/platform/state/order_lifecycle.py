"""Order state machine: status, payment and fulfillment tables."""

from dataclasses import dataclass
from typing import Literal, get_args

from backhaul_reference.platform.models import (
    FinancialStatus,
    FulfillmentStatus,
    Status,
)

Financial = Literal["PENDING", "PAID", "REFUNDED", "VOIDED"]
Fulfillment = Literal["UNFULFILLED", "PARTIALLY_FULFILLED", "FULFILLED", "RESTOCKED"]

STATUSES: tuple[str, ...] = get_args(Status)
FINANCIAL_STATUSES: tuple[str, ...] = get_args(FinancialStatus)
FULFILLMENT_STATUSES: tuple[str, ...] = get_args(FulfillmentStatus)


@dataclass(frozen=True, slots=True)
class Transition:
    """The result of a trigger; `to` is None if it is rejected with `refusal`."""

    to: str | None
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class OrderStatuses:
    """The inputs of an order's status."""

    financial: str
    fulfillment: str
    confirmed: bool
    cancelled: bool


def status_of(order: OrderStatuses) -> Status:
    if order.cancelled:
        return "CANCELLED"
    if order.fulfillment == "FULFILLED" and order.financial in {"PAID", "REFUNDED"}:
        return "COMPLETED"
    begun = order.fulfillment in {"PARTIALLY_FULFILLED", "FULFILLED"}
    if order.confirmed or order.financial == "PAID" or begun:
        return "CONFIRMED"
    return "PENDING"


CANCELLED = "ORDER_CANCELLED"
SETTLED = "PAYMENT_SETTLED"

# (from, trigger, order is cancelled) -> move. What is absent is refused as SETTLED.
FINANCIAL: dict[tuple[str, str, bool], Transition] = {
    ("PENDING", "mark_paid", False): Transition("PAID"),
    ("PENDING", "mark_paid", True): Transition(None, CANCELLED),
    ("PENDING", "cancel", False): Transition("VOIDED"),
    ("PENDING", "cancel_refund", False): Transition("VOIDED"),
    ("PENDING", "refund", False): Transition(None, "ORDER_NOT_PAID"),
    ("PENDING", "refund", True): Transition(None, CANCELLED),
    ("PAID", "mark_paid", False): Transition("PAID"),
    ("PAID", "mark_paid", True): Transition("PAID"),
    ("PAID", "cancel", False): Transition("PAID"),
    ("PAID", "cancel_refund", False): Transition("REFUNDED"),
    ("PAID", "refund", False): Transition("REFUNDED"),
    ("PAID", "refund", True): Transition("REFUNDED"),
    # Terminal for money, yet the order itself may still be cancelled.
    ("REFUNDED", "cancel", False): Transition("REFUNDED"),
    ("REFUNDED", "cancel_refund", False): Transition("REFUNDED"),
    ("VOIDED", "mark_paid", True): Transition(None, CANCELLED),
}

# (from, trigger) -> to. RESTOCKED stays: a cancel racing a fulfill must leave the
# same state in either order of commit.
FULFILLMENT: dict[tuple[str, str], str] = {
    ("UNFULFILLED", "all"): "FULFILLED",
    ("UNFULFILLED", "some"): "PARTIALLY_FULFILLED",
    ("PARTIALLY_FULFILLED", "all"): "FULFILLED",
    ("PARTIALLY_FULFILLED", "some"): "PARTIALLY_FULFILLED",
    ("RESTOCKED", "all"): "RESTOCKED",
    ("RESTOCKED", "some"): "RESTOCKED",
    ("UNFULFILLED", "cancel"): "UNFULFILLED",
    ("PARTIALLY_FULFILLED", "cancel"): "PARTIALLY_FULFILLED",
    ("FULFILLED", "cancel"): "FULFILLED",
    ("UNFULFILLED", "cancel_restock"): "RESTOCKED",
    ("PARTIALLY_FULFILLED", "cancel_restock"): "RESTOCKED",
    ("FULFILLED", "cancel_restock"): "RESTOCKED",
}


def financial_move(now: str, trigger: str, *, cancelled: bool) -> Transition:
    return FINANCIAL.get((now, trigger, cancelled), Transition(None, SETTLED))


def fulfillment_after(now: str, trigger: str) -> str:
    return FULFILLMENT[(now, trigger)]
