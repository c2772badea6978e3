"""Converts database values to cursor text, and to what records need."""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

from backhaul_sdk.fields import Unusable
from backhaul_sdk.times import in_zone, parse_time

if TYPE_CHECKING:
    from datetime import tzinfo

MILLISECONDS_FROM = 1e11
"""A number of seconds above this is one of milliseconds: no clock shows year 5138."""
_DAY = timedelta(days=1)
_SORTABLE = re.compile(r"\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d(?::\d\d)?|$)")
"""How times begin that stand in the order of their texts."""
_TO_SECOND = len("2026-03-31 14:05:00")


class Bytes(bytes):
    """Text whose bytes are no letters: compared as text, kept apart as bytes."""

    __slots__ = ()


def to_plain(value: object) -> Any:
    """Return a value as JSON that `from_plain` turns into the same value again."""
    name = _KINDS.get(type(value))
    return value if name is None else {name: _written(value)}


def from_plain(plain: Any) -> Any:
    """Return the value. Raises ValueError, TypeError or KeyError for any other JSON."""
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
    """Return anything a row may hold as text; equal rows give equal texts."""
    return _ENCODER.encode(value)


def _plain_or_text(value: object) -> Any:
    plain = to_plain(value)
    return str(value) if plain is value else plain


_ENCODER = json.JSONEncoder(
    default=_plain_or_text, ensure_ascii=False, separators=(",", ":")
)


def shown(value: object) -> str:
    """Return a value for a person to read."""
    if isinstance(value, bytes):
        return f"x'{value.hex()}'" if len(value) <= 64 else f"{len(value)} bytes"
    return str(value)


def moment(value: object, zone: tzinfo, name: str) -> datetime:
    """Return a time in UTC. A number is one of seconds or milliseconds since 1970.

    Raises Unusable for a local time of the hour that clocks skip or repeat.
    """
    try:
        found = _moment(value, zone)
        return (found if found.tzinfo else in_zone(found, zone, name)).astimezone(UTC)
    except (ValueError, OverflowError, OSError, ArithmeticError):
        raise Unusable(f"{name} is no time: {shown(value)!r}") from None


def latest(value: object, zone: tzinfo, name: str) -> datetime:
    """Return in UTC when it is behind that time, whatever was done to the clock.

    Where the clock is set back a time comes twice, and this is the second.
    """
    return max(_moments(value, zone, name))


def earlier(value: object, seconds: float) -> Any:
    """Return a value of the same kind and spelling that lies so many seconds earlier.

    None for a value of which no earlier one can be written. The result may lie up to a
    second earlier still, that of a day alone up to a day.
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
    """Return a text that stands before those of the time in the order of texts."""
    if not _SORTABLE.match(text):
        return None
    found = parse_time(text[:_TO_SECOND]) - timedelta(seconds=seconds)
    return found.isoformat(sep=text[10:11] or " ", timespec="seconds")[: len(text)]


def _earlier_number(number: Any, seconds: float) -> Any:
    factor = 1_000 if abs(number) >= MILLISECONDS_FROM else 1
    return number - type(number)(math.ceil(seconds * factor))


def is_long_before(value: object, moment: datetime) -> bool:
    """Tell quickly that a time is before a moment in any zone; False if unsure.

    No zone is as far from another as a day.
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


def _moments(value: object, zone: tzinfo, name: str) -> tuple[datetime, datetime]:
    """Return what the time may mean, in UTC: twice the same but in two nights."""
    try:
        found = _moment(value, zone)
        if found.tzinfo:
            return (found.astimezone(UTC),) * 2
        first, second = (found.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
        return first.astimezone(UTC), second.astimezone(UTC)
    except (ValueError, OverflowError, OSError, ArithmeticError):
        raise Unusable(f"{name} is no time: {shown(value)!r}") from None


def _moment(value: object, zone: tzinfo) -> datetime:
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=zone)
    if isinstance(value, int | float | Decimal):
        seconds = float(value)
        milliseconds = abs(seconds) >= MILLISECONDS_FROM
        return datetime.fromtimestamp(seconds / 1e3 if milliseconds else seconds, UTC)
    return parse_time(str(value))
