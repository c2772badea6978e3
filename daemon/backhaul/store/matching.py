"""What turns a record into a command: both, and what is looked up for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from backhaul.core.lifecycle import State
    from backhaul.core.stock import ListedLevel
    from backhaul.store.mirror import (
        OrderParcel,
        OrderSummary,
        Parcel,
        ReportedShipment,
    )


class NewCommand(Struct, frozen=True):
    """A command to be planned. `payload` is what will be asked, as plain JSON."""

    id: str
    kind: str
    target: str
    lane: str
    payload: dict[str, Any]


class Command(Struct, frozen=True):
    """A command as the dispatcher sees it."""

    seq: int
    id: str
    store: str
    kind: str
    target: str
    lane: str
    state: State
    payload: dict[str, Any]
    attempts: int
    failures: int
    instance: str

    @property
    def number_only(self) -> bool:
        """Whether it sends a tracking number for an order that is shipped whole."""
        return bool(self.payload.get("number_only"))


class WaitingRecord(NamedTuple):
    """A record whose order or product is not matched yet."""

    id: int
    instance: str
    store: str
    key: str
    payload: bytes
    locator: str
    received_at: str


class MatchReader(Protocol):
    """What matching asks of the mirror."""

    def orders_called(self, store: str, name: str) -> list[OrderSummary]:
        """Return the orders with this number (`1001`, `#1001`), external id or id."""
        ...

    def order(self, store: str, order_id: str) -> OrderSummary | None:
        """Return one order by its platform id."""
        ...

    def variants_with_sku(self, store: str, sku: str) -> list[tuple[str, str]]:
        """Return (product id, variant id) of every variant with the SKU or GTIN."""
        ...

    def articles_called(self, store: str, name: str) -> list[tuple[str, str | None]]:
        """Return (variant id, SKU) of every variant with this SKU or GTIN today."""
        ...

    def parcels_tracked(self, store: str, number: str) -> list[Parcel]:
        """Return the parcels with a tracking number."""
        ...

    def skus_near(self, store: str, sku: str) -> list[str]:
        """Return other SKUs of the store that a person may take for this one."""
        ...

    def levels_listed(
        self, record: WaitingRecord, variant: str, as_of: str, listed_at: str
    ) -> list[ListedLevel]:
        """Return the other targets of a variant from the list of this record."""
        ...

    def hold(self, command: Command) -> Hold | None:
        """Return why an operator has to decide about a fulfill or cancel, or None."""
        ...

    def shipments_reported(
        self, store: str, order_id: str, record: int
    ) -> list[ReportedShipment]:
        """Return the shipments of an order, the first first, without this record."""
        ...

    def open_units(self, store: str, order_id: str) -> int:
        """Return how many units of an order the mirror shows as not shipped."""
        ...

    def parcels_of(self, store: str, order_id: str) -> list[OrderParcel]:
        """Return the parcels of an order that the store shows."""
        ...

    def overtaken(self, command: Command) -> str | None:
        """Say why an adjustment is not to be sent after all: a count has overtaken it.

        A count that did not know of it, and is not made true yet, is done anew.
        """
        ...


class Hold(Struct, frozen=True):
    """Why an operator has to decide about a command before it is sent.

    `payload` is what can be asked for instead without harm, None where nothing can.
    """

    reason: str
    payload: dict[str, Any] | None = None
