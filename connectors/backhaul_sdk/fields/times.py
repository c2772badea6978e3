"""Reads times and days; a default zone applies where a text has none."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from backhaul_sdk.fields.texts import Unusable, shown, without_text_mark

if TYPE_CHECKING:
    from datetime import tzinfo

NOT_A_TIME = (ValueError, OverflowError, OSError, ArithmeticError)
"""What Python raises for an invalid time."""
PLAUSIBLE_YEARS = range(2000, 2100)
"""A number that means another year has another unit: 46112 is a day of a spreadsheet,
and 20260331 is a day in digits."""
MILLISECONDS_FROM = 1e11
"""A number from here on is in milliseconds: in seconds it would be the year 5138."""
LONGEST_DAY = len("2026-W14-2")
_LEAP_SECOND = re.compile(
    r"(\d{4}-?\d\d-?\d\d.\d\d:?\d\d:?)60((?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d))", re.ASCII
)
_FIRST_SECOND_ENDS = time(0, 0, 1)
_TIME_OF_DAY = ("%H", "%I", "%c", "%X", "%T", "%R", "%r", "%s")


class Inexact(Unusable):
    """A time that may mean several moments.

    It is a day without a time of day, a local time without a known zone or of an hour
    that clock changes skip or repeat, or a number that means an implausible year.
    """


def moment(
    value: object,
    name: str,
    zone: tzinfo | None = None,
    *,
    date_format: str | None = None,
    day_begins: bool = False,
    timespec: str = "auto",
) -> str | None:
    """Return the time of a field as `rfc3339` does; None if the field is empty.

    A text is in RFC 3339 or ISO 8601, or in `date_format` (strptime's; None if the
    connector has no such setting). `zone` is that of times without an offset; without
    `zone` these are inexact. A number is in seconds or milliseconds since 1970. A day
    alone is inexact too, but with `day_begins` it is its first moment in `zone`. Raises
    Inexact, and Unusable for a value that is not a time.
    """
    if isinstance(value, str):
        value = without_text_mark(value) or None
    if value is None:
        return None
    try:
        if isinstance(value, str):
            day = _day_in(value, date_format or "")
        else:
            day = day_alone(value)
        if day is None:
            found = _written(value, name, date_format)
        elif zone is not None and day_begins:
            found = day_start(day, zone)
        else:
            raise Inexact(
                f"{name} is a day without a time of day: {shown(value)}; write it as"
                f" {_example(zone)}"
            )
        if found.tzinfo is None and zone is None:
            raise Inexact(
                f"{name} has no time zone: {shown(value)}; write it as {_example()}"
            )
        return rfc3339(in_zone(found, zone, name) if zone else found, timespec)
    except NOT_A_TIME:
        advice = f"write it as {date_format} or" if date_format else "write it as"
        advice = "set date_format, or write it as" if date_format == "" else advice
        raise Unusable(
            f"{name} is not a time: {shown(value)}; {advice} {_example(zone)}"
        ) from None


def moment_if_exact(
    value: object, name: str, zone: tzinfo | None = None, **options: Any
) -> str | None:
    """Return the time of a field like `moment`, but None for an inexact one.

    It is for times that the platform does not receive: they delay no shipment.
    """
    with suppress(Inexact):
        return moment(value, name, zone, **options)
    return None


def _example(zone: tzinfo | None = None) -> str:
    return "2026-03-31T14:05" if zone else "2026-03-31T14:05:00Z"


def _written(value: object, name: str, date_format: str | None) -> datetime:
    """Return the time as it is written; naive without an offset. Raises ValueError."""
    if isinstance(value, datetime):
        return value
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        found = since_1970(value)
        if found.year in PLAUSIBLE_YEARS:
            return found
        raise Inexact(
            f"{name} is not a time: {shown(value)} would be in the year {found.year};"
            f" write it as {_example()}"
        )
    if not isinstance(value, str):
        raise ValueError("not a time")
    if date_format:
        # A spreadsheet's own dates come as ISO 8601.
        with suppress(ValueError):
            return datetime.strptime(value, date_format)  # noqa: DTZ007 - may be naive
    if value.isdigit():
        raise ValueError("a number alone is not a clear time")
    return parse_time(value)


def since_1970(number: float | Decimal) -> datetime:
    """Return the time of a number of seconds or milliseconds since 1970.

    Raises one of NOT_A_TIME.
    """
    seconds = float(number)
    is_seconds = abs(seconds) < MILLISECONDS_FROM
    return datetime.fromtimestamp(seconds if is_seconds else seconds / 1e3, UTC)


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
        raise ValueError(
            f"{text!r} is not a time: only 23:59:60 UTC may have the second 60"
        )
    return after


def rfc3339(at: datetime, timespec: str = "auto") -> str:
    """Return an aware time in the form of records, in UTC: `2026-03-31T14:05:00Z`.

    `timespec` is that of `datetime.isoformat`. Raises OverflowError at the ends of the
    calendar.
    """
    return at.astimezone(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def in_zone(at: datetime, zone: tzinfo, name: str) -> datetime:
    """Return a time; one without an offset is a local time of `zone`.

    When the clocks change, an hour of local times does not exist or exists twice.
    Raises Inexact for these: a guess could be an hour wrong.
    """
    if at.tzinfo is not None:
        return at
    first, second = (at.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    if first.utcoffset() == second.utcoffset():
        return first
    is_there = first.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == at
    what = "exists twice" if is_there else "does not exist"
    likely = second if is_there else first
    raise Inexact(
        f"{name} {at.isoformat(' ')} {what} in {zone}, where the clocks change in"
        " that hour; write the time with its UTC offset, such as"
        f" {likely.isoformat()}"
    )


def day_alone(value: object, date_format: str = "") -> date | None:
    """Return the day of a value without a time of day; None for any other value.

    `date_format` is strptime's; ISO 8601 is understood too.
    """
    if isinstance(value, str):
        return _day_in(without_text_mark(value), date_format)
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    return None


def _day_in(text: str, date_format: str) -> date | None:
    try:
        if date_format:
            found = datetime.strptime(text, date_format)  # noqa: DTZ007 - a day
            is_day = not any(part in date_format for part in _TIME_OF_DAY)
            return found.date() if is_day else None
    except ValueError:
        pass  # a spreadsheet's own dates come as ISO 8601
    # Most texts are times: refusing these by an exception takes longer.
    with suppress(ValueError):
        return date.fromisoformat(text) if len(text) <= LONGEST_DAY else None
    return None


def zone_named(name: str) -> tzinfo:
    """Return the time zone of a setting. Raises ValueError for an unknown one."""
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        problem = f"{name!r} is not a time zone; write one such as Europe/Berlin"
        raise ValueError(problem) from None


def day_start(day: date, zone: tzinfo) -> datetime:
    """Return the first moment of a day in a zone."""
    # Of two midnights the first; if the clock skips midnight, the first time after it.
    return datetime.combine(day, time(), tzinfo=zone)
