"""Reads the dates and times of EDI messages."""

from __future__ import annotations

import re

_DAY = re.compile(r"(\d{4})(\d{2})(\d{2})")
_ZONED = re.compile(r"(\d{12,14})\s*(Z|UTC|GMT|[+-]\d{1,2}(?::?\d{2})?)")
_HOURS = re.compile(r"([+-])(\d{1,2})(?::?(\d{2}))?")
DATED = frozenset({"101", "102"})
TIMED = frozenset({"201", "203", "204"})
UTC_CODES = frozenset({"UT", "GM"})
ZONED = frozenset({"303", "304"})


def edifact_time(value: str, code: str) -> str:
    """Return the time of C507 as ISO 8601; the value itself if it is not one.

    A row with such a value is refused, with the value in the reason.
    """
    if not value:
        return ""
    century = "20" if code in ("101", "201") else ""
    if code in DATED | TIMED:
        return _iso(f"{century}{value}") or value
    if code in ZONED and (found := _ZONED.fullmatch(value)):
        return f"{_iso(found[1])}{_offset(found[2])}"
    # Without a code the value says what it is.
    return _iso(value) or value


def x12_time(day: str, time: str = "", zone: str = "") -> str:
    """Return a date (CCYYMMDD or YYMMDD) and a time (HHMM…) as ISO 8601.

    Of the codes of time zones (623) only those of UTC are certain: most others are
    that of a country without saying whether it is summer.
    """
    full = f"20{day}" if len(day) == 6 else day
    digits = time[:6] if len(time) >= 6 else time[:4]
    found = _iso(f"{full}{digits}") or day
    return f"{found}Z" if zone in UTC_CODES and "T" in found else found


def _iso(digits: str) -> str:
    day = _DAY.match(digits)
    if day is None or not digits.isdigit():
        return ""
    date, rest = "-".join(day.groups()), digits[8:]
    if not rest:
        return date
    if len(rest) not in (4, 6):
        return ""
    parts = [rest[at : at + 2] for at in range(0, len(rest), 2)]
    return f"{date}T{':'.join(parts)}"


def _offset(zone: str) -> str:
    found = _HOURS.fullmatch(zone)
    if found is None:
        return "Z"
    return f"{found[1]}{int(found[2]):02}:{found[3] or '00'}"
