"""The cells of a row: their texts and marks, identifiers, and keys of their content."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from backhaul_sdk import fields
from backhaul_sdk.fields import Unusable
from backhaul_sdk.fields.identifiers import DIGITS_KEPT, lost_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


Cells: TypeAlias = "Mapping[str, str]"
"""The cells of a row by their meaning; absent columns are empty."""

NO_RESULT = "#FORMULA!"
"""Marks a formula whose result was not saved."""
FRACTION_MARK = "\N{WORD JOINER}"
"""Marks a fraction that came as a number: it has no locale."""
ROUNDED_MARK = "\N{INVISIBLE SEPARATOR}"
"""Marks a JSON number that lost digits."""


class CellOrigin(NamedTuple):
    """Where a row was found.

    `file` identifies the content of the file, `dated` is the file's time.
    """

    file: str
    dated: str
    row: int
    locator: str
    raw: str
    header: str = ""


def identifier(cells: Cells, column: str, *, required: bool = True) -> str:
    """Return a number or code that is compared as text."""
    cell, name = cells.get(column, ""), column.replace("_", " ")
    if column.startswith("key "):
        name = "key column"
    if cell.startswith(ROUNDED_MARK):
        raise Unusable(lost_number(name, cell[1:]))
    if column == "sku":
        return fields.article(cell, required=required)
    if column == "tracking_company":
        return fields.label(number(cell), name)
    return fields.identifier(number(cell), name, required=required)


def number(text: str) -> str | float:
    """Return the text of a cell, or the fraction that came as a number."""
    if text.startswith(FRACTION_MARK):
        return float(text[1:])
    return text.lstrip(ROUNDED_MARK)


def same(text: str) -> str:
    """Return the text without differences of writing style."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return " ".join(plain.casefold().split())


def key_of(kind: str, content: Sequence[object]) -> str:
    """Return a key that depends only on kind and content."""
    text = json.dumps([kind, content])
    return f"{kind.replace(' ', '-')}:{hashlib.sha256(text.encode()).hexdigest()[:40]}"


def number_text(raw: str, width: int = 0) -> str:
    """Return 4006381333931.0 as 4006381333931, and 5e0 as 5.

    A number with more digits than a spreadsheet keeps becomes 3.401234E+17, which is
    never accepted as a code. `width` is the number of digits shown. A fraction begins
    with a mark, as 2.125 would be a thousand in some countries. Raises ValueError if it
    is not a number.
    """
    if raw.isascii() and raw.isdigit() and len(raw) <= DIGITS_KEPT:
        return (raw.lstrip("0") or "0").zfill(width)
    try:
        value = Decimal(raw)
    except InvalidOperation:
        raise ValueError(f"{raw[:40]!r} is not a number") from None
    if not value.is_finite():
        raise ValueError(f"{raw[:40]!r} is not a number")
    # Comparing fails for a huge exponent.
    if value and value.adjusted() >= DIGITS_KEPT:
        return f"{value:.6E}"
    if value == value.to_integral_value():
        return str(int(value)).zfill(width)
    return f"{FRACTION_MARK}{float(value):.{DIGITS_KEPT}g}"
