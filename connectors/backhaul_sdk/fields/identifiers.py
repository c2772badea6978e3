"""Reads identifiers, keys and labels, and refuses numbers that lost digits."""

from __future__ import annotations

import math
import re
import unicodedata
from decimal import Decimal

from backhaul_sdk.fields.quantities import EXACT_FLOAT, is_whole
from backhaul_sdk.fields.texts import (
    APOSTROPHES,
    CELL_ERROR,
    Unusable,
    is_placeholder,
    missing,
    plain,
    shown,
    unmarked,
)

LONGEST_IDENTIFIER = 500
DIGITS_KEPT = 15
"""A spreadsheet keeps this many digits of a number and replaces the others by zeros."""
CERTAIN_ZEROS = 4
"""A number with this many zeros at the end was rounded: one of 10,000 ends so by
chance."""
_LINK_CALL = re.compile(r"[=+@]\s*[^\W\d][\w.]*\(")
_POINT_ZERO = re.compile(r"(\d+)[.,]0{1,2}", re.ASCII)
_SCIENTIFIC = re.compile(
    r"[+-]?(?:\d+[.,]\d+\s*E\s*[+-]?|\d+\s*E\s*\+)\s*\d+", re.IGNORECASE | re.ASCII
)


def identifier(
    value: object, name: str, *, is_text: bool = False, required: bool = False
) -> str:
    """Return a number or code that is compared as text; empty if there is none.

    A placeholder such as `n/a` is empty, unless a leading apostrophe says that it is a
    real name. `name` is the field's name in messages ("tracking number"). Additions of
    spreadsheets are removed: `="123"`, `'123`, `123.0`, the link around a number,
    invisible characters. A number that lost digits is refused, and so is an empty field
    that is `required`. `is_text` says that the source stores texts unchanged; a text
    mark says the same of one value.
    """
    return _checked(value, name, is_text=is_text, required=required)[0]


def article(value: object, *, is_text: bool = False, required: bool = False) -> str:
    """Return a SKU: an `identifier`, but a text `10.0` stays unchanged.

    It may be another article than 10. If no article `10.0` exists, the host reads it as
    10.
    """
    return _checked(value, "sku", is_text=is_text, required=required)[1]


def key(value: object, name: str = "key", *, required: bool = False) -> str:
    """Return the key of a row, an item or an event; empty if there is none.

    It is checked as an `identifier`, but a text stays as written: `10.0` and `10` are
    two keys.
    """
    checked, _ = _checked(value, name, is_text=True, required=required)
    return text_of(value, name) if checked else ""


def label(value: object, name: str) -> str:
    """Return a name for display, such as a carrier's; empty if there is none.

    Line breaks inside become spaces.
    """
    if is_nan(value):
        return ""
    if isinstance(value, bool | float | Decimal | dict | list | tuple):
        raise Unusable(f"the {name} must be a text")
    text = " ".join(text_of(value, name).splitlines())
    return identifier(text, name, is_text=True)


def _checked(
    value: object, name: str, *, is_text: bool, required: bool
) -> tuple[str, str]:
    """Return an identifier, and its original spelling with a trailing `.0`."""
    text = text_of(value, name)
    is_meant = text[:1] in APOSTROPHES and text[-1:] not in APOSTROPHES
    text, is_marked = unmarked(text)
    if not text or (not is_meant and is_placeholder(text)):
        if required:
            raise Unusable(missing(value, name))
        return "", ""
    written = text
    if found := _POINT_ZERO.fullmatch(text):
        text = found[1]
    _require_sound(text, name, is_marked=is_marked)
    _require_digits(text, name, is_text=is_text or is_marked)
    return text, written


def text_of(value: object, name: str) -> str:
    """Return the text of a text, or the digits of a whole number; empty if none."""
    if value is None or is_nan(value):
        return ""
    if isinstance(value, bytes):
        raise Unusable(
            f"the {name} holds bytes that are not UTF-8 text: {shown(value)}"
        )
    if isinstance(value, bool | dict | list | tuple):
        raise Unusable(f"the {name} must be a text or a whole number")
    if isinstance(value, int | float | Decimal):
        return _digits_of(value, name)
    text = plain(str(value))
    if len(text) > LONGEST_IDENTIFIER:
        raise Unusable(f"the {name} has more than {LONGEST_IDENTIFIER} characters")
    return text


def is_nan(value: object) -> bool:
    """Return True for NaN, which marks a missing number."""
    if isinstance(value, Decimal):
        return value.is_nan()
    return isinstance(value, float) and math.isnan(value)


def _digits_of(number: float | Decimal, name: str) -> str:
    """Return the digits of a number that is used as an identifier."""
    if not is_whole(number):
        raise Unusable(
            f"the {name} must be a text or a whole number, not {shown(number)}"
        )
    if isinstance(number, float) and abs(number) >= EXACT_FLOAT:
        raise Unusable(lost_number(name, f"{number:.6E}"))
    if abs(number) >= 10**LONGEST_IDENTIFIER:
        raise Unusable(f"the {name} has more than {LONGEST_IDENTIFIER} characters")
    return str(int(number))


def _require_sound(text: str, name: str, *, is_marked: bool) -> None:
    """Raise Unusable for a spreadsheet's error or formula in place of a value."""
    if text[:3] == "###" and not text.strip("#"):
        raise Unusable(
            f"the {name} is {text[:9]}, which a spreadsheet shows if a column is"
            " too narrow; make the column wider and export again"
        )
    if text[:1] in ("#", "E", "e") and CELL_ERROR.fullmatch(text):
        raise Unusable(
            f"the {name} is {text}, a formula without a result; save values instead"
            " of formulas"
        )
    is_formula = text.startswith("=") or _LINK_CALL.match(text)
    if is_formula and not is_marked:
        raise Unusable(
            f"the {name} is a formula, not a value: {text[:60]!r}; export values"
            " instead of formulas. If this text is the real value, write an"
            " apostrophe before it"
        )
    if '"' in text and name == "tracking number":
        raise Unusable(
            f"the {name} has a quotation mark inside: {text[:60]!r}; perhaps a mark"
            " in an earlier row is not closed"
        )
    if text.isprintable():
        return
    if any(unicodedata.category(each) in ("Cc", "Cs") for each in text):
        raise Unusable(
            f"the {name} has a line break or another control character inside: "
            f"{text[:60]!r}; write one value in each row"
        )


def _require_digits(text: str, name: str, *, is_text: bool) -> None:
    """Raise Unusable for a number that a spreadsheet has rounded."""
    if "e" in text.casefold() and _SCIENTIFIC.fullmatch(text):
        raise Unusable(_lost(name, text, is_text=is_text))
    if len(text) <= DIGITS_KEPT or not (text.isascii() and text.isdigit()):
        return
    zeros = len(text) - max(len(text.rstrip("0")), DIGITS_KEPT)
    is_rounded = not text[DIGITS_KEPT:].strip("0")
    if is_rounded and (zeros >= CERTAIN_ZEROS or not is_text):
        hint = "" if zeros >= CERTAIN_ZEROS else f"; write '{text} if it ends so"
        raise Unusable(_lost(name, text, is_text=is_text) + hint)


def lost_number(name: str, number: str) -> str:
    """Return the message for a number of JSON or a database that lost digits."""
    return (
        f"the {name} came as the number {number}, and digits are lost: a number keeps "
        f"{DIGITS_KEPT} of them; store and send it as a text"
    )


def _lost(name: str, text: str, *, is_text: bool) -> str:
    if is_text:
        return (
            f"the {name} is {text!r}, the text of a rounded number: digits are lost; "
            "correct it where it comes from"
        )
    return (
        f"the spreadsheet turned the {name} into {text}, digits are lost; format the "
        "column as text, enter the number again and export again"
    )
