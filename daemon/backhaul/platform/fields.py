"""Reads one field of a platform object, as leniently as is safe."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from backhaul.core.clock import normalize, to_text
from backhaul.errors import Unusable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LARGEST = 2**63 - 1
"""The largest whole number that the database can hold."""
_WHOLE = re.compile(r"[+-]?\d{1,19}(\.0*)?", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_GROUPED = (
    (",", ".", re.compile(r"[+-]?\d{1,3}(,\d{3})+\.\d{1,30}", re.ASCII)),
    (".", ",", re.compile(r"[+-]?\d{1,3}(\.\d{3})+,\d{1,30}", re.ASCII)),
)
"""Amounts with both separators: only then is it certain which one is the decimal."""
_FLAGS = {"true": True, "false": False, "1": True, "0": False, "": False}
_EPOCH = re.compile(r"\d{10}|\d{13}", re.ASCII)
_FIRST_SECOND = 10**9
"""In 2001; numbers of seconds and milliseconds until 2286 have 10 and 13 digits."""
_SHOWN = 60

Reader: TypeAlias = "Callable[[Any], Any]"


def text(value: object) -> str:
    """Read a text; a number keeps the digits that it was written with."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return str(value)
    raise _unusable(value, "a text")


def identity(value: object) -> str:
    """Read the id of an object; an empty or blank one names nothing."""
    found = text(value)
    if not found.strip():
        raise _unusable(value, "an id")
    return found


def word(value: object) -> str:
    """Read a status: upper case, and `CANCELED` as the contract spells it."""
    found = _word(value) if isinstance(value, str) else ""
    if not found:
        raise _unusable(value, "a status")
    return found


@lru_cache(maxsize=64)  # an order has one for each line, and there are few of them
def _word(value: str) -> str:
    found = value.strip().upper()
    return "CANCELLED" if found == "CANCELED" else found


def whole(value: object) -> int:
    """Read a whole number: also `2.0`, `"2"` and `"2.0"`, never 2.5."""
    number = value
    if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        number = Decimal(value.strip())
    if isinstance(number, bool) or not isinstance(number, int | Decimal):
        raise _unusable(value, "a whole number")
    if not -LARGEST - 1 <= number <= LARGEST or number != int(number):
        raise _unusable(value, "a whole number that can be kept")
    return int(number)


def units(value: object) -> int:
    """Read how many units of an order's line; they are never below 0."""
    found = whole(value)
    if found < 0:
        raise _unusable(value, "a number of units")
    return found


def flag(value: object) -> bool:
    """Read yes or no; also as `"true"`, `"false"`, 1 and 0."""
    if isinstance(value, bool):
        return value
    shown = str(value).strip().lower() if isinstance(value, str | int) else None
    if shown not in _FLAGS:
        raise _unusable(value, "true or false")
    return _FLAGS[shown]


def time(value: object) -> str:
    """Read a time in RFC 3339, or as seconds or milliseconds since 1970."""
    if isinstance(value, str) and _EPOCH.fullmatch(value):
        value = int(value)
    try:
        if isinstance(value, str):
            return normalize(value.strip())
        return to_text(datetime.fromtimestamp(_since_1970(value), UTC))
    except ValueError:
        raise _unusable(value, "a time") from None


def _since_1970(value: object) -> float:
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        if _FIRST_SECOND <= value < 10 * _FIRST_SECOND:
            return float(value)
        if 1_000 * _FIRST_SECOND <= value < 10_000 * _FIRST_SECOND:
            return float(value) / 1_000
    raise ValueError


def money(value: object) -> Any:
    """Read an amount; what is written plainly stays as it is, to the digit.

    `1,499.00` and `1.499,00` are certain and become `1499.00`; `1,499` is not.
    """
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        plain = value.strip()
        for group, point, grouped in _GROUPED:
            if grouped.fullmatch(plain):
                return plain.replace(group, "").replace(point, ".")
        if _NUMBER.fullmatch(plain):
            return plain
    raise _unusable(value, "an amount of money")


def reference(value: object) -> dict[str, Any]:
    """Read what names another object: an object with an id, or the id alone."""
    if isinstance(value, dict):
        id_ = value.get("id")
        return value if id_ is None else {**value, "id": identity(id_)}
    return {"id": identity(value)}


def _unusable(value: object, wanted: str) -> Unusable:
    return Unusable(f"{value!r:.{_SHOWN}} is not {wanted}")


class Member(Struct, frozen=True):
    """How one member is read.

    An object without a `required` member cannot be used. An `essential` one may be
    missing or null, but not of another shape; every other member is then left out.
    `parts` are the members of the object that it holds, or of each object in its list.
    """

    read: Reader | None = None
    essential: bool = False
    required: bool = False
    parts: Mapping[str, Member] | None = None
    is_list: bool = False


Shape: TypeAlias = "Mapping[str, Member]"


def tidied(data: Mapping[str, Any], shape: Shape, notes: list[str]) -> dict[str, Any]:
    """Return the object in the contract's form; what is in it already stays as it is.

    A null member is left out. So is one that cannot be read, which adds a note. Raises
    Unusable, naming the member, where that is a required or an essential one.
    """
    return _object(data, shape, "", notes)


def _object(
    data: Mapping[str, Any], shape: Shape, path: str, notes: list[str]
) -> dict[str, Any]:
    found = dict(data)
    for name, member in shape.items():
        value, place = found.pop(name, None), f"{path}{name}"
        if value is None:
            if member.required:
                raise Unusable(f"the member {place} is missing or null")
            continue
        try:
            found[name] = _value(value, member, place, notes)
        except Unusable as error:
            if member.required or member.essential:
                raise
            notes.append(f"left out {error}")
    return found


def _value(value: object, member: Member, place: str, notes: list[str]) -> Any:
    if member.parts is not None:
        return _parts(value, member.is_list, member.parts, place, notes)
    if member.read is None:
        return value
    try:
        return member.read(value)
    except Unusable as error:
        raise Unusable(f"{place}: {error}") from None


def _parts(
    value: object, is_list: bool, parts: Shape, place: str, notes: list[str]
) -> Any:
    if not is_list:
        return _object(_dict(value, place), parts, f"{place}.", notes)
    if not isinstance(value, list):
        raise Unusable(f"{place}: {_unusable(value, 'a list')}")
    return [
        _object(_dict(one, f"{place}[{n}]"), parts, f"{place}[{n}].", notes)
        for n, one in enumerate(value)
    ]


def _dict(value: object, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Unusable(f"{place}: {_unusable(value, 'an object')}")
    return value
