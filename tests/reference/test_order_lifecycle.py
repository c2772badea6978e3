"""The state machines of orders, and the status in SQL against the function."""

import itertools
import sqlite3

import pytest

from backhaul_reference.platform.state.order_lifecycle import (
    FULFILLMENT_STATUSES,
    OrderStatuses,
    Transition,
    financial_move,
    fulfillment_after,
    status_of,
)
from backhaul_reference.platform.state.schema import migrate

FINANCIAL = ("PENDING", "PAID", "REFUNDED", "VOIDED")


@pytest.mark.parametrize(
    ("now", "trigger", "cancelled", "expected"),
    [
        ("PENDING", "mark_paid", False, Transition("PAID")),
        ("PENDING", "mark_paid", True, Transition(None, "ORDER_CANCELLED")),
        ("PENDING", "cancel", False, Transition("VOIDED")),
        ("PENDING", "cancel_refund", False, Transition("VOIDED")),
        ("PENDING", "refund", False, Transition(None, "ORDER_NOT_PAID")),
        ("PAID", "cancel", False, Transition("PAID")),
        ("PAID", "cancel_refund", False, Transition("REFUNDED")),
        ("PAID", "refund", False, Transition("REFUNDED")),
        ("PAID", "refund", True, Transition("REFUNDED")),
        ("PAID", "mark_paid", False, Transition("PAID")),
        ("REFUNDED", "refund", False, Transition(None, "PAYMENT_SETTLED")),
        ("REFUNDED", "mark_paid", False, Transition(None, "PAYMENT_SETTLED")),
        ("VOIDED", "refund", True, Transition(None, "PAYMENT_SETTLED")),
        ("VOIDED", "mark_paid", True, Transition(None, "ORDER_CANCELLED")),
    ],
)
def test_financial_moves(
    now: str, trigger: str, cancelled: bool, expected: Transition
) -> None:
    assert financial_move(now, trigger, cancelled=cancelled) == expected


@pytest.mark.parametrize(
    ("now", "trigger", "to"),
    [
        ("UNFULFILLED", "all", "FULFILLED"),
        ("UNFULFILLED", "some", "PARTIALLY_FULFILLED"),
        ("PARTIALLY_FULFILLED", "all", "FULFILLED"),
        ("PARTIALLY_FULFILLED", "some", "PARTIALLY_FULFILLED"),
        ("FULFILLED", "cancel", "FULFILLED"),
        ("FULFILLED", "cancel_restock", "RESTOCKED"),
        ("UNFULFILLED", "cancel_restock", "RESTOCKED"),
        ("PARTIALLY_FULFILLED", "cancel_restock", "RESTOCKED"),
        ("UNFULFILLED", "cancel", "UNFULFILLED"),
    ],
)
def test_fulfillment_moves(now: str, trigger: str, to: str) -> None:
    assert fulfillment_after(now, trigger) == to


@pytest.mark.parametrize("now", ["UNFULFILLED", "PARTIALLY_FULFILLED"])
@pytest.mark.parametrize("cancel", ["cancel", "cancel_restock"])
def test_fulfill_and_cancel_commute(now: str, cancel: str) -> None:
    shipped_first = fulfillment_after(fulfillment_after(now, "all"), cancel)
    cancelled_first = fulfillment_after(fulfillment_after(now, cancel), "all")
    assert shipped_first == cancelled_first


def test_a_fulfilled_order_cannot_be_fulfilled_again() -> None:
    with pytest.raises(KeyError):
        fulfillment_after("FULFILLED", "all")


def test_the_status_column_equals_the_function() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection)
    names = [row[1] for row in connection.execute("PRAGMA table_info(orders)")]
    wanted = dict.fromkeys(names, 0)
    for number, (money, goods, confirmed, cancelled) in enumerate(
        itertools.product(FINANCIAL, FULFILLMENT_STATUSES, (False, True), (False, True))
    ):
        values = wanted | {
            "id": str(number),
            "number": number,
            "financial": money,
            "fulfillment": goods,
            "confirmed_ms": 1 if confirmed else None,
            "cancelled_ms": 1 if cancelled else None,
            "external_id": None,
            "token_hash": None,
        }
        marks = ",".join("?" * len(values))
        sql = f"INSERT INTO orders({','.join(values)}) VALUES({marks})"
        connection.execute(sql, tuple(values.values()))
        sql_status = connection.execute(
            "SELECT status FROM orders WHERE id = ?", (str(number),)
        ).fetchone()[0]
        assert sql_status == status_of(
            OrderStatuses(money, goods, confirmed, cancelled)
        )
    connection.close()
