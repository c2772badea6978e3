"""What couriers tell of parcels that the mirror knows."""

from __future__ import annotations

from msgspec import Struct


class Parcel(Struct, frozen=True):
    """A parcel of an order, and what the order is called."""

    id: str
    order_id: str
    order_name: str
    order_number: int | None
    order_external_id: str | None
    is_cancelled: bool
