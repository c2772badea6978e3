"""What the shop floor did: orders placed, and what the back office said of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping


class Placement(Struct, frozen=True):
    """An order that a shopper was told is placed; `lines` is units by variant id."""

    order_id: str
    number: int
    lines: Mapping[str, int]


class Cause(Struct, frozen=True, kw_only=True):
    """Something the back office said, which must become one command.

    A fulfillment is known by its order and tracking number, a cancellation by its
    order, an adjustment and a count (`target`) by where they stand (`instance` and
    `locator`). `acknowledged` is whether the back office knows that it was heard.
    """

    kind: str
    instance: str
    locator: str
    order_id: str = ""
    tracking_company: str = ""
    tracking_number: str = ""
    restock: bool = True
    sku: str = ""
    delta: int = 0
    quantity: int = 0
    counted_at: str = ""
    acknowledged: bool = True

    def __str__(self) -> str:
        return f"{self.kind} by {self.instance}, {self.locator}"
