"""What reading rows and messages has in common, wherever they come from."""

from __future__ import annotations

import re
from datetime import UTC, datetime

UNREADABLE = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""What taking apart JSON raises that is of another shape, as a cursor that an older
version kept; reading from the beginning is safe then, where keys are stable."""


class Unusable(Exception):
    """What came in cannot become a record; the text says why, and what to do."""


def rfc3339(at: datetime, timespec: str = "auto") -> str:
    """Return an aware time as records have it, in UTC: `2026-03-31T14:05:00Z`.

    `timespec` is that of `datetime.isoformat`. Raises OverflowError at the ends of
    the calendar.
    """
    return at.astimezone(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def reason_of(text: str, known: frozenset[str], default: str) -> str:
    """Return the reason that a text names, however it is written; `default` if none.

    `known` are `CANCEL_REASONS` or `STOCK_REASONS`: "out of stock" is OUT_OF_STOCK.
    Raises Unusable for any other.
    """
    word = re.sub(r"[\s-]+", "_", text).upper() or default
    if word not in known:
        raise Unusable(f"reason {text!r} is unknown; use {', '.join(sorted(known))}")
    return word
