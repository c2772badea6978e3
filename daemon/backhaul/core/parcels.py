"""Compares parcels with order lines; detects parcels of cancelled orders."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backhaul.core.resources import is_refunded, status_word

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from backhaul.core.resources import Order


def fits_lines(items: object, lines: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if a parcel can be the one for `lines`; missing members fit.

    `items` are the platform's, with `lineItemId` and `quantity`. `lines` are the
    command's, with `line_id` and `quantity`; no lines mean all open units.
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


_SAYS = {
    "restocked": "was cancelled with a restock, but {} left: the stock is {} too high",
    "cancelled": "was cancelled, but {} left: {} shipped for a cancelled order",
    "refunded": "was refunded, but {} left: {} shipped for a refunded order",
}


class ShipmentIncident(Struct, frozen=True):
    """A parcel of a cancelled or refunded order: its kind (a key of _SAYS), as text."""

    kind: str
    says: str

    @classmethod
    def of(
        cls,
        order: Order,
        data: Mapping[str, Any],
        payload: Mapping[str, Any],
        shipment: str | None,
    ) -> ShipmentIncident | None:
        """Return the incident of a fulfillment; None if the order is in order.

        `data` is the platform's document of the order, `payload` the command's,
        `shipment` the id of its parcel.
        """
        kind = _kind(order, data)
        if kind is None:
            return None
        number = payload.get("tracking_number")
        parcel = f"parcel {number}" if number else "a parcel"
        units = _units_in(order, data, payload, shipment)
        counted = f"{units:,} unit{'' if units == 1 else 's'}"
        says = f"order {order.name or order.id} {_SAYS[kind].format(parcel, counted)}"
        return cls(kind, says)


def _kind(order: Order, data: Mapping[str, Any]) -> str | None:
    if order.cancelled_at is not None or status_word(order.status) == "CANCELLED":
        cancellation = data.get("cancellation") or {}
        is_back = status_word(order.fulfillment_status) == "RESTOCKED"
        return "restocked" if cancellation.get("restocked") or is_back else "cancelled"
    if status_word(order.fulfillment_status) == "RESTOCKED":
        return "restocked"
    return "refunded" if is_refunded(order.financial_status) else None


def _units_in(
    order: Order,
    data: Mapping[str, Any],
    payload: Mapping[str, Any],
    shipment: str | None,
) -> int:
    """Return the units of the parcel: as requested, as shown, or all of the order."""
    if lines := payload.get("lines"):
        return sum(line["quantity"] for line in lines)
    shown = sum(_shown(data, shipment))
    return shown or sum(
        item.fulfilled_quantity or item.quantity for item in order.items
    )


def _shown(data: Mapping[str, Any], shipment: str | None) -> Iterator[int]:
    for each in data.get("shipments") or ():
        if each.get("id") == shipment:
            for item in each.get("items") or ():
                if isinstance(units := item.get("quantity"), int):
                    yield units
