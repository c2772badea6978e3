"""The fraction digits of currencies agree with the list of ISO 4217."""

from __future__ import annotations

from iso4217 import Currency

from backhaul_reference.platform.money import (
    DEFAULT_EXPONENT,
    MAX_EXPONENT,
    exponent_of,
)

FUNDS = {"CLF", "UYW"}
"""Four digits; units of account, which nobody pays a shop with."""


def test_exponents_are_those_of_iso_4217() -> None:
    published = {
        one.code: one.exponent
        for one in Currency
        if one.exponent is not None and one.code not in FUNDS
    }
    assert len(published) > 150
    assert {code: exponent_of(code) for code in published} == published
    assert max(published.values()) == MAX_EXPONENT


def test_an_unlisted_currency_has_two_digits() -> None:
    assert exponent_of("ZZZ") == DEFAULT_EXPONENT
