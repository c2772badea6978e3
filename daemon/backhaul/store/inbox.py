"""Inbound events: the inbox, folding, reprocessing and the refetch queue."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol, TypeAlias

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
    """A new row of the inbox: the exact bytes, and how they arrived.

    `kind` is `delivery` (a webhook) or `read` (a read of the platform; `received_at` is
    then the start of the read). `headers` is a JSON object. `traceparent` names the
    span that appends the event, None without a trace. `digest` is that of the body as
    it arrived; None for a new event, whose digest is computed when it is stored.
    """

    store: str
    kind: str
    topic: str
    received_at: str
    headers: bytes
    body: bytes
    traceparent: str | None = None
    digest: bytes | None = None


class StoredEvent(Struct, frozen=True, gc=False):
    """A row of the inbox."""

    id: int
    store: str
    kind: str
    topic: str
    received_at: str
    body: bytes
    digest: bytes | None = None
    """Of the body as it arrived."""
    traceparent: str | None = None


class Folded(Struct, frozen=True, gc=False):
    """What became of an event.

    `state` is a word of EventState. `foreign_store` is the platform's id of the store
    that the event belongs to, if that is another store. `notes` name the members that
    were left out or rounded.
    """

    state: str
    topic: str
    event_id: str | None = None
    kind: str | None = None
    object_id: str | None = None
    detail: str | None = None
    foreign_store: str | None = None
    notes: tuple[str, ...] = ()


class TracedEvent(NamedTuple):
    """What became of an event that belongs to a trace."""

    traceparent: str
    id: int
    store: str
    folded: Folded


class FoldReport(Struct, frozen=True):
    """One slice of folding: how many events, and whether more are waiting.

    `refetches` counts the requests for a refetch. Every event up to the id `folded_to`
    is folded. `behind_seconds` is how long the last event waited; `incomplete` are the
    events of which a member was left out. `waits` are the seconds from the arrival of
    each webhook to its fold. `traced` are the events that belong to a trace.
    """

    folded: int
    more: bool
    problems: tuple[tuple[int, Folded], ...] = ()
    refetches: int = 0
    folded_to: int = 0
    behind_seconds: float = 0.0
    incomplete: tuple[tuple[int, Folded], ...] = ()
    waits: tuple[float, ...] = ()
    traced: tuple[TracedEvent, ...] = ()


class MirrorWriter(Protocol):
    """Reads and writes the mirror inside one transaction."""

    def is_new_delivery(self, digest: bytes, event: int) -> bool:
        """Remember the digest of a webhook; return False if another event has it."""
        ...

    def current_version(self, kind: str, store: str, object_id: str) -> Version | None:
        """Return the mirrored version of a `product`, `order` or `customer`."""
        ...

    def current_level_version(self, store: str, variant_id: str) -> Version | None:
        """Return the mirrored version of a stock level."""
        ...

    def deleted_since(
        self, store: str, product_id: str, variant_id: str, updated_at: str
    ) -> bool:
        """Return True if the variant was deleted at or after `updated_at`."""
        ...

    def put_product(
        self, store: str, product: Product, currency: str, version: Version
    ) -> None:
        """Write a product and its variants; delete the variants that it lost."""
        ...

    def delete_product(self, store: str, deletion: Deletion, version: Version) -> None:
        """Leave a tombstone; delete the product's variants and levels."""
        ...

    def put_order(self, store: str, order: Order, version: Version) -> None:
        """Write an order with its lines and parcels; wake the commands on hold."""
        ...

    def put_customer(self, store: str, customer: Customer, version: Version) -> None:
        """Write a customer."""
        ...

    def put_level(self, store: str, level: Level, version: Version) -> None:
        """Write a stock level."""
        ...

    def add_moves(self, store: str, change: StockChange, event_id: str) -> bool:
        """Add a stock change to the ledger; return False if it is there already.

        `event_id` is the platform's id of the event, or empty.
        """
        ...

    def remove(self, kind: str, store: str, object_id: str, version: Version) -> None:
        """Delete an `order` or `customer` from the mirror; leave a tombstone."""
        ...

    def confirm(self, kind: str, store: str, object_id: str, confirmed_at: str) -> None:
        """Record the start of a confirming read that left the mirrored row as it is.

        `object_id` of a `level` is its variant's id. No tombstone is confirmed: only
        confirming reads leave tombstones, and a later one replaces them.
        """
        ...

    def hold_order(
        self, store: str, order_id: str, event: int, reason: str, received_at: str
    ) -> None:
        """Hold the commands of an order, because an event of it cannot be read."""
        ...

    def release_order(self, store: str, order_id: str, event: int, began: str) -> None:
        """Release the commands of an order if this event shows its current state.

        `began` is when a confirming read began; it is empty for any other event.
        """
        ...

    def remove_tombstone(self, kind: str, store: str, object_id: str) -> None:
        """Delete the tombstone of an object that was written again."""
        ...

    def has_erased_customers(self) -> bool:
        """Return True if any customer was erased."""
        ...

    def is_erased(
        self, store: str, customer_id: str | None, address: bytes | None
    ) -> bool:
        """Return True if a customer was erased, by id or by digest of the e-mail."""
        ...

    def replace_body(self, event: int, body: bytes) -> None:
        """Replace the body of an event by one without the customer's data."""
        ...

    def add_change(
        self, store: str, kind: str, object_id: str, change: str, event: int
    ) -> None:
        """Add a row to the change feed, with the connection that caused the change."""
        ...

    def record_effects(
        self, store: str, lane: str, effects: Sequence[str], event: int
    ) -> list[str]:
        """Record the effects an event shows. The first event to show ours is the echo.

        An effect is the id of an adjustment or parcel, or a cancellation's identity.
        Returns the effects that are, or may be, ours and that no event showed before.
        """
        ...

    def mark_shared_change(self, event: int) -> None:
        """Record that an event shows a foreign change too, so it is no pure echo."""
        ...

    def order_document(self, store: str, object_id: str) -> dict[str, Any]:
        """Return the document of an order; it is empty if the order is unknown."""
        ...

    def enqueue_refetch(
        self,
        store: str,
        kind: str,
        object_id: str,
        reason: str,
        event: int,
        *,
        rest_seconds: float,
    ) -> None:
        """Queue a refetch of a `product`, `order`, `customer` or a product's `level`.

        An object that is in the queue already stays in it, with a new request.
        """
        ...


class Concerned(Struct, frozen=True, gc=False):
    """The rows that the fold of an event reads, as far as its body names them.

    A slice reads these rows for all its events at once. A row that is not named here is
    read when it is needed.

    `object_id` of a `level` is its product's id. `effects` belong to the ordering key
    of the object. A webhook has a `digest`, which identifies the delivery.
    """

    event: int
    store: str
    digest: bytes | None
    kind: str = ""
    object_id: str = ""
    variants: tuple[str, ...] = ()
    effects: tuple[str, ...] = ()
    change: StockChange | None = None


class Decoded(Struct, frozen=True, gc=False):
    """A decoded event: what folds it, and the rows that the fold reads."""

    fold: Callable[[MirrorWriter], Folded]
    concerned: Concerned | None = None


FoldOne: TypeAlias = "Callable[[StoredEvent], Decoded]"
"""Decodes an event without the mirror, so that the rows of many events can be read."""


class Appending(Protocol):
    """What events are appended to."""

    def append(self, arrival: Arrival) -> Awaitable[int]:
        """Append an event; resolve with its id once it is durable. May raise Busy."""
        ...


class Spool(Appending, Protocol):
    """Events on the disk of this machine, which wait for the database.

    `start` and `stop` may be called twice.
    """

    def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def watch(self) -> NoReturn:
        """Raise WriterFailed when nothing can be written any more."""
        ...

    async def size(self) -> int:
        """Return how many events there are. Raises ReadFailed."""
        ...

    async def newest(self) -> int:
        """Return the highest id, 0 if there is no event. Raises ReadFailed."""
        ...

    async def oldest(self, after: int = 0) -> Sequence[tuple[int, Arrival]]:
        """Return the next events after an id, in their order. Raises ReadFailed."""
        ...

    async def remove(self, last: int) -> None:
        """Remove the events up to this id. May raise Busy."""
        ...

    async def clear(self) -> bool:
        """Clear the bytes of removed events from the file and its log. May raise Busy.

        Returns False if a program that reads the file prevents that.
        """
        ...


class Inbox(Appending, Protocol):
    """Events, appended once and folded in order of arrival."""

    async def newest(self) -> int:
        """Return the highest id, 0 if the inbox is empty. May raise Busy."""
        ...

    async def fold(self, fold_one: FoldOne, slice_seconds: float) -> FoldReport:
        """Fold for about `slice_seconds`, in one transaction with the fold cursor."""
        ...


CONFIRMING = ("/reread", "/gone")
"""How the topics of reads end that were made to resolve a conflict."""


class EventState(StrEnum):
    """The state of an event; `received` until it is folded."""

    RECEIVED = "received"
    FOLDED = "folded"
    DUPLICATE = "duplicate"
    STALE = "stale"
    UNHANDLED = "unhandled"
    QUARANTINED = "quarantined"


class Selection(Struct, frozen=True):
    """The stored events to reprocess: all, or those that match every filter.

    `since` is the earliest time of arrival.
    """

    ids: tuple[int, ...] = ()
    state: str | None = None
    since: str | None = None

    def in_words(self) -> str:
        """Describe the selection for the audit log."""
        parts = [", ".join(map(str, self.ids)), self.state]
        parts.append(f"since {self.since}" if self.since else None)
        return "; ".join(filter(None, parts)) or "all"


class ReprocessReport(Struct, frozen=True):
    """One slice of reprocessing.

    `last` is the id after which to continue, or None at the end. `states` holds the new
    state of each event.
    """

    last: int | None
    states: tuple[str, ...]
    problems: tuple[tuple[int, Folded], ...]
    refetches: int


class Reprocessing(Protocol):
    """Folds stored events again."""

    async def reprocess(
        self,
        fold_one: FoldOne,
        selection: Selection,
        after: int,
        slice_seconds: float,
        *,
        confirming: bool,
    ) -> ReprocessReport:
        """Fold selected events after the id `after` again, for about `slice_seconds`.

        With `confirming` these are the reads that were made to resolve a conflict, else
        all other events. After those reads, the other events lead to the same mirror in
        any order.

        An event that changes nothing now keeps its state of before. An event that can
        be folded leaves quarantine. Events after the fold cursor, and events whose body
        was erased, are skipped. May raise Busy.
        """
        ...


LONGEST_REST_SECONDS = 300.0
"""No refetch is postponed by more; a refetch that is due later is due now."""


class Refetch(Struct, frozen=True):
    """An object to refetch, and why.

    `kind` is `product`, `order`, `customer` or `level` (all levels of the product with
    that id). `asks` counts the requests, which shows that a request came meanwhile.
    """

    store: str
    kind: str
    object_id: str
    reason: str
    asked_at: str
    asks: int
    failures: int


class RefetchQueue(Protocol):
    """The objects to refetch, each of them once. All methods may raise Busy."""

    async def enqueue(self, store: str, kind: str, object_id: str, reason: str) -> None:
        """Queue a refetch of an object, durably."""
        ...

    async def enqueue_parents(self, store: str) -> bool:
        """Queue a refetch of each unknown object that a recent change refers to.

        That is the customer of an order and the product of a level, unless the mirror
        knows that it was deleted. Return True if there was any.
        """
        ...

    async def next(self, store: str, limit: int) -> list[Refetch]:
        """Return the refetches that are due, the earliest first."""
        ...

    async def next_due(self, store: str) -> str | None:
        """Return when the next refetch is due, None if the queue is empty.

        That time may be in the past.
        """
        ...

    async def done(self, refetch: Refetch) -> None:
        """Remove a refetch, unless it was requested again since `next` returned it.

        Call this after the object is durable in the inbox, never before.
        """
        ...

    async def postpone(self, refetch: Refetch, due_at: str) -> None:
        """Count a failure, and set when the refetch is due again."""
        ...


class UnreadableOrder(Struct, frozen=True):
    """An order that an unreadable event names; its commands wait for a refetch.

    `name` is the order's name in the mirror or its id, `event` the last event that
    could not be read, and `row` that event's row in quarantine. `commands` counts the
    planned commands.
    """

    store: str
    order_id: str
    name: str
    event: int
    reason: str
    since: str
    row: int | None
    commands: int
