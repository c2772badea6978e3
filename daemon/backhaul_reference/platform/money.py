"""Converts money between integer minor units and decimal text."""

import re
from decimal import Decimal

DEFAULT_EXPONENT = 2
MAX_EXPONENT = 3
EXPONENTS = {
    **dict.fromkeys(
        ("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF"), 0
    ),
    **dict.fromkeys(("UGX", "UYI", "VND", "VUV", "XAF", "XOF", "XPF"), 0),
    **dict.fromkeys(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"), 3),
}
WHOLE_DIGITS = 12
MAX_MINOR = 10 ** (WHOLE_DIGITS + MAX_EXPONENT)
MAX_SUM_MINOR = 100 * MAX_MINOR
"""What one order may cost; a column takes 92 times as much."""
PLAIN_DECIMAL = re.compile(r"([0-9]{1,40})(?:\.([0-9]{1,20}))?", re.ASCII)


def exponent_of(currency: str) -> int:
    return EXPONENTS.get(currency, DEFAULT_EXPONENT)


def to_minor(value: object, exponent: int) -> int:
    """Read a decimal string or JSON number; ValueError says what is wrong with it."""
    if isinstance(value, bool) or not isinstance(value, (str, int, Decimal)):
        raise ValueError("must be a decimal string or a number")
    found = PLAIN_DECIMAL.fullmatch(str(value))
    if found is None:
        raise ValueError("must be a plain non-negative decimal")
    whole, fraction = found.group(1), found.group(2) or ""
    if isinstance(value, Decimal):
        # 1.50 and 1.500 are the same number in JSON.
        fraction = fraction.rstrip("0")
    if len(fraction) > exponent:
        raise ValueError(f"has more than {exponent} fraction digits")
    if len(whole) > WHOLE_DIGITS:
        raise ValueError(f"has more than {WHOLE_DIGITS} digits before the point")
    return int(whole + fraction.ljust(exponent, "0"))


def to_text(minor: int, exponent: int) -> str:
    if exponent == 0:
        return str(minor)
    sign = "-" if minor < 0 else ""
    whole, fraction = divmod(abs(minor), 10**exponent)
    return f"{sign}{whole}.{fraction:0{exponent}d}"


def to_text_or_none(minor: int | None, exponent: int) -> str | None:
    return None if minor is None else to_text(minor, exponent)
