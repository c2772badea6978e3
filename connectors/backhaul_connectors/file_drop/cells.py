"""Reads the cells of a row: codes, numbers, yes or no, reasons and times."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from backhaul_sdk import fields, quantities
from backhaul_sdk.fields import DIGITS_KEPT, Unusable, without_text_mark
from backhaul_sdk.times import day_alone, day_start, in_zone, parse_time, rfc3339

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date, tzinfo

    from backhaul_sdk.quantities import DecimalSign


Cells: TypeAlias = "Mapping[str, str]"
"""The cells of a row by their meaning; absent columns are empty."""

NO_RESULT = "#FORMULA!"
"""Marks a formula whose result was not saved."""
FRACTION_MARK = "\N{WORD JOINER}"
"""Marks a fraction that came as a number: it has no locale."""
ROUNDED_MARK = "\N{INVISIBLE SEPARATOR}"
"""Marks a JSON number that lost digits."""

_TIME_OF_DAY = ("%H", "%I", "%c", "%X", "%T", "%R", "%r", "%s")


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


def clean(cell: str) -> str:
    """Return the cell without blanks around it."""
    return cell.strip()


def identifier(cells: Cells, column: str, *, required: bool = True) -> str:
    """Return a number or code that is compared as text."""
    cell, name = cells.get(column, ""), _spoken(column)
    if cell.startswith(ROUNDED_MARK):
        raise Unusable(fields.lost_number(name, cell[1:]))
    text = _read(cell, column, name)
    if required and not text:
        raise Unusable(fields.missing(cell, name))
    return text


def _read(cell: str, column: str, name: str) -> str:
    if column == "sku":
        return fields.article(cell)
    read = fields.label if column == "tracking_company" else fields.identifier
    return read(cell, name)


def _spoken(column: str) -> str:
    return "key column" if column.startswith("key ") else column.replace("_", " ")


def whole_number(text: str, name: str, decimal: DecimalSign) -> int:
    """Return the whole number; `decimal` is how texts write decimals."""
    return quantities.whole_number(number(text), name, decimal)


def number(text: str) -> str | float:
    """Return the text of a cell, or the fraction that came as a number."""
    if text.startswith(FRACTION_MARK):
        return float(text[1:])
    return text.lstrip(ROUNDED_MARK)


def yes_or_no(text: str) -> bool:
    return fields.yes_or_no(text, "restock")


def moment(cells: Cells, column: str, zone: tzinfo, pattern: str) -> str | None:
    """Return a date or time as RFC 3339; `pattern` is strptime's, or empty.

    A day without a time is its first moment.
    """
    text = without_text_mark(cells.get(column, ""))
    if not text:
        return None
    name = column.replace("_", " ")
    try:
        found, is_day = _parsed(text, pattern)
        if is_day:
            return rfc3339(day_start(found, zone))
        return rfc3339(found if found.tzinfo else in_zone(found, zone, name))
    except (ValueError, OverflowError):
        expected = f"write it as {pattern}" if pattern else "set date_format, or write"
        expected += "" if pattern else " 2026-03-31"
        raise Unusable(
            f"{name} is not a date: {text!r}; {expected} or 2026-03-31T14:05"
        ) from None


def day(cells: Cells, column: str, pattern: str) -> date | None:
    """Return the day of a cell without a time of day; None for any other cell."""
    try:
        found, is_day = _parsed(without_text_mark(cells.get(column, "")), pattern)
    except ValueError:
        return None
    return found.date() if is_day else None


def _parsed(text: str, pattern: str) -> tuple[datetime, bool]:
    """Return the time, and whether it is a day without a time."""
    if pattern:
        try:
            found = datetime.strptime(text, pattern)  # noqa: DTZ007 - a zone is added
            return found, not any(part in pattern for part in _TIME_OF_DAY)
        except ValueError:
            pass  # a spreadsheet's own dates come as ISO 8601
    return parse_time(text), day_alone(text) is not None


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
