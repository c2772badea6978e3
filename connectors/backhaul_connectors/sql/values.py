"""Converts database values to cursor text and to the values of records."""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

from backhaul_sdk.fields import Unusable, parse_time
from backhaul_sdk.fields.times import MILLISECONDS_FROM, NOT_A_TIME, since_1970

if TYPE_CHECKING:
    from datetime import tzinfo

_DAY = timedelta(days=1)
_SORTABLE = re.compile(r"\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d(?::\d\d)?|$)")
"""Text forms of times that sort like the times."""
_TO_SECOND = len("2026-03-31 14:05:00")


class Bytes(bytes):
    """Bytes that are not UTF-8 text: compared as text, stored as bytes."""

    __slots__ = ()


def to_plain(value: object) -> Any:
    """Return a value as JSON that `from_plain` converts back."""
    name = _KINDS.get(type(value))
    return value if name is None else {name: _written(value)}


def from_plain(plain: Any) -> Any:
    """Return the value. Raises ValueError, TypeError or KeyError for invalid JSON."""
    if not isinstance(plain, dict):
        return plain
    ((name, text),) = plain.items()
    return _READERS[name](text)


_KINDS: dict[type, str] = {
    datetime: "datetime",
    date: "date",
    time: "time",
    Decimal: "decimal",
    UUID: "uuid",
    Bytes: "text",
    bytes: "bytes",
}
_READERS: dict[str, Any] = {
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "decimal": Decimal,
    "uuid": UUID,
    "text": lambda text: Bytes(bytes.fromhex(text)),
    "bytes": bytes.fromhex,
}


def _written(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if isinstance(value, date | time) else str(value)


def to_json(value: object) -> str:
    """Return any database value as text; equal rows give equal texts."""
    return _ENCODER.encode(value)


def _plain_or_text(value: object) -> Any:
    plain = to_plain(value)
    return str(value) if plain is value else plain


_ENCODER = json.JSONEncoder(
    default=_plain_or_text, ensure_ascii=False, separators=(",", ":")
)


def shown(value: object) -> str:
    """Return a value in a readable form."""
    if isinstance(value, bytes):
        return f"x'{value.hex()}'" if len(value) <= 64 else f"{len(value)} bytes"
    return str(value)


def latest(value: object, zone: tzinfo, name: str) -> datetime:
    """Return the latest time in UTC that a value of `changed_at` can mean.

    When the clock is set back an hour comes twice; this is the second one.
    """
    try:
        found = _moment(value, zone)
        if found.tzinfo is not None:
            return found.astimezone(UTC)
        return max(found.replace(tzinfo=zone, fold=n).astimezone(UTC) for n in (0, 1))
    except NOT_A_TIME:
        raise Unusable(f"{name} is not a time: {shown(value)!r}") from None


def earlier(value: object, seconds: float) -> Any:
    """Return a value of the same type and format, so many seconds earlier.

    None if no earlier value can be written. The result may be up to a second earlier
    still, or up to a day for a date.
    """
    try:
        if isinstance(value, str):
            return _earlier_text(value, seconds)
        if isinstance(value, datetime):
            return value - timedelta(seconds=seconds)
        if isinstance(value, date):
            return value - timedelta(seconds=seconds) - _DAY
        if isinstance(value, int | float | Decimal):
            return _earlier_number(value, seconds)
    except (ValueError, OverflowError, ArithmeticError):
        pass
    return None


def _earlier_text(text: str, seconds: float) -> str | None:
    """Return a text that sorts before the texts of the time."""
    if not _SORTABLE.match(text):
        return None
    found = parse_time(text[:_TO_SECOND]) - timedelta(seconds=seconds)
    return found.isoformat(sep=text[10:11] or " ", timespec="seconds")[: len(text)]


def _earlier_number(number: Any, seconds: float) -> Any:
    factor = 1_000 if abs(number) >= MILLISECONDS_FROM else 1
    return number - type(number)(math.ceil(seconds * factor))


def is_long_before(value: object, moment: datetime) -> bool:
    """Return True if a time is certainly before a moment, in any zone.

    No two zones are a day apart.
    """
    if isinstance(value, str):
        try:
            value = parse_time(value)
        except ValueError:
            return False
    if not isinstance(value, datetime) or value.year == 1:
        return False
    own = value if value.tzinfo else value.replace(tzinfo=UTC)
    return own < moment - _DAY


def _moment(value: object, zone: tzinfo) -> datetime:
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=zone)
    if isinstance(value, int | float | Decimal):
        return since_1970(value)
    return parse_time(str(value))
