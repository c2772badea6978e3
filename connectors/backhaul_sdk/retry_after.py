"""Reads the `Retry-After` header: how many seconds a server asks to wait.

Servers send more than the two forms of RFC 9110 (seconds, or an HTTP date): seconds or
milliseconds since 1970, ISO dates, fractions, lists, and numbers of years. An
implausible value is never obeyed.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from backhaul_sdk.fields import parse_time

LONGEST_PLAUSIBLE_SECONDS = 86_400.0
"""A longer wait is taken for a mistake."""
IMPLAUSIBLE_SECONDS = 60.0
"""The wait that replaces an implausible value: the server wants some pause."""
_EPOCH_FROM = 1e9
"""From here on (2001-09-09) a number is a time since 1970, not a delay."""
_EPOCH_SECONDS_BELOW = 1e11
"""A time since 1970 that is larger counts milliseconds, or still smaller units."""
_NUMBER = re.compile(r"\d+(\.\d*)?", re.ASCII)


def wait_seconds(header: str, date: str, now: datetime) -> float | None:
    """Return the seconds that a `Retry-After` header asks for.

    `date` is the `Date` header of the same response: a point in time is compared with
    the server's own clock if the server states it, else with `now`. A time in the past
    is 0. Of several values the longest counts. None if the header states nothing.
    """
    there = _moment(date) or now
    whole = _seconds(header.strip(), there)
    if whole is not None:
        return whole
    parts = [_seconds(part.strip(), there) for part in header.split(",")]
    return max((part for part in parts if part is not None), default=None)


def _seconds(value: str, there: datetime) -> float | None:
    if _NUMBER.fullmatch(value):
        return _plausible(_delay(float(value), there))
    moment = _moment(value)
    return None if moment is None else _plausible((moment - there).total_seconds())


def _delay(number: float, there: datetime) -> float:
    """Return a number as a delay; a time since 1970 is counted from `there`."""
    if number < _EPOCH_FROM or not math.isfinite(number):
        return number
    while number >= _EPOCH_SECONDS_BELOW:
        number /= 1_000
    # A number between the two units is not a time either.
    return number - there.timestamp() if number >= _EPOCH_FROM else math.inf


def _plausible(seconds: float) -> float:
    if seconds > LONGEST_PLAUSIBLE_SECONDS:
        return IMPLAUSIBLE_SECONDS
    return max(seconds, 0.0)


def _moment(text: str) -> datetime | None:
    """Return an HTTP or ISO date; one without a zone is in UTC."""
    for parse in (parsedate_to_datetime, parse_time):
        try:
            moment = parse(text)
            return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
        except (ValueError, TypeError, OverflowError):
            continue
    return None
