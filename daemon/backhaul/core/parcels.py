"""What a parcel holds, against the lines that were asked for."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def holds(items: object, lines: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether a parcel can be the one for `lines`; what it does not say fits.

    `items` are the platform's: `lineItemId` and `quantity`; `lines` a command's:
    `line_id` and `quantity`, none where it takes all.
    """
    if not lines or not isinstance(items, list):
        return True
    parts = [item for item in items if isinstance(item, dict) and "lineItemId" in item]
    said = [(str(part["lineItemId"]), _units(part.get("quantity"))) for part in parts]
    wanted = [(line.get("line_id"), line.get("quantity")) for line in lines]
    same = len(said) == len(wanted) and all(line in said for line in wanted)
    return same or len(said) < len(items)


def _units(quantity: object) -> object:
    """Return a number of units as an int, whichever way the platform writes it."""
    try:
        number = Decimal(str(quantity).strip())
        return int(number) if number == int(number) else quantity
    except (ArithmeticError, ValueError):
        return quantity
