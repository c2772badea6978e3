"""What `Reader` returns: rows of lists, single objects, and figures for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence  # noqa: TC003 - shapes are made of them
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from backhaul.store.inbox import UnreadableOrder
    from backhaul.store.mirror import UnknownStatus


class ListedEvent(Struct, frozen=True):
    """An event in a list; `about` is the name of its object, None if unknown."""

    id: int
    received_at: str
    store: str
    source: str
    topic: str
    state: str
    kind: str | None
    object_id: str | None
    about: str | None
    detail: str | None


class EventDetail(Struct, frozen=True):
    """One event; `body` and `headers` are empty after retention erased them."""

    id: int
    store: str
    topic: str
    event_id: str | None
    received_at: str
    state: str
    body: bytes
    headers: bytes
    source: str
    kind: str | None
    object_id: str | None
    detail: str | None
    folded_at: str | None
    erased_at: str | None
    erased_by: str | None


class OpenIncident(Struct, frozen=True):
    """An incident that no operator has resolved."""

    id: int
    store: str
    order_id: str
    command_id: str
    at: str
    says: str


class ListedQuarantine(Struct, frozen=True):
    """A row of the quarantine; `about` is its object's kind and name, if known.

    `kind` is that of the record, or of the event's object; None if it is unknown.
    `store` is empty if the record is gone.
    """

    id: int
    at: str
    source: str
    name: str
    locator: str
    reason: str
    reason_class: str
    subject: str
    about: str
    state: str
    kind: str | None
    store: str


class QuarantineDetail(Struct, frozen=True):
    """One row of the quarantine; `payload` and `store` are its record's, if any.

    `raw` is the body of an event, or the text of a record's row. `command_id` and
    `record_state` say what became of the record since.
    """

    id: int
    source: str
    name: str
    key: str
    raw: str | bytes
    reason: str
    locator: str
    state: str
    at: str
    reported: int
    payload: str | None
    store: str | None
    reason_class: str
    subject: str
    command_id: str | None = None
    record_state: str | None = None


class NearMatch(Struct, frozen=True):
    """A SKU, order or carrier that a name may mean.

    `title` and `detail` say for people what it is: the product and its stock.
    """

    name: str
    title: str
    detail: str


class ListedDelivery(Struct, frozen=True):
    """A delivery; `at` is when it was resolved, sent or created."""

    seq: int
    at: str
    instance: str
    topic: str
    about: str
    state: str
    reason: str
    attempts: int
    object_id: str
    id: str
    reference: str | None
    created_at: str
    due_at: str
    sent_at: str | None
    settled_at: str | None
    store: str


class DeliveryAttempt(Struct, frozen=True):
    """An attempt of a delivery, or a check (`kind`); `state` is the one after it."""

    kind: str
    number: int
    started_at: str | None
    finished_at: str
    state: str
    reason: str


class DeliveryDetail(Struct, frozen=True):
    """One delivery with its attempts.

    `document` is what would be delivered now; None if there is nothing to deliver.
    """

    row: ListedDelivery
    attempts: Sequence[DeliveryAttempt]
    document: dict[str, Any] | None


class ListedRecord(Struct, frozen=True):
    """A record of a connection."""

    received_at: str
    key: str
    state: str
    reason: str
    command_id: str | None
    locator: str
    payload: str


class ListedWaitingRecord(Struct, frozen=True):
    """A record that waits for its order or SKU; `retry_at` is its next try.

    `kind` is None if the record is damaged.
    """

    id: int
    received_at: str
    store: str
    instance: str
    kind: str | None
    locator: str
    reason: str
    retry_at: str
    key: str


class JobStatus(Struct, frozen=True):
    """The state of a scheduled job, with its last run."""

    job: str
    store: str
    plan: str
    since: str
    paused_at: str | None
    trigger: str | None
    due_at: str | None
    started_at: str | None
    ended_at: str | None
    outcome: str | None
    detail: str | None
    seen: int


class ListedRun(Struct, frozen=True):
    """One run of a job."""

    id: int
    job: str
    store: str
    trigger: str
    due_at: str
    started_at: str
    ended_at: str | None
    outcome: str
    detail: str


class ListedAuditEntry(Struct, frozen=True):
    """An entry of the audit log; the states are those of a command."""

    id: int
    at: str
    who: str
    action: str
    detail: str
    command_id: str | None
    state_before: str | None
    state_after: str | None


class ListedSecret(Struct, frozen=True):
    """A webhook secret: its fingerprint, and whether it is accepted."""

    store: str
    fingerprint: str
    state: str
    last_used_at: str | None
    known_since: str
    dropped_at: str | None
    source: str


class ListedUser(Struct, frozen=True):
    """A user of the dashboard, without the password."""

    name: str
    role: str
    last_login_at: str | None
    created_at: str
    login: str
    """`password`, or `oidc` for a user of the identity provider."""
    second_factor: bool
    disabled_at: str | None


class FoundObject(Struct, frozen=True):
    """An object; `facts` has what its kind has beyond these, by name."""

    name: str
    store: str
    id: str
    facts: Mapping[str, Any]


class OrderLine(Struct, frozen=True):
    """A line of an order."""

    sku: str | None
    title: str | None
    quantity: int
    fulfilled_quantity: int
    product_id: str | None
    variant_id: str | None
    unit_price_minor: int | None


class ListedLevel(Struct, frozen=True):
    """The stock of a variant at the platform; `since` is when it last changed."""

    store: str
    sku: str | None
    product: str | None
    variant: str | None
    stock: int
    since: str
    barcode: str | None
    product_id: str
    variant_id: str


class ListedVariant(Struct, frozen=True):
    """A variant of a product."""

    id: str
    sku: str | None
    title: str | None
    barcode: str | None
    stock: int | None
    price_minor: int | None
    currency: str | None


class TimelineEntry(Struct, frozen=True):
    """One entry of an object's history; `turn` orders entries of the same time."""

    at: str | None
    what: str
    name: str | None
    state: str | None
    detail: str | None
    body: bytes | None
    turn: int


RANKED = 1_000
"""Most matches of a search that are ranked: to rank a million takes seconds."""


class SearchHit(Struct, frozen=True):
    """An object that a search found; `found` is where the words are."""

    kind: str | None
    store: str
    id: str
    title: str
    found: str


class ChangedObject(Struct, frozen=True):
    """An object of the mirror, and its last change."""

    change: int
    kind: str
    store: str
    id: str
    title: str


class RecentChange(Struct, frozen=True):
    """An object that changed lately, and its state now; `type` is its kind.

    `number` increases in its table. While `is_open` is 1, the object changes without a
    new number. The type is empty for a number that is about nothing else.
    """

    number: int
    type: str
    id: str
    store: str
    state: str
    is_open: int


class Counts(Struct, frozen=True):
    """The backlog, and what needs an operator.

    `to_fold` are events, `in_doubt` objects to refetch. `commands` counts by state;
    `counts_held` of those that are planned are stock counts on hold after a restore.
    `unknown_topics` counts the unhandled events of the last hour by topic.
    """

    events: int
    to_fold: int
    in_doubt: int
    last_event_at: str | None
    orders: int
    products: int
    waiting_records: int
    quarantined: int
    counts_held: int
    commands: Mapping[str, int]
    unreadable_orders: Sequence[UnreadableOrder]
    incidents: Sequence[OpenIncident]
    unknown_statuses: Sequence[UnknownStatus]
    unknown_topics: Mapping[str, int]


class StoreFigures(Struct, frozen=True):
    """The last webhook of a store, and its events to fold since `oldest_at`."""

    last_webhook_at: str | None
    to_fold: int
    oldest_at: str | None


class ConnectionFigures(Struct, frozen=True):
    """The last record of a connection, and what waits for an operator."""

    last_record_at: str | None
    quarantined: int
    deliveries_parked: int


class Overview(Struct, frozen=True):
    """The figures of each store and connection, and of the oldest planned command."""

    stores: Mapping[str, StoreFigures]
    connectors: Mapping[str, ConnectionFigures]
    oldest_planned_at: str | None


class ConfirmationTimes(Struct, frozen=True):
    """The times from a request to its echo in the last hour."""

    number: int
    median_seconds: float | None = None
    p99_seconds: float | None = None
