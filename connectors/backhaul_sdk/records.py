"""The records that a connector submits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

RecordKind: TypeAlias = Literal["fulfill", "cancel", "adjust", "level", "track"]
"""The kinds of records that an operator can make of a bad row."""


class Line(Struct, frozen=True, kw_only=True):
    """A line of a shipment: `quantity` (≥ 1) units of the order line with `sku`.

    `sku` is the back office's name of the article: its SKU, or its GTIN as text.
    """

    sku: str
    quantity: int


class Part(Struct, frozen=True, kw_only=True):
    """One source row within a Fulfillment, such as a row of a parcel, with its `lines`.

    `key` is stable, as a record's key is: a part that another record submitted is not
    shipped again. `earlier_keys` has, for each line, the key that an older version of
    the connector may have given it; empty if none did.
    """

    key: str
    lines: tuple[Line, ...] = ()
    earlier_keys: tuple[str, ...] = ()


class Fulfillment(Struct, frozen=True, kw_only=True):
    """A shipment that left the warehouse.

    `key` is stable: the same shipment reported twice has the same key. `order` is the
    back office's reference of the order: number or name (`1001`, `#1001`), external id
    or platform id. Either `lines` list what left, or `everything` says that all units
    that were still open left. A record with neither goes to quarantine: an empty list
    never ships an order. `shipped_at` is RFC 3339. `locator` says where an operator
    finds the row (`courier.csv:7`), `raw` is the original row: both come back in a
    Rejection if the order is never found.

    `parts` are the source rows that are joined into one parcel; their lines are its
    lines. If a source has no keys of its own, its keys are derived from its content
    (`by_content`), and `beside` has the keys of all other shipments of this order that
    the source lists now: with them the host distinguishes a corrected row from a
    further parcel. A `question` is put to an operator before the shipment is sent.
    """

    key: str
    order: str
    tracking_company: str | None = None
    tracking_number: str | None = None
    lines: tuple[Line, ...] = ()
    everything: bool = False
    shipped_at: str | None = None
    parts: tuple[Part, ...] = ()
    beside: tuple[str, ...] | None = None
    by_content: bool = False
    question: str = ""
    locator: str = ""
    raw: str = ""


class Cancellation(Struct, frozen=True, kw_only=True):
    """An order that will not be delivered; `restock` returns its units to stock.

    `reason` is one of `CUSTOMER FRAUD INVENTORY DECLINED STAFF OTHER`.
    """

    key: str
    order: str
    restock: bool
    reason: str = "OTHER"
    locator: str = ""
    raw: str = ""


class StockAdjustment(Struct, frozen=True, kw_only=True):
    """A signed change of stock: `delta` units (not 0) of the variant with `sku`.

    `reason` is one of `MANUAL_ADJUSTMENT CORRECTION STOCK_COUNT RECEIVED RESTOCK
    RETURN DAMAGED SHRINKAGE PROMOTION OTHER`.
    """

    key: str
    sku: str
    delta: int
    reason: str = "MANUAL_ADJUSTMENT"
    locator: str = ""
    raw: str = ""


class StockLevel(Struct, frozen=True, kw_only=True):
    """A stock count: `quantity` (≥ 0) units of the variant with `sku`.

    `as_of` (RFC 3339) is when the back office counted, not when it sent the count:
    later sales are subtracted. `key` is stable for this count of this article.
    `listed_at` is when the list, page or file was written: of two levels with one
    `as_of` the later listed one counts, and two of one list contradict each other.
    `note` says what was changed while reading ("-2 is taken as 0").

    A row of a `full_list` is followed by the list's FullList. Levels that are submitted
    `in_order` are entries of a journal, not rows of a list: of two with one `as_of` the
    later entry counts.
    """

    key: str
    sku: str
    quantity: int
    as_of: str
    listed_at: str = ""
    note: str = ""
    full_list: bool = False
    in_order: bool = False
    locator: str = ""
    raw: str = ""


class FullList(Struct, frozen=True, kw_only=True):
    """The end of a stock list that names every article in stock: all others are at 0.

    Submit it after the list's levels, which have the same `listed_at` (RFC 3339) and
    are each part of a `full_list`, and only if every row could be used. `rows` is the
    number of rows. An operator decides in three cases: more than `absent_limit` (0 to
    1) of the articles in earlier lists of the connection would be set to 0, the list is
    empty, or an article was counted later than `counted_at` (RFC 3339), the latest
    `as_of` of the list's levels. In the last case the list may be an old one.
    """

    key: str
    listed_at: str
    rows: int
    absent_limit: float = 0.1
    counted_at: str = ""
    locator: str = ""
    raw: str = ""


class Tracking(Struct, frozen=True, kw_only=True):
    """A courier's report about a parcel: `status` is one of `TRACKING_STATUSES`.

    `key` is the courier's id of this event. `order` is our reference, if the courier
    has it. `at` (RFC 3339) is when it happened. `on_return` says what a returned parcel
    causes: `park` proposes to cancel the order, `cancel` cancels it once every parcel
    of the order came back.
    """

    key: str
    tracking_number: str
    status: str
    at: str | None = None
    tracking_company: str | None = None
    order: str | None = None
    on_return: str = "park"
    locator: str = ""
    raw: str = ""


class ReadValue(Struct, frozen=True):
    """A value of a bad row as text; `column` is its name in the source, if it has one.

    The column may also be a field or a path, as the source calls it.
    """

    text: str
    column: str = ""


class Bad(Struct, frozen=True, kw_only=True):
    """A row that cannot be used: a value, not an exception, so other rows continue.

    `raw` is the original row, `reason` a sentence for the operator who will correct it.
    The reason names the field that is wrong. If it is known, `kind` says what the row
    was meant to be, and `read` has its values by the field of that record; `sku` and
    `quantity` of a shipment are those of its line. The operator then edits them in
    place. With `can_apply` the record represents something that the connector keeps,
    such as a whole file: when an operator retries it, the host calls `Connector.apply`.
    """

    key: str
    raw: str
    reason: str
    locator: str = ""
    can_apply: bool = False
    kind: RecordKind | None = None
    read: Mapping[str, ReadValue] = {}


Record: TypeAlias = (
    Fulfillment | Cancellation | StockAdjustment | StockLevel | FullList | Tracking
)
"""Everything that a back office can report."""

TRACKING_STATUSES = (
    "announced",
    "in_transit",
    "out_for_delivery",
    "failed_attempt",
    "delivered",
    "returned",
)
"""The stages that couriers' statuses are mapped to, in order. A parcel never returns to
an earlier one."""

CANCEL_REASONS = frozenset(
    {"CUSTOMER", "FRAUD", "INVENTORY", "DECLINED", "STAFF", "OTHER"}
)
STOCK_REASONS = frozenset(
    {
        "MANUAL_ADJUSTMENT",
        "CORRECTION",
        "STOCK_COUNT",
        "RECEIVED",
        "RESTOCK",
        "RETURN",
        "DAMAGED",
        "SHRINKAGE",
        "PROMOTION",
        "OTHER",
    }
)
MAX_LEVEL = 1_000_000_000
"""Largest plausible stock level: a larger number is an article number or a mistake."""
MAX_DELTA = 1_000_000
"""Largest adjustment, up or down (platform contract 1.1)."""
