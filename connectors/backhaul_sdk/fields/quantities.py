"""Reads quantities: whole numbers, units of a shipment, stock and its changes."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Literal, TypeAlias

from backhaul_sdk.fields.texts import Unusable, shown, without_text_mark
from backhaul_sdk.records import MAX_DELTA, MAX_LEVEL

if TYPE_CHECKING:
    from collections.abc import Mapping

DecimalSign: TypeAlias = Literal["auto", ".", ",", "system"]
"""How a text writes decimals. "auto" refuses a number that is a thousand in one country
and a fraction in another. "system" is the form that programs write: a point, and no
thousands."""
EXACT_FLOAT = 2**53
"""A floating-point number from here on may have lost digits."""
SIGNS: tuple[DecimalSign, ...] = (".", ",")
_SIGN_NAMES: dict[DecimalSign, str] = {".": "point", ",": "comma"}
TAKEN_AS_ZERO = "is taken as 0"
"""The end of the note of a stock level that was below 0."""
_PLAIN = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_WHOLE: Mapping[str, re.Pattern[str]] = {
    ".": re.compile(r"([+-]?(?:\d{1,3}(?:,\d{3})+|\d{1,15}))(?:\.0*)?", re.ASCII),
    ",": re.compile(r"([+-]?(?:\d{1,3}(?:\.\d{3})+|\d{1,15}))(?:,0*)?", re.ASCII),
    # 1.000 is a thousand in one country and one in another.
    "auto": re.compile(r"([+-]?\d{1,15})[.,]0{0,2}", re.ASCII),
    "system": re.compile(r"([+-]?\d{1,18})\.0*", re.ASCII),
}


def whole_number(value: object, name: str, decimal: DecimalSign = "auto") -> int:
    """Return a whole number from a number or a text.

    `decimal` is how texts write decimals. A number has no locale: 5.0 is five and 2.125
    is a fraction, whatever `decimal` says.
    """
    number = _whole_of(value, decimal)
    if number is None:
        raise Unusable(
            f"{name} must be a whole number, not {shown(value)}"
            f"{_ambiguous(value, decimal)}"
        )
    return number


def is_whole(number: float | Decimal) -> bool:
    """Return True for a finite number without a fraction."""
    if isinstance(number, int):
        return True
    try:
        if isinstance(number, Decimal):
            return number.is_finite() and number == number.to_integral_value()
        return math.isfinite(number) and number == int(number)
    except (ValueError, ArithmeticError):
        return False  # a signaling NaN, or a huge exponent


def _whole_of(value: object, decimal: DecimalSign) -> int | None:
    if isinstance(value, str):
        return _whole_text(without_text_mark(value), decimal)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    # Comparing would expand a huge exponent.
    if not is_whole(value) or Decimal(value).adjusted() >= len(str(EXACT_FLOAT)):
        return None
    return int(value)


def _whole_text(text: str, decimal: DecimalSign) -> int | None:
    # Word processors write a true minus sign, some ERPs write it behind the number.
    number = text.replace("\N{MINUS SIGN}", "-")
    if number.endswith("-") and number[:1].isdigit():
        number = f"-{number[:-1]}"
    if _PLAIN.fullmatch(number):
        return int(number)
    if decimal == "auto" and "." in number and "," in number:
        decimal = "." if number.rfind(".") > number.rfind(",") else ","
    found = _WHOLE[decimal].fullmatch(number)
    return int(found[1].replace(",", "").replace(".", "")) if found else None


def _ambiguous(value: object, decimal: DecimalSign) -> str:
    if decimal != "auto" or not isinstance(value, str):
        return ""
    readings = {s: _whole_text(without_text_mark(value), s) for s in SIGNS}
    return "".join(
        f". If the {_SIGN_NAMES[sign]} is the decimal sign{_thousands(value, sign)},"
        f' the number is {number}: set decimal = "{sign}"'
        for sign, number in readings.items()
        if number is not None
    )


def _thousands(value: str, decimal: DecimalSign) -> str:
    (other,) = (sign for sign in SIGNS if sign != decimal)
    used = other in value
    return f" and the {_SIGN_NAMES[other]} separates thousands" if used else ""


def stock_of(number: int, *, negative_is_zero: bool) -> tuple[int, str]:
    """Return a stock level, and a note if the number was changed.

    Raises Unusable for a number that is not a stock level.
    """
    if number > MAX_LEVEL:
        raise Unusable(
            f"the quantity must be from 0 to {MAX_LEVEL}, not {shown(number)}"
        )
    if number >= 0:
        return number, ""
    if not negative_is_zero:
        raise Unusable(
            f"the quantity is below 0: {number}; correct the quantity, or set"
            " negative_is_zero = true to use 0 instead"
        )
    return 0, f"{number} {TAKEN_AS_ZERO}"


def shipped_units(
    value: object, name: str = "quantity", decimal: DecimalSign = "auto"
) -> int:
    """Return the units of a line of a shipment; at least 1. Raises Unusable."""
    units = whole_number(value, name, decimal)
    if not 1 <= units <= MAX_DELTA:
        raise Unusable(f"{name} must be from 1 to {MAX_DELTA}, not {units}")
    return units


def stock_change(value: object, name: str, decimal: DecimalSign = "auto") -> int:
    """Return the units by which a stock changes; never 0. Raises Unusable."""
    units = whole_number(value, name, decimal)
    if units == 0:
        raise Unusable(f"{name} is 0, so nothing would change")
    if abs(units) > MAX_DELTA:
        raise Unusable(f"{name} must be from -{MAX_DELTA} to {MAX_DELTA}, not {units}")
    return units
