"""Records and commands, and the reads of the mirror that match the two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from backhaul.core.lifecycle import State
    from backhaul.core.stock import ListedLevel
    from backhaul.store.mappings import UsedMapping
    from backhaul.store.mirror import (
        OrderParcel,
        OrderSummary,
        Parcel,
        ReportedShipment,
    )


class NewCommand(Struct, frozen=True):
    """A command to plan. `payload` is the JSON document of its request."""

    id: str
    kind: str
    target: str
    lane: str
    payload: dict[str, Any]


class NewTarget(Struct, frozen=True):
    """A stock target to add: a stock count, matched to its variant.

    `listed_at` is when its list was written; empty if that is not known.
    """

    id: str
    product_id: str
    variant_id: str
    quantity: int
    as_of: str
    listed_at: str = ""


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
    created_at: str = ""
    traceparent: str | None = None
    """The span from which its trace goes on."""

    @property
    def number_only(self) -> bool:
        """Return True if it only adds a tracking number to a fulfilled order."""
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
    traceparent: str | None = None


class MatchReader(Protocol):
    """Reads the mirror for matching and sending, inside one transaction."""

    def orders_named(self, store: str, name: str) -> list[OrderSummary]:
        """Return the orders with this number, name, external id or id.

        Numbers and names match with and without their `#`: `1001`, `#1001`.
        """
        ...

    def order(self, store: str, order_id: str) -> OrderSummary | None:
        """Return one order by its platform id."""
        ...

    def variants_with_sku(self, store: str, sku: str) -> list[tuple[str, str]]:
        """Return (product id, variant id) of every variant with the SKU or GTIN.

        If there is none, these are the variants of the SKU that a mapping gives.
        """
        ...

    def variants_named(
        self, store: str, name: str, *, mapped: bool = True
    ) -> list[tuple[str, str | None]]:
        """Return (variant id, SKU) of every variant with this SKU or GTIN now.

        If there is none, these are the variants of the SKU that a mapping gives the
        name, as in `variants_with_sku`, unless `mapped` is False.
        """
        ...

    def carrier_named(self, store: str, name: str) -> str:
        """Return the carrier's name that a mapping gives, else the name itself."""
        ...

    @property
    def used_mappings(self) -> tuple[UsedMapping, ...]:
        """The mappings that this reader has used, in the order of their use."""
        ...

    def parcels_with_number(self, store: str, number: str) -> list[Parcel]:
        """Return the parcels with a tracking number."""
        ...

    def similar_skus(self, store: str, sku: str) -> list[str]:
        """Return up to 20 other SKUs of the store that look like this one."""
        ...

    def levels_listed(
        self, record: WaitingRecord, variant: str, as_of: str, listed_at: str
    ) -> list[ListedLevel]:
        """Return the other stock targets of a variant from the list of this record."""
        ...

    def hold(self, command: Command) -> Hold | None:
        """Return why an operator must decide about a command, or None.

        None also if an operator has accepted the same reason.
        """
        ...

    def reported_shipments(
        self, store: str, order_id: str, record: int
    ) -> list[ReportedShipment]:
        """Return the shipments of an order, oldest first, except this record."""
        ...

    def open_units(self, store: str, order_id: str) -> int:
        """Return how many units of an order the mirror shows as not shipped."""
        ...

    def parcels_of(self, store: str, order_id: str) -> list[OrderParcel]:
        """Return the parcels of an order that the mirror shows."""
        ...

    def supersede_reason(self, command: Command) -> str | None:
        """Return why an adjustment must not be sent, or None.

        The reason is a newer stock count. A count without the adjustment that is not
        applied yet is calculated again.
        """
        ...


class Hold(Struct, frozen=True):
    """Why an operator must decide about a command before it is sent.

    `payload` is the payload that can be sent instead without harm, or None.
    """

    reason: str
    payload: dict[str, Any] | None = None
