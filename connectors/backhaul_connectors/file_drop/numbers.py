"""Numbers of spreadsheets and JSON as the people who typed them would write them."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from backhaul_connectors.file_drop.cells import FRACTION_MARK
from backhaul_sdk.fields import DIGITS_KEPT


def number_text(raw: str, width: int = 0) -> str:
    """Return 4006381333931.0 as 4006381333931, and 5e0 as 5.

    A number with more digits than a spreadsheet keeps is shown as one shows it,
    3.401234E+17, which no code is taken for. `width` is how many digits are shown.
    A fraction begins with a mark, as 2.125 would be a thousand in some countries.
    Raises ValueError for what is no number.
    """
    if raw.isascii() and raw.isdigit() and len(raw) <= DIGITS_KEPT:
        return (raw.lstrip("0") or "0").zfill(width)
    try:
        value = Decimal(raw)
    except InvalidOperation:
        raise ValueError(f"{raw[:40]!r} is no number") from None
    if not value.is_finite():
        raise ValueError(f"{raw[:40]!r} is no number")
    # Not by comparing: that fails where the exponent is out of all proportion.
    if value and value.adjusted() >= DIGITS_KEPT:
        return f"{value:.6E}"
    if value == value.to_integral_value():
        return str(int(value)).zfill(width)
    return f"{FRACTION_MARK}{float(value):.{DIGITS_KEPT}g}"
