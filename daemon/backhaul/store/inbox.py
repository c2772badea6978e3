"""Inbound events: how they are kept and folded."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from backhaul.core.fold import Version
    from backhaul.core.resources import (
        Customer,
        Deletion,
        Level,
        Order,
        Product,
        StockChange,
    )


class Arrival(NamedTuple):
    """What is appended to the inbox, a row as it is: exact bytes, and how they came.

    `kind` is `delivery` (a webhook) or `read` (fetched by us; `received_at` is then the
    start of the read). `headers` is a JSON object.
    """

    store: str
    kind: str
    topic: str
    received_at: str
    headers: bytes
    body: bytes


class StoredEvent(Struct, frozen=True):
    """A row of the inbox."""

    id: int
    store: str
    kind: str
    topic: str
    received_at: str
    body: bytes
    digest: bytes | None = None
    """Of the body, as it was when it came in."""


class Folded(Struct, frozen=True):
    """What became of an event.

    `state` is `folded`, `duplicate`, `stale`, `unhandled` or `quarantined`; `stranger`
    is the platform's id of the store it belongs to where that is another one. `notes`
    name the members that were left out or rounded.
    """

    state: str
    topic: str
    event_id: str | None = None
    kind: str | None = None
    object_id: str | None = None
    detail: str | None = None
    stranger: str | None = None
    notes: tuple[str, ...] = ()


class FoldReport(Struct, frozen=True):
    """One slice of folding: how many events, and whether more wait.

    `doubts` tells how often a re-read was asked for; up to the id `folded_to`
    everything is folded. `behind_seconds` is how long the last event had waited;
    `incomplete` are the events of which a member was left out.
    """

    folded: int
    more: bool
    problems: tuple[tuple[int, Folded], ...] = ()
    doubts: int = 0
    folded_to: int = 0
    behind_seconds: float = 0.0
    incomplete: tuple[tuple[int, Folded], ...] = ()


class MirrorWriter(Protocol):
    """The mirror inside one transaction."""

    def first_sight(self, digest: bytes, event: int) -> bool:
        """Remember a delivery's digest; False when another event had it before."""
        ...

    def held(self, kind: str, store: str, object_id: str) -> Version | None:
        """Return the version the mirror holds of `product`, `order` or `customer`."""
        ...

    def held_level(self, store: str, variant_id: str) -> Version | None:
        """Return the version of a stock level."""
        ...

    def outlived(
        self, store: str, product_id: str, variant_id: str, updated_at: str
    ) -> bool:
        """Tell whether the variant was gone by `updated_at` or later."""
        ...

    def put_product(
        self, store: str, product: Product, currency: str, version: Version
    ) -> None: ...

    def delete_product(
        self, store: str, deletion: Deletion, version: Version
    ) -> None: ...

    def put_order(self, store: str, order: Order, version: Version) -> None: ...

    def put_customer(
        self, store: str, customer: Customer, version: Version
    ) -> None: ...

    def put_level(self, store: str, level: Level, version: Version) -> None: ...

    def add_moves(self, store: str, change: StockChange, told_by: str) -> bool:
        """Write a stock change to the ledger; False where it was known already.

        `told_by` is the platform's id of the event, empty where it gave none.
        """
        ...

    def remove(self, kind: str, store: str, object_id: str, version: Version) -> None:
        """Take an `order` or `customer` out of the mirror; a tombstone stays."""
        ...

    def confirm(self, kind: str, store: str, object_id: str, confirmed_at: str) -> None:
        """Keep that a confirming read began then, which did not replace what is held.

        A `level` goes by its variant's id.
        """
        ...

    def hold_order(
        self, store: str, order_id: str, event: int, reason: str, received_at: str
    ) -> None:
        """Let an order's commands wait: an event of it could not be read."""
        ...

    def release_order(self, store: str, order_id: str, event: int, began: str) -> None:
        """Let them leave again if this event settles what the order is.

        `began` is when a confirming read began, empty for any other event.
        """
        ...

    def revive(self, kind: str, store: str, object_id: str) -> None:
        """Forget the tombstone of an object that was written again."""
        ...

    def forgets_anyone(self) -> bool:
        """Tell whether there is anybody to be forgotten at all."""
        ...

    def forgets(
        self, store: str, customer_id: str | None, address: bytes | None
    ) -> bool:
        """Tell whether a person is to be forgotten, by id or digest of the e-mail."""
        ...

    def replace_body(self, event: int, body: bytes) -> None:
        """Keep a body without its person instead of the one that came."""
        ...

    def note_change(
        self, store: str, kind: str, object_id: str, change: str, event: int
    ) -> None:
        """Add a row to the change feed, with the instance that caused the change."""
        ...

    def hear(
        self, store: str, lane: str, effects: Sequence[str], event: int
    ) -> list[str]:
        """Note that an event shows effects; the first to show our own is its echo.

        An effect is an adjustment's id, a parcel's, or a cancellation's identity.
        Returns those that are, or may be, our own, and were not shown before.
        """
        ...

    def share(self, event: int) -> None:
        """Note that an event shows more than what is our own: all are told of it."""
        ...

    def order_document(self, store: str, object_id: str) -> dict[str, Any]:
        """Return the document of an order; empty where none is known."""
        ...

    def ask(
        self,
        store: str,
        kind: str,
        object_id: str,
        reason: str,
        event: int,
        *,
        rest_seconds: float,
    ) -> None:
        """Ask for a re-read: `product`, `order`, `customer`, or `level` of a product.

        One that is asked for already is asked for anew.
        """
        ...


FoldOne: TypeAlias = "Callable[[StoredEvent, MirrorWriter], Folded]"


class Inbox(Protocol):
    """Events: appended once, folded in order of arrival."""

    def append(self, arrival: Arrival) -> Awaitable[int]:
        """Resolve with the event's id once it is durable. May raise Busy."""
        ...

    async def newest(self) -> int:
        """Return the highest id, 0 of an empty inbox. May raise Busy."""
        ...

    async def fold(self, fold_one: FoldOne, slice_seconds: float) -> FoldReport:
        """Fold for about `slice_seconds` in one transaction with the cursor."""
        ...


CONFIRMING = ("/reread", "/gone")
"""How the topics of reads end that were made to settle a doubt."""


class EventState(StrEnum):
    """What became of an event; `received` until it is folded."""

    RECEIVED = "received"
    FOLDED = "folded"
    DUPLICATE = "duplicate"
    STALE = "stale"
    UNHANDLED = "unhandled"
    QUARANTINED = "quarantined"


class Selection(Struct, frozen=True):
    """Which stored events to fold again: all, or those to which everything applies.

    `since` is when they arrived at the earliest.
    """

    ids: tuple[int, ...] = ()
    state: str | None = None
    since: str | None = None

    def in_words(self) -> str:
        """Say which, for the audit."""
        said = [", ".join(map(str, self.ids)), self.state]
        said.append(f"since {self.since}" if self.since else None)
        return "; ".join(filter(None, said)) or "all"


class RefoldReport(Struct, frozen=True):
    """One slice of folding again; `last` is the event to go on after, None at the end.

    `states` holds what became of each event now.
    """

    last: int | None
    states: tuple[str, ...]
    problems: tuple[tuple[int, Folded], ...]
    doubts: int


class Refolds(Protocol):
    """Events that were folded before, to be folded again."""

    async def refold(
        self,
        fold_one: FoldOne,
        selection: Selection,
        after: int,
        slice_seconds: float,
        *,
        confirming: bool,
    ) -> RefoldReport:
        """Fold stored events with higher ids again. What is not folded yet waits.

        With `confirming` these are the reads that were made to settle a doubt, else all
        others. Once those are folded, the others give the same mirror in any order.

        An event that changes nothing now keeps what was said of it; quarantine is left
        by one that can be folded. Bodies that were erased are passed over.
        """
        ...


LONGEST_REST_SECONDS = 300.0
"""No object in doubt is left alone for longer; one that is due later is due now."""


class Reread(Struct, frozen=True):
    """An object in doubt: what is to be read again, and why.

    `kind` is `product`, `order`, `customer` or `level` (all levels of the product with
    that id). `asks` tells one doubt from a later one about the same object.
    """

    store: str
    kind: str
    object_id: str
    reason: str
    asked_at: str
    asks: int
    failures: int


class Rereads(Protocol):
    """The queue of objects in doubt. An object stands in it once."""

    async def ask(self, store: str, kind: str, object_id: str, reason: str) -> None:
        """Ask for an object to be read again, durably. May raise Busy."""
        ...

    async def ask_for_parents(self, store: str) -> bool:
        """Ask for what objects name that changed since, and nobody has shown yet.

        That is the customer of an order and the product of a level, unless it is known
        to be gone. Tell whether there was any.
        """
        ...

    async def next(self, store: str, limit: int) -> list[Reread]:
        """Return what is due, in the order of asking."""
        ...

    async def next_due(self, store: str) -> str | None:
        """Return when the next row is due (it may be past), None of an empty queue."""
        ...

    async def done(self, reread: Reread) -> None:
        """Remove the row, unless it was asked for again since `next` returned it.

        To be called once the answer is durable, never before.
        """
        ...

    async def postpone(self, reread: Reread, due_at: str) -> None:
        """Count a failure and let the row rest until then."""
        ...
