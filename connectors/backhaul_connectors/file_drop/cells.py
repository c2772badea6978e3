"""What is in a cell: codes, whole numbers, yes or no, reasons and moments."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from backhaul_sdk.reading import Unusable, rfc3339

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import tzinfo

Cells: TypeAlias = "Mapping[str, str]"
"""The cells of a row by what they mean; columns that are absent are empty."""

YES = frozenset({"yes", "y", "true", "1"})
NO = frozenset({"no", "n", "false", "0"})
NO_RESULT = "#FORMULA!"
"""What stands for a formula whose result was not saved."""

_RUINED = re.compile(r"[+-]?\d+([.,]\d+)?E\+\d+", re.IGNORECASE)
_ERROR = re.compile(r"#(N/A|REF!|VALUE!|NAME\?|NUM!|NULL!|DIV/0!|SPILL!|FORMULA!)")
_PLAIN = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_WHOLE = {
    ".": re.compile(r"([+-]?(?:\d{1,3}(?:,\d{3})+|\d{1,15}))(?:\.0*)?", re.ASCII),
    ",": re.compile(r"([+-]?(?:\d{1,3}(?:\.\d{3})+|\d{1,15}))(?:,0*)?", re.ASCII),
    # 1.000 is a thousand in one country and one in another.
    "auto": re.compile(r"([+-]?\d{1,15})[.,]0{0,2}", re.ASCII),
}


def clean(cell: str) -> str:
    """Return the cell without blanks around it and a spreadsheet's text mark."""
    text = cell.strip()
    guarded = text.startswith(("'=", "'+", "'-", "'@"))
    return text[1:] if guarded else text


def identifier(cells: Cells, column: str, *, required: bool = True) -> str:
    """Return a number or code that is compared as text."""
    text = cells.get(column, "")
    if required and not text:
        raise Unusable(f"the {_spoken(column)} is empty")
    if "+" in text and _RUINED.fullmatch(text):
        raise Unusable(
            f"the spreadsheet turned the {_spoken(column)} into {text}, digits are "
            "lost; format the column as text and export again"
        )
    if text.startswith("#") and _ERROR.fullmatch(text):
        raise Unusable(
            f"the {_spoken(column)} is {text}, a formula without a result; put values "
            "in the place of formulas and save again"
        )
    return text


def _spoken(column: str) -> str:
    return "key column" if column.startswith("key ") else column.replace("_", " ")


def whole_number(text: str, decimal: str) -> int | None:
    """Return the number if it is a whole one; `decimal` is ".", "," or "auto"."""
    # Word processors write a true minus sign, some ERPs write it behind the number.
    number = text.replace("\N{MINUS SIGN}", "-")
    if number.endswith("-") and number[:1].isdigit():
        number = f"-{number[:-1]}"
    if _PLAIN.fullmatch(number):
        return int(number)
    if decimal == "auto" and "." in number and "," in number:
        decimal = max(".,", key=number.rfind)
    found = _WHOLE[decimal].fullmatch(number)
    return int(found[1].replace(",", "").replace(".", "")) if found else None


def yes_or_no(text: str) -> bool:
    word = text.casefold()
    if word not in YES | NO:
        raise Unusable(f"restock must be yes or no, not {text!r}")
    return word in YES


def moment(cells: Cells, column: str, zone: tzinfo, pattern: str) -> str | None:
    """Return a date or time as RFC 3339; `pattern` is strptime's, or empty."""
    text = cells.get(column, "")
    if not text:
        return None
    try:
        found = _parsed(text, pattern)
        aware = found if found.tzinfo else found.replace(tzinfo=zone)
        return rfc3339(aware)
    except (ValueError, OverflowError):
        expected = f"write it as {pattern}" if pattern else "write 2026-03-31"
        raise Unusable(
            f"{column.replace('_', ' ')} is no date: {text!r}; {expected} or "
            "2026-03-31T14:05"
        ) from None


def _parsed(text: str, pattern: str) -> datetime:
    if pattern:
        try:
            return datetime.strptime(text, pattern)  # noqa: DTZ007 - a zone is added
        except ValueError:
            pass  # a spreadsheet's own dates come as ISO 8601
    return datetime.fromisoformat(text)


def same(text: str) -> str:
    """Return what remains when writing style is taken away."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return " ".join(plain.casefold().split())


def key_of(kind: str, content: Sequence[object]) -> str:
    """Return a key that depends on kind and content alone."""
    text = json.dumps([kind, content])
    return f"{kind.replace(' ', '-')}:{hashlib.sha256(text.encode()).hexdigest()[:40]}"
