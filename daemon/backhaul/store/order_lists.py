"""Lists of orders as a shop knows them: tabs, and pages by the time of the order."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class OrderTab(StrEnum):
    """Which orders are listed, of those that the mirror has."""

    ALL = "all"
    UNFULFILLED = "unfulfilled"
    PARTIALLY = "partially"
    FULFILLED = "fulfilled"
    CANCELLED = "cancelled"
    WAITING = "waiting"
    """Orders with an open or parked command, an incident, or an unreadable event."""


class OrderPlace(Struct, frozen=True):
    """The place of an order in a list; `placed_at` is empty if it is unknown."""

    placed_at: str
    store: str
    id: str

    def __str__(self) -> str:
        """Return the place as one text."""
        return f"{self.placed_at} {self.store} {self.id}"

    @classmethod
    def of(cls, text: str | None) -> OrderPlace | None:
        """Return the place that a text names, or None."""
        parts = (text or "").split(" ", 2)
        return cls(*parts) if len(parts) == len(cls.__struct_fields__) else None


class ListedOrder(Struct, frozen=True):
    """An order in a list, with the platform's words for its states.

    `waiting` counts its open and parked commands. The total is in minor units.
    """

    store: str
    id: str
    name: str
    placed_at: str | None
    status: str
    financial_status: str | None
    fulfillment_status: str | None
    cancelled_at: str | None
    total_minor: int | None
    currency: str | None
    customer_id: str | None
    customer: str | None
    waiting: int

    @property
    def place(self) -> OrderPlace:
        """The place of the order in its list."""
        return OrderPlace(self.placed_at or "", self.store, self.id)


class Parcel(Struct, frozen=True):
    """A parcel of an order, as the platform shows it."""

    id: str
    tracking_company: str | None
    tracking_number: str | None
    shipped_at: str | None
