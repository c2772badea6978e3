"""Applies one event to the mirror: a table from webhook topic to handler."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeAlias

from backhaul.core.identity import digest_of, is_intact
from backhaul.core.webhook import Envelope, open_envelope, topic_of
from backhaul.errors import Unreadable, Unusable
from backhaul.ingest import objects, stock
from backhaul.ingest.objects import Fold, Source
from backhaul.platform.client import StoreFacts
from backhaul.platform.decoding import TRACKING, Data
from backhaul.platform.fields import identity
from backhaul.platform.personal_data import without_erased_customer
from backhaul.store.inbox import Decoded, Folded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul.platform.decoding import Tracking
    from backhaul.store.inbox import Concerned, FoldOne, MirrorWriter, StoredEvent


Object: TypeAlias = tuple[str, str]
"""The kind and id by which an object is fetched."""

_KEYS: Mapping[str, str] = {
    "order": "id",
    "product": "id",
    "customer": "id",
    "level": "productId",
}
_FAMILIES: Mapping[str, str] = {
    "orders": "order",
    "products": "product",
    "customers": "customer",
    "inventory": "level",
}
"""The kind of object by the first part of a topic."""
_SIGNS: Mapping[str, frozenset[str]] = {
    "order": frozenset({"financialStatus", "fulfillmentStatus", "items", "totals"}),
    "level": frozenset({"productId", "levels", "stock", "adjustmentId"}),
    "product": frozenset({"variants", "handle", "title"}),
    "customer": frozenset({"email", "phone", "ordersCount", "totalSpent"}),
}
"""The members that identify the kind of a body; two of them are enough."""


def object_named(topic: str, data: Mapping[str, Any]) -> Object | None:
    """Return the object that an event is about, by its topic or by its members."""
    kind = _FAMILIES.get(topic.partition("/")[0]) or _shown(data)
    if kind is None:
        return None
    try:
        return kind, identity(data.get(_KEYS[kind]))
    except Unusable:
        return None


def _shown(data: Mapping[str, Any]) -> str | None:
    """Return the kind whose members a body has; None unless exactly one fits."""
    fitting = [kind for kind, signs in _SIGNS.items() if len(signs & data.keys()) > 1]
    return fitting[0] if len(fitting) == 1 else None


Handler: TypeAlias = Callable[[Source, Data], Decoded]

TOPICS: Mapping[str, Handler] = {
    "orders/create": objects.order,
    "orders/updated": objects.order,
    "orders/fulfilled": objects.order,
    "orders/cancelled": objects.order,
    "products/create": stock.product,
    "products/update": stock.product,
    "products/delete": objects.deletion,
    "inventory/level_update": stock.stock_change,
    "customers/create": objects.customer,
}
"""The nine topics of the specification."""

READS: Mapping[str, Handler] = {
    "orders/read": objects.order,
    "products/read": stock.product,
    "customers/read": objects.customer,
    "inventory/read": stock.level_read,
    "inventory/history": stock.stock_change,
    "inventory/entry": stock.history_row,
    # Fetched to resolve a conflict.
    "orders/reread": objects.order,
    "products/reread": stock.product,
    "customers/reread": objects.customer,
    "inventory/reread": stock.level_read,
    "inventory/shown/reread": stock.levels_shown,
    "orders/gone": partial(objects.gone, "order"),
    "products/gone": objects.product_gone,
    "customers/gone": partial(objects.gone, "customer"),
}
"""The topics of Backhaul's own reads; a webhook never has one of these."""


TEST_TOPIC = "webhooks/test"
"""The topic of a test delivery that somebody requested at the platform."""
DAMAGED = (
    "the stored bytes differ from those that arrived: the disk or the database file is"
    " damaged. The next full sync reads the object from the platform again"
)


def decode_event(
    event: StoredEvent,
    *,
    store_id: str | None,
    currency: str,
    tracking: Tracking = TRACKING,
) -> Decoded:
    """Decode an event. `store_id` is the platform's id of the store, if known."""
    try:
        if not is_intact(event.digest, (event.body,)):
            raise Unusable(DAMAGED)
        envelope = open_envelope(event.body, event.topic)
    except Unusable as error:
        return _result(Folded("quarantined", topic_of(event.topic), detail=str(error)))
    is_delivery = event.kind == "delivery"
    digest = _digest(event, envelope.sequence) if is_delivery else None
    source = Source(event, envelope.without_data(), digest, currency, tracking)
    decoded = _decoded(source, envelope.data, store_id)
    return Decoded(partial(_fold, source, decoded, store_id), decoded.concerned)


def _result(folded: Folded) -> Decoded:
    """Return an event whose result does not depend on the mirror."""
    return Decoded(lambda _: folded)


def _fold(
    source: Source, decoded: Decoded, store_id: str | None, mirror: MirrorWriter
) -> Folded:
    """Fold a decoded event, without its customer if that customer was erased."""
    topic, event_id = source.envelope.topic, source.envelope.event_id
    if mirror.has_erased_customers():
        data = _redacted(source.event, mirror)
        decoded = decoded if data is None else _decoded(source, data, store_id)
    try:
        if decoded.concerned and not _is_new(source, mirror):
            return Folded("duplicate", topic, event_id)
        return decoded.fold(mirror)
    except Unreadable as error:
        return Fold(source, mirror).quarantine(error)
    except Unusable as error:
        return Folded("quarantined", topic, event_id, detail=str(error))


def _is_new(source: Source, mirror: MirrorWriter) -> bool:
    """Return whether no other webhook had the same body; each read is new."""
    digest = source.digest
    return digest is None or mirror.is_new_delivery(digest, source.event.id)


def _redacted(event: StoredEvent, mirror: MirrorWriter) -> dict[str, Any] | None:
    """Return the object without its erased customer, None if it has none."""
    envelope = open_envelope(event.body, event.topic)
    redacted = without_erased_customer(event, envelope, mirror)
    return None if redacted is envelope else redacted.data


def _decoded(source: Source, data: dict[str, Any], store_id: str | None) -> Decoded:
    """Decode an object by the handler of its topic. The fold may raise Unusable."""
    event, envelope = source.event, source.envelope
    if store_id and envelope.store_id and envelope.store_id != store_id:
        detail = f"belongs to another store {envelope.store_id}"
        return _result(_unhandled(envelope, detail, envelope.store_id))
    handler = (READS if event.kind == "read" else TOPICS).get(envelope.topic)
    if handler is None:
        named = object_named(envelope.topic, data)
        return Decoded(partial(_without_handler, source, named))
    try:
        decoded = handler(source, data)
        if decoded.concerned:
            _require_keys(decoded.concerned)
    except Unusable as error:
        return Decoded(partial(_raise, error), source.concerned())
    return decoded


def _require_keys(concerned: Concerned) -> None:
    """Refuse ids that no statement finds: a database ends a text at a zero byte."""
    ids = [concerned.object_id, *concerned.variants, *concerned.effects]
    if concerned.change is not None:
        ids.append(concerned.change.adjustment_id or "")
    for id_ in ids:
        if "\0" in id_:
            raise Unusable(f"the object's id {id_!r:.60} contains a zero byte")


def _raise(error: Unusable, _: MirrorWriter) -> Folded:
    raise error


def _without_handler(
    source: Source, named: Object | None, mirror: MirrorWriter
) -> Folded:
    """Fetch the object that an event of an unknown topic is about."""
    fold = Fold(source, mirror)
    topic, event_id = fold.envelope.topic, fold.envelope.event_id
    if topic == TEST_TOPIC:
        return Folded("folded", topic, event_id, detail="a test delivery")
    detail = f"unknown topic {topic!r}" if topic else "no topic"
    if fold.is_read or named is None:
        return _unhandled(fold.envelope, detail)
    fold.enqueue_refetch(*named, f"event {fold.event.id} has {detail}")
    detail = "; ".join([detail, *fold.conflicts])
    return Folded("unhandled", topic, event_id, *named, detail)


def _unhandled(
    envelope: Envelope, detail: str, foreign_store: str | None = None
) -> Folded:
    return Folded(
        "unhandled",
        envelope.topic,
        envelope.event_id,
        detail=detail,
        foreign_store=foreign_store,
    )


def _digest(event: StoredEvent, sequence: int) -> bytes:
    """Return a digest that identifies a delivery; 128 bits keep its table small.

    It begins with the sequence number in the body: what arrives together is stored
    together. Otherwise each event would change a page of its own in a large table.
    """
    parts = f"{len(event.store)}:{event.store}{len(event.topic)}:{event.topic}"
    # The stored digest was compared with the body: there is no need to hash it twice.
    of_body = event.digest or digest_of((event.body,))
    place = sequence.to_bytes((sequence.bit_length() + 7) // 8, "big")
    return place + sha256(parts.encode() + of_body).digest()[:16]


_NOTHING = StoreFacts()


def fold_for(facts: Mapping[str, StoreFacts]) -> FoldOne:
    """Return a function that decodes an event; `facts` may grow while it is used."""

    def decode(event: StoredEvent) -> Decoded:
        known = facts.get(event.store, _NOTHING)
        return decode_event(
            event,
            store_id=known.store_id or None,
            currency=known.currency,
            tracking=known.tracking,
        )

    return decode
