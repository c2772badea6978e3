"""Money as integer minor units (ISO 4217 exponents)."""

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

from backhaul.errors import Unusable

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
    # Nearly every amount there is, at a fraction of what Decimal takes.
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


def _exponent(currency: str) -> int:
    return EXPONENTS.get(currency.upper(), 2)
