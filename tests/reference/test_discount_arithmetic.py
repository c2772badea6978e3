"""The arithmetic of discounts, as properties."""

from decimal import ROUND_HALF_UP, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul_reference.platform.state.discounts import (
    Terms,
    freight_off,
    goods_off,
    split,
)

amounts = st.integers(0, 10**15)
percents = st.integers(1, 100_00)
terms = st.builds(
    Terms, st.sampled_from(["PERCENTAGE", "FIXED_AMOUNT", "FREE_SHIPPING"]), percents
)


@given(percents, amounts)
def test_percentages_are_rounded_half_up(value: int, subtotal: int) -> None:
    exact = Decimal(subtotal) * value / 10_000
    expected = int(exact.quantize(Decimal(1), ROUND_HALF_UP))
    assert goods_off(Terms("PERCENTAGE", value), subtotal) == expected


@pytest.mark.parametrize(
    ("value", "subtotal", "off"),
    [(1000, 15, 2), (1000, 14, 1), (1000, 4, 0), (1000, 5, 1), (10_000, 7, 7)],
)
def test_halves_go_up(value: int, subtotal: int, off: int) -> None:
    assert goods_off(Terms("PERCENTAGE", value), subtotal) == off


@given(terms, amounts, amounts)
def test_never_more_than_there_is(one: Terms, subtotal: int, freight: int) -> None:
    assert 0 <= goods_off(one, subtotal) <= subtotal
    assert freight_off(one, freight) == (freight if one.type == "FREE_SHIPPING" else 0)


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=100), st.data())
def test_shares_sum_and_stay_below_their_lines(
    weights: list[int], data: st.DataObject
) -> None:
    amount = data.draw(st.integers(0, sum(weights)))
    shares = split(amount, weights)
    assert sum(shares) == amount
    assert all(0 <= one <= weight for one, weight in zip(shares, weights, strict=True))
    whole = sum(weights) or 1
    exact = [Decimal(amount) * weight / whole for weight in weights]
    assert all(abs(a - b) < 1 for a, b in zip(shares, exact, strict=True))


@pytest.mark.parametrize(
    ("amount", "weights", "shares"),
    [
        (2, [1, 1, 1], [1, 1, 0]),
        (10, [30, 30, 40], [3, 3, 4]),
        (5, [10, 0, 10], [3, 0, 2]),
        (100, [999, 1], [100, 0]),
        (0, [0, 0], [0, 0]),
    ],
)
def test_the_largest_remainder_comes_first(
    amount: int, weights: list[int], shares: list[int]
) -> None:
    assert split(amount, weights) == shares
