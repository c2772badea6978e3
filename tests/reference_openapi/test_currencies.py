"""Fraction digits of currencies, held to the published list."""

from __future__ import annotations

from backhaul_reference.money import exponent_of

# ISO 4217 list one (SIX Interbank Clearing), column "minor unit", where it is not 2;
# without the funds codes CLF and UYW (4), which nobody pays a shop with.
PUBLISHED = {
    **dict.fromkeys(("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW"), 0),
    **dict.fromkeys(("PYG", "RWF", "UGX", "UYI", "VND", "VUV"), 0),
    **dict.fromkeys(("XAF", "XOF", "XPF"), 0),
    **dict.fromkeys(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"), 3),
}
TWO = ("INR", "EUR", "USD", "GBP", "IDR", "HUF", "TWD", "MGA", "MRU", "NPR", "LKR")


def test_exponents_are_those_of_iso_4217() -> None:
    found = {code: exponent_of(code) for code in PUBLISHED}
    assert found == PUBLISHED
    assert {exponent_of(code) for code in TWO} == {2}
