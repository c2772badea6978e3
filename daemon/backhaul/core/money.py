"""Money as integer minor units (ISO 4217 exponents)."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from backhaul.errors import Unusable

_WHOLE = {"BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF"} | {
    *("UGX", "UYI", "VND", "VUV", "XAF", "XOF", "XPF")
}
_THOUSANDTHS = {"BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"}
EXPONENTS = dict.fromkeys(_WHOLE, 0) | dict.fromkeys(_THOUSANDTHS, 3)
"""Currencies whose minor unit is not 1/100."""


def to_minor(amount: object, currency: str) -> int:
    """Return `amount` (decimal text or exact number) in minor units. Raises Unusable.

    Never through a float: a number read from JSON arrives as int or Decimal.
    """
    if isinstance(amount, bool) or not isinstance(amount, str | int | Decimal):
        raise Unusable(f"{amount!r} is not an amount of money")
    try:
        minor = Decimal(amount).scaleb(EXPONENTS.get(currency, 2))
        exact = int(minor)
    except (InvalidOperation, ValueError, OverflowError):
        raise Unusable(f"{amount!r} is not an amount of money") from None
    if exact != minor or abs(exact) >= 2**63:
        raise Unusable(f"{amount!r} is not an amount of {currency}")
    return exact
