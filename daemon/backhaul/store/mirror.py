"""The mirror as syncs and matching read it, and the passes of syncs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backhaul.core.fold import Drift, Version


class Progress(Struct, frozen=True):
    """How far a pass over one list of one store has come.

    `page` is the last page whose rows are durable, 0 before the first. `total` is the
    platform's number of rows in the list, if known.
    """

    pass_id: int
    began_at: str
    page: int = 0
    total: int | None = None
    read: int = 0


class Pass(Struct, frozen=True):
    """A pass that has ended, or is under way (`ended_at` is None).

    `note` says why a list cannot be read.
    """

    id: int
    store: str
    job: str
    kind: str
    began_at: str
    ended_at: str | None
    read: int
    missed: int
    stale: int
    deleted: int
    foreign: int
    unrepaired: int
    note: str

    @property
    def found(self) -> int:
        """Return how many rows differed from the platform."""
        return self.missed + self.stale + self.deleted + self.foreign


class SyncState(Struct, frozen=True):
    """Since when a store's mirror is in sync, and by which lists.

    `kinds` has for each list the start of its last full sync that left no difference,
    or why the list cannot be read; `unread` names the lists that cannot be read.
    `as_of` is the earliest of these times, None while a list has none.
    """

    as_of: str | None
    kinds: dict[str, str | None]
    unread: list[str]


class Passes(Protocol):
    """Passes over the platform's lists: durable progress, and the differences found.

    All methods may raise Busy.
    """

    async def begin(self, store: str, job: str, kind: str) -> Progress:
        """Begin a pass, or continue the one that has not ended."""
        ...

    async def advance(
        self,
        progress: Progress,
        seen: Sequence[str],
        drift: Mapping[Drift, int],
        events: Sequence[int] = (),
    ) -> None:
        """Save the progress, the ids on its pages and the differences found there.

        `events` are the events by which the pass repaired differences.
        """
        ...

    async def end(self, pass_id: int, unrepaired: int, note: str = "") -> Pass:
        """End a pass; the row of a poll that found nothing is deleted."""
        ...

    async def open_conflicts(self, store: str, kind: str) -> list[tuple[str, str]]:
        """Return the (kind, id) of each object of a kind that waits for a refetch."""
        ...

    async def pending_refetches(
        self, store: str, objects: Sequence[tuple[str, str]]
    ) -> list[tuple[str, str]]:
        """Return which of these (kind, id) still wait for a refetch."""
        ...


class Mirror(Protocol):
    """Reads of the mirror, beside the writer. All methods may raise ReadFailed."""

    async def get(self, name: str) -> str | None:
        """Return a value of the key-value state, None if there is none."""
        ...

    async def versions(
        self, kind: str, store: str, ids: Sequence[str]
    ) -> dict[str, Version]:
        """Return the mirror's versions of `product`, `order`, `customer` or `level`."""
        ...

    async def is_erased(
        self, store: str, customer_id: str | None, address: bytes | None
    ) -> bool:
        """Return True if a customer is erased, by id or digest of the e-mail."""
        ...

    async def unseen(
        self, kind: str, store: str, pass_id: int
    ) -> list[tuple[str, str]]:
        """Return the objects of the mirror that a pass did not read.

        Each is (id, id to fetch it by), which is the product's id for a level.
        """
        ...

    async def all_seen(
        self, kind: str, store: str, pass_id: int, ids: Sequence[str]
    ) -> bool:
        """Return True if a pass read each of these."""
        ...

    async def repairs(self, pass_id: int, after: int) -> list[tuple[int, bytes]]:
        """Return (event, body) of the next repairs of a pass, after an event.

        The body is empty if it was erased.
        """
        ...

    async def count(self, kind: str, store: str) -> int:
        """Return how many objects the mirror has that are not deleted."""
        ...

    async def unknown_moves(
        self, store: str, moves: Sequence[tuple[str, str]]
    ) -> set[tuple[str, str]]:
        """Return which (adjustment id, variant id) the stock ledger lacks."""
        ...

    async def last_passes(self, store: str) -> list[Pass]:
        """Return the last pass of each job and kind that has ended."""
        ...


class UnknownStatus(Struct, frozen=True):
    """An unknown financial status; it keeps open orders from a connection.

    `orders` is their number, and `example` the name of one of them.
    """

    store: str
    status: str
    orders: int
    example: str


class ReportedShipment(NamedTuple):
    """A record of a shipment of an order, with its command that is not given up.

    `lines` has the units of each order line that the command asks for; it is empty if
    the command asks for all open units.
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
    """A line of an order. `left` is the number of units that no command asks for.

    `sku` is from the time of the order; the variant may have another one now.
    """

    id: str
    sku: str | None
    left: int
    variant_id: str | None = None


class OrderSummary(Struct, frozen=True):
    """The part of an order that matching needs.

    `in_progress`: other commands ask for units of it, which `items` leave out.
    `uncertain`: the outcome of such a command is unknown, so the mirror may show its
    units as shipped already.
    """

    id: str
    name: str
    cancelled: bool
    items: tuple[OpenLine, ...]
    in_progress: bool = False
    uncertain: bool = False

    @property
    def open_units(self) -> dict[str, int]:
        """The units that no command asks for, by SKU, of all lines with a SKU."""
        units: dict[str, int] = {}
        for line in self.items:
            if line.left > 0 and line.sku:
                units[line.sku] = units.get(line.sku, 0) + line.left
        return units


class Parcel(Struct, frozen=True):
    """A parcel, and the names of its order."""

    id: str
    order_id: str
    order_name: str
    order_number: int | None
    order_external_id: str | None
    is_cancelled: bool


class Difference(Struct, frozen=True):
    """A value that differs between two mirrors.

    If one mirror lacks the row, `column` is empty and its side is None.
    """

    table: str
    store: str
    id: str
    column: str
    left: object
    right: object
