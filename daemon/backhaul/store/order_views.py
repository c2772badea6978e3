"""Orders as matching sees them: what is open, reported and shown of each."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct


class ReportedShipment(NamedTuple):
    """A record of a shipment of an order, with its command that was not given up.

    `lines` are the units of each order line that the command asks for; none where it
    asks for everything that is left.
    """

    instance: str
    key: str
    locator: str
    payload: bytes
    command_id: str
    tracking_number: str | None
    lines: dict[str, int]


class OrderParcel(NamedTuple):
    """A parcel of an order in the store; `units` of each line, None if unknown."""

    number: str | None
    company: str | None
    units: dict[str, int] | None


class OpenLine(NamedTuple):
    """A line of an order: `sku` as it was ordered, `left` units not yet asked for.

    The SKU of the variant may have changed since the order was placed.
    """

    id: str
    sku: str | None
    left: int
    variant_id: str | None = None


class OrderSummary(Struct, frozen=True):
    """An order, as far as matching needs it.

    What other commands ask for is not left. `on_its_way`: there are such; `in_doubt`:
    what became of one is not known, so the mirror may show it already.
    """

    id: str
    name: str
    cancelled: bool
    items: tuple[OpenLine, ...]
    on_its_way: bool = False
    in_doubt: bool = False
