"""Parses times and days; a default zone applies where a text has none."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import tzinfo
from backhaul_sdk.fields import Unusable, plain

_LEAP_SECOND = re.compile(
    r"(\d{4}-?\d\d-?\d\d.\d\d:?\d\d:?)60((?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d))", re.ASCII
)


_FIRST_SECOND_ENDS = time(0, 0, 1)


def parse_time(text: str) -> datetime:
    """Return the time of a text in RFC 3339 or ISO 8601; naive without an offset.

    `t` and `z` may be lower case, a space may replace the `T`, and a fraction of a
    second may have any number of digits; those after the sixth are cut off. A leap
    second is read as the first second of the next day, as in POSIX time. Raises
    ValueError.
    """
    written = text.strip().upper()
    try:
        return datetime.fromisoformat(written)
    except ValueError:
        if (parts := _LEAP_SECOND.fullmatch(written)) is None:
            raise ValueError(f"{text!r} is not a time in RFC 3339") from None
    before = datetime.fromisoformat(f"{parts[1]}59{parts[2]}")
    try:
        after = before.astimezone(UTC) + timedelta(seconds=1)
    except OverflowError:
        raise ValueError(f"{text!r} is outside the years 1 to 9999") from None
    if after.time() >= _FIRST_SECOND_ENDS:
        raise ValueError(f"{text!r} has a second 60 that is not a leap second")
    return after


def rfc3339(at: datetime, timespec: str = "auto") -> str:
    """Return an aware time in the form of records, in UTC: `2026-03-31T14:05:00Z`.

    `timespec` is that of `datetime.isoformat`. Raises OverflowError at the ends of the
    calendar.
    """
    return at.astimezone(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def in_zone(local: datetime, zone: tzinfo, name: str) -> datetime:
    """Return a local time with the offset of `zone`.

    When the clocks change, an hour of local times does not exist or exists twice.
    Raises Unusable for these: a guess could be an hour wrong.
    """
    first, second = (local.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    if first.utcoffset() == second.utcoffset():
        return first
    is_there = first.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == local
    what = "exists twice" if is_there else "does not exist"
    likely = second if is_there else first
    raise Unusable(
        f"{name} {local.isoformat(' ')} {what} in {zone}, where the clocks change in"
        " that hour; write the time with its UTC offset, such as"
        f" {likely.isoformat()}"
    )


def day_alone(value: object) -> date | None:
    """Return the day of a value without a time of day; None for any other value."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    if not isinstance(value, str):
        return None
    try:
        return date.fromisoformat(plain(value))
    except ValueError:
        return None


def day_start(day: date, zone: tzinfo) -> datetime:
    """Return the first moment of a day in a zone."""
    # Of two midnights the first; if the clock skips midnight, the first time after it.
    return datetime.combine(day, time(), tzinfo=zone)
