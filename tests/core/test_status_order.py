"""Which changes of an order's status are possible in which order."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from backhaul.core.fold import FULFILLMENT, GONE, order_standing, progress
from backhaul.platform import decoding
from scenes import payloads


def stands(**members: Any) -> int:
    return order_standing(decoding.order(payloads.order(**members)))


FORWARD = [
    ("financialStatus", "PENDING", "PAID"),
    ("financialStatus", "PENDING", "VOIDED"),
    ("financialStatus", "PAID", "REFUNDED"),
    ("fulfillmentStatus", "UNFULFILLED", "PARTIALLY_FULFILLED"),
    ("fulfillmentStatus", "PARTIALLY_FULFILLED", "FULFILLED"),
    ("fulfillmentStatus", "UNFULFILLED", "RESTOCKED"),
    ("fulfillmentStatus", "FULFILLED", "RESTOCKED"),
    ("status", "PENDING", "CANCELLED"),
    ("status", "COMPLETED", "CANCELLED"),
]


@pytest.mark.parametrize(("member", "before", "after"), FORWARD)
def test_the_platforms_own_steps_go_forward(
    member: str, before: str, after: str
) -> None:
    one, two = stands(**{member: before}), stands(**{member: after})
    assert list(progress(one, two)) == [True]
    assert list(progress(two, one)) == [False]


def test_a_refund_before_the_confirmation_may_lower_the_status() -> None:
    paid = stands(status="CONFIRMED", financialStatus="PAID")
    refunded = stands(status="PENDING", financialStatus="REFUNDED")
    assert list(progress(paid, refunded)) == [True]


def test_each_part_is_distinguished() -> None:
    statuses = ("PENDING", "CANCELLED")
    every = itertools.product(statuses, ("PENDING", "PAID", "VOIDED"), FULFILLMENT)
    found = [
        stands(status=status, financialStatus=money, fulfillmentStatus=parcel)
        for status, money, parcel in every
    ]
    assert len(set(found)) == len(found) == 2 * 3 * 4
    assert max(found) < GONE
    paid, cancelled = stands(financialStatus="PAID"), stands(status="CANCELLED")
    assert list(progress(paid, cancelled)) == [True, False]


def test_an_unknown_word_only_costs_a_read() -> None:
    paid, unknown = stands(financialStatus="PAID"), stands(financialStatus="ODD")
    assert list(progress(paid, unknown)) == [False]
    assert list(progress(unknown, paid)) == [True]


def test_case_does_not_matter() -> None:
    assert stands(status="cancelled") == stands(status="CANCELLED")
    assert stands(financialStatus="paid") == stands(financialStatus="PAID")
