"""Amounts are converted exactly to minor units or refused, and never rounded."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul.core import strict_json
from backhaul.core.resources import EXPONENTS, to_minor
from backhaul.errors import Unusable

AMOUNTS = [
    ("1499.00", "INR", 149_900),
    ("1499", "INR", 149_900),
    ("0.00", "INR", 0),
    ("-1.00", "INR", -100),
    ("1499.0", "EUR", 149_900),
    ("1500", "JPY", 1_500),
    ("1500.00", "JPY", 1_500),
    ("1.250", "KWD", 1_250),
    ("1.25", "KWD", 1_250),
    ("1.25", "BHD", 1_250),
    ("7", "CLP", 7),
    ("7", "XYZ", 700),
    ("7", "", 700),
    (1499, "INR", 149_900),
    (0, "JPY", 0),
    (Decimal("0.1"), "INR", 10),
    (Decimal("1E+2"), "INR", 10_000),
    ("1.0000000000000000000000000000000000000000000000000000", "INR", 100),
    ("92233720368547758.07", "INR", 2**63 - 1),
    ("-92233720368547758.07", "INR", -(2**63) + 1),
    ("1500", "jpy", 1_500),
]


@pytest.mark.parametrize(("amount", "currency", "minor"), AMOUNTS, ids=str)
def test_minor_units(amount: object, currency: str, minor: int) -> None:
    assert to_minor(amount, currency) == minor


STRANGE: list[object] = [
    *[1.5, 1.0, True, False, None, [], {}, b"1"],
    *["", " ", "abc", "1,00", "1.0.0", "--1", "1 000", "12\n", "\x00"],
    *["NaN", "sNaN", "Infinity", "-Infinity", "0x10", "1_000"],
    *["\u0661\u0662", "\uff11\uff12", "\u20b912"],
]
REFUSED: list[tuple[object, str]] = [
    *[(value, "INR") for value in STRANGE],
    ("0.001", "INR"),
    ("1.5", "JPY"),
    ("1.2345", "KWD"),
    ("1.0000000000000000000000000000000001", "INR"),
    ("1e-999999999", "INR"),
    ("1e999999999", "INR"),
    ("1e999990", "JPY"),
    (Decimal("1e999999999"), "INR"),
    (Decimal("1e-999999999"), "INR"),
    (Decimal("NaN"), "INR"),
    ("92233720368547758.08", "INR"),
    ("-92233720368547758.08", "INR"),
    (2**63, "JPY"),
    (10**4_000, "INR"),
]


@pytest.mark.parametrize(
    ("amount", "currency"), REFUSED, ids=lambda value: f"{value!r:.40}"
)
def test_refused(amount: object, currency: str) -> None:
    with pytest.raises(Unusable, match="is not an amount of") as refusal:
        to_minor(amount, currency)
    assert len(str(refusal.value)) < 120


CURRENCIES = st.sampled_from(["INR", "JPY", "KWD", "XYZ"])


@given(minor=st.integers(-(2**63) + 1, 2**63 - 1), currency=CURRENCIES)
def test_every_amount_of_a_currency_comes_back(minor: int, currency: str) -> None:
    exponent = EXPONENTS.get(currency, 2)
    written = f"{Decimal(minor).scaleb(-exponent):f}"
    assert to_minor(written, currency) == minor
    assert to_minor(strict_json.decode(written.encode()), currency) == minor


@given(amount=st.decimals(allow_nan=False, allow_infinity=False), currency=CURRENCIES)
def test_to_minor_is_exact_or_refuses(amount: Decimal, currency: str) -> None:
    try:
        minor = to_minor(amount, currency)
    except Unusable:
        return
    assert Fraction(minor) == Fraction(amount) * 10 ** EXPONENTS.get(currency, 2)


@given(text=st.text(max_size=40))
def test_any_text_is_an_amount_or_unusable(text: str) -> None:
    try:
        to_minor(text, "INR")
    except Unusable:
        return
    assert text.isascii()
    assert text == text.strip()
