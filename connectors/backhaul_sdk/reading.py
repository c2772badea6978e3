"""What reading rows and messages has in common, wherever they come from."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from datetime import time as time_of_day

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


_LEAP_SECOND = re.compile(
    r"(\d{4}-?\d\d-?\d\d.\d\d:?\d\d:?)60((?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d))", re.ASCII
)
_FIRST_SECOND_ENDS = time_of_day(0, 0, 1)


class Unusable(Exception):
    """What came in cannot become a record; the text says why, and what to do."""


def parse_time(text: str) -> datetime:
    """Return the time of a text in RFC 3339 or ISO 8601; naive without an offset.

    `t` and `z` may be small, a blank may stand for the `T`, and a fraction of a second
    may have any number of digits; those after the sixth are cut off. A leap second is
    read as the first second of the next day, as in POSIX time. Raises ValueError.
    """
    written = text.strip().upper()
    try:
        return datetime.fromisoformat(written)
    except ValueError:
        if (parts := _LEAP_SECOND.fullmatch(written)) is None:
            raise ValueError(f"{text!r} is no time in RFC 3339") from None
    before = datetime.fromisoformat(f"{parts[1]}59{parts[2]}")
    try:
        after = before.astimezone(UTC) + timedelta(seconds=1)
    except OverflowError:
        raise ValueError(f"{text!r} is outside of the years 1 to 9999") from None
    if after.time() >= _FIRST_SECOND_ENDS:
        raise ValueError(f"{text!r} has a second 60 that is no leap second")
    return after


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
