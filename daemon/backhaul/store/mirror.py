"""What reconciliation asks of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backhaul.core.fold import Drift, Version


class Progress(Struct, frozen=True):
    """A walk over one list of one store, as far as it has come.

    `page` is the last one whose rows are durable, 0 before the first; `total` is how
    many rows the list had then, where the platform tells.
    """

    sweep: int
    began_at: str
    page: int = 0
    total: int | None = None
    read: int = 0


class Sweep(Struct, frozen=True):
    """One walk that has ended, or is under way (`ended_at` is None)."""

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
    alien: int
    unrepaired: int
    note: str

    @property
    def found(self) -> int:
        """How many rows were not as the platform has them."""
        return self.missed + self.stale + self.deleted + self.alien


class Sweeps(Protocol):
    """Walks over the platform's lists: progress that survives, and what they found."""

    async def begin(self, store: str, job: str, kind: str) -> Progress:
        """Begin a walk, or go on with the one that has not ended."""
        ...

    async def advance(
        self,
        progress: Progress,
        seen: Sequence[str],
        drift: Mapping[Drift, int],
        events: Sequence[int] = (),
    ) -> None:
        """Keep that the rows up to `progress.page` are durable, and which they were.

        `events` are those by which the walk handed rows in.
        """
        ...

    async def end(self, sweep: int, unrepaired: int, note: str = "") -> Sweep:
        """End a walk; a clean incremental one leaves no row behind."""
        ...

    async def open_doubts(self, store: str, kind: str) -> list[tuple[str, str]]:
        """Return the (kind, id) of everything of a kind that is in doubt now."""
        ...

    async def pending_rereads(
        self, store: str, objects: Sequence[tuple[str, str]]
    ) -> list[tuple[str, str]]:
        """Return which of these (kind, id) are still to be read again."""
        ...


class Look(Protocol):
    """What the mirror holds, read beside the writer."""

    async def versions(
        self, kind: str, store: str, ids: Sequence[str]
    ) -> dict[str, Version]:
        """Return the versions held of `product`, `order`, `customer` or `level`."""
        ...

    async def forgets(
        self, store: str, customer_id: str | None, address: bytes | None
    ) -> bool:
        """Tell whether a person is to be forgotten, by id or digest of the e-mail."""
        ...

    async def unseen(self, kind: str, store: str, sweep: int) -> list[tuple[str, str]]:
        """Return (id, product id or id) of what is held but was not seen in a walk."""
        ...

    async def all_seen(
        self, kind: str, store: str, sweep: int, ids: Sequence[str]
    ) -> bool:
        """Tell whether a walk saw each of these."""
        ...

    async def handed_in(self, sweep: int, after: int) -> list[tuple[int, bytes]]:
        """Return (event, body) of what an open walk handed in, beyond an event.

        The oldest come first, some at a time; a body is empty where it was erased.
        """
        ...

    async def count(self, kind: str, store: str) -> int:
        """Return how many the mirror holds that are not deleted."""
        ...

    async def unknown_moves(
        self, store: str, moves: Sequence[tuple[str, str]]
    ) -> set[tuple[str, str]]:
        """Return which (adjustment id, variant id) the ledger lacks."""
        ...

    async def sweeps(self, store: str) -> list[Sweep]:
        """Return the last ended walk of each job and kind."""
        ...


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


class Parcel(Struct, frozen=True):
    """A parcel of an order, and what the order is called."""

    id: str
    order_id: str
    order_name: str
    order_number: int | None
    order_external_id: str | None
    is_cancelled: bool
