"""What the rest of the program asks of a store: domain verbs, never a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from backhaul.core.fold import Version
    from backhaul.core.lifecycle import State
    from backhaul.core.resources import (
        Customer,
        Deletion,
        Level,
        Order,
        Product,
        StockChange,
    )
    from backhaul.core.stock import ListedLevel, ListEnd
    from backhaul.store.order_views import (
        OrderParcel,
        OrderSummary,
        ReportedShipment,
    )
    from backhaul.store.tracking import Parcel
    from backhaul_sdk import NameInStore


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


class NewRecord(Struct, frozen=True):
    """A record or bad row from a connector; `payload` is None for a bad row.

    A bad row that `can_apply` is one that its connector applies if an operator says so.
    """

    key: str
    payload: bytes | None
    raw: str
    reason: str
    locator: str
    can_apply: bool = False


class WaitingRecord(NamedTuple):
    """A record whose order or product is not matched yet."""

    id: int
    instance: str
    store: str
    key: str
    payload: bytes
    locator: str
    received_at: str


class NewCommand(Struct, frozen=True):
    """A command to be planned. `payload` is what will be asked, as plain JSON."""

    id: str
    kind: str
    target: str
    lane: str
    payload: dict[str, Any]


class Matched(Struct, frozen=True):
    """The record became a command; `note` says what was changed while reading it."""

    command: NewCommand
    note: str = ""


class Unmatched(Struct, frozen=True):
    """The record cannot be matched; `final` when waiting would not help.

    `withdraw` are stock targets that the record contradicts, by their command's id. One
    that `asks` is matched without this question once an operator retries it.
    """

    reason: str
    final: bool
    withdraw: tuple[str, ...] = ()
    asks: bool = False


class Known(Struct, frozen=True):
    """The record reports what is done already, maybe by this command."""

    command_id: str | None
    reason: str


class Tracked(Struct, frozen=True):
    """A record that tells how far parcels of one order got.

    `rank` is the status as a step of a ladder that leads one way. `cancel` is asked for
    once every parcel of the order came back; with `propose` it waits for a person, and
    for no other parcel.
    """

    parcels: tuple[Parcel, ...]
    tracking_number: str
    status: str
    rank: int
    at: str
    cancel: NewCommand | None = None
    propose: bool = False


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


class RecordOutcome(Struct, frozen=True):
    """What became of a record: the state and sentence of a receipt.

    `also` is what became of its other parts, where these came to different ends.
    """

    record: WaitingRecord
    state: str
    reason: str
    also: tuple[RecordOutcome, ...] = ()


MatchOne: TypeAlias = (
    "Callable[[WaitingRecord, MatchReader],"
    " Matched | Tracked | ListEnd | Known | Unmatched]"
)


class Records(Protocol):
    """Records from connectors, and their quarantine."""

    async def cursor(self, instance: str) -> str | None: ...

    async def accept(
        self,
        instance: str,
        store: str,
        records: Sequence[NewRecord],
        cursor: str | None,
        match_one: MatchOne,
    ) -> list[RecordOutcome]:
        """Store records and cursor in one transaction, planning what matches."""
        ...

    async def match(self, match_one: MatchOne, limit: int) -> list[RecordOutcome]:
        """Try the waiting records again."""
        ...

    async def look_up(self, store: str, names: Sequence[str]) -> dict[str, NameInStore]:
        """Return what each name stands for in the mirror of a store."""
        ...

    async def any_waiting(self) -> bool:
        """Tell whether a record waits, be it not to be tried yet."""
        ...

    async def unreported(self, instance: str, limit: int) -> list[QuarantinedRow]: ...

    async def mark_reported(self, ids: Sequence[int]) -> None: ...

    async def approved(self, instance: str) -> list[QuarantinedRow]: ...

    async def mark_applied(self, id_: int) -> None: ...


class QuarantinedRow(Struct, frozen=True):
    """A row set aside."""

    id: int
    key: str
    raw: str
    reason: str
    locator: str


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


class Marks(Protocol):
    """Small facts that must survive a restart, by name."""

    async def get(self, name: str) -> str | None:
        """Return the mark, or None."""
        ...

    async def put(self, name: str, value: str) -> None:
        """Set the mark, durably."""
        ...
