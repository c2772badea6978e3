"""How each topic changes the mirror: a table from topic to handler."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, TypeAlias

from backhaul.core.envelope import Envelope, open_envelope
from backhaul.core.fold import Judgement, Version, judge, supersedes
from backhaul.errors import Unusable
from backhaul.shop import wire
from backhaul.store.contract import Folded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul.core.resources import Level
    from backhaul.store.contract import MirrorWriter, StoredEvent

_STATES = {
    Judgement.NEWER: "folded",
    Judgement.SAME: "duplicate",
    Judgement.STALE: "stale",
}


class Fold:
    """One event on its way into the mirror."""

    def __init__(
        self,
        event: StoredEvent,
        envelope: Envelope,
        mirror: MirrorWriter,
        currency: str,
    ) -> None:
        self.event = event
        self.envelope = envelope
        self.mirror = mirror
        self.currency = currency

    def version(self, updated_at: str, content: bytes) -> Version:
        """Return the version of what the event says."""
        return Version(
            updated_at=updated_at,
            sequence=self.envelope.sequence,
            delivered=self.event.kind == "delivery",
            read_at=self.event.received_at if self.event.kind == "read" else "",
            digest=sha256(content).digest(),
        )

    def conclude(self, kind: str, object_id: str, judgement: Judgement) -> Folded:
        """Say what became of the event, and feed a change to the feed."""
        if judgement is Judgement.NEWER:
            self.mirror.note_change(
                self.event.store, kind, object_id, self.envelope.topic, self.event.id
            )
        return Folded(
            state=_STATES[judgement],
            topic=self.envelope.topic,
            event_id=self.envelope.event_id,
            kind=kind,
            object_id=object_id,
        )


def _order(fold: Fold) -> Folded:
    order = wire.order(fold.envelope.data)
    store = fold.event.store
    version = fold.version(order.updated_at, order.document)
    held = fold.mirror.held("order", store, order.id)
    judgement = judge(held, version)
    if supersedes(held, version):
        fold.mirror.put_order(store, order, version)
    return fold.conclude("order", order.id, judgement)


def _product(fold: Fold) -> Folded:
    product = wire.product(fold.envelope.data, fold.currency)
    store = fold.event.store
    version = fold.version(product.updated_at, product.document)
    held = fold.mirror.held("product", store, product.id)
    judgement = judge(held, version)
    if supersedes(held, version):
        fold.mirror.put_product(store, product, fold.currency, version)
    for level in product.levels:
        _shown_level(fold, level, product.updated_at)
    return fold.conclude("product", product.id, judgement)


def _shown_level(fold: Fold, level: Level, updated_at: str) -> None:
    """Take a level from a product that shows it.

    A delivery's bytes were frozen with the change, so they are as good as a level's own
    event. A product that was read shows stock of a later moment than its `updatedAt`
    tells: it only fills a gap.
    """
    held = fold.mirror.held_level(fold.event.store, level.variant_id)
    if fold.event.kind == "delivery" or held is None:
        _level(fold, level, updated_at)


def _level(fold: Fold, level: Level, updated_at: str) -> Judgement:
    store = fold.event.store
    version = fold.version(updated_at, str(level.stock).encode())
    held = fold.mirror.held_level(store, level.variant_id)
    gone = fold.mirror.outlived(store, level.product_id, level.variant_id, updated_at)
    if gone or not supersedes(held, version):
        return Judgement.STALE
    fold.mirror.put_level(store, level, version)
    return Judgement.NEWER


def _deletion(fold: Fold) -> Folded:
    deletion = wire.deletion(fold.envelope.data)
    store = fold.event.store
    version = fold.version(deletion.deleted_at, b"deleted " + deletion.id.encode())
    held = fold.mirror.held("product", store, deletion.id)
    judgement = judge(held, version)
    if supersedes(held, version):
        fold.mirror.delete_product(store, deletion, version)
    return fold.conclude("product", deletion.id, judgement)


def _stock_change(fold: Fold) -> Folded:
    change = wire.stock_change(fold.envelope.data)
    fold.mirror.add_moves(fold.event.store, change)
    judgements = {_level(fold, m.level, change.updated_at) for m in change.moves}
    newest = Judgement.NEWER in judgements or not judgements
    judgement = Judgement.NEWER if newest else Judgement.STALE
    return fold.conclude("level", change.product_id, judgement)


def _level_read(fold: Fold) -> Folded:
    level, updated_at = wire.level(fold.envelope.data)
    judgement = _level(fold, level, updated_at)
    return fold.conclude("level", level.product_id, judgement)


def _customer(fold: Fold) -> Folded:
    customer = wire.customer(fold.envelope.data)
    store = fold.event.store
    version = fold.version(customer.updated_at, customer.document)
    held = fold.mirror.held("customer", store, customer.id)
    judgement = judge(held, version)
    if supersedes(held, version):
        fold.mirror.put_customer(store, customer, version)
    return fold.conclude("customer", customer.id, judgement)


Handler: TypeAlias = Callable[[Fold], Folded]

TOPICS: Mapping[str, Handler] = {
    "orders/create": _order,
    "orders/updated": _order,
    "orders/fulfilled": _order,
    "orders/cancelled": _order,
    "products/create": _product,
    "products/update": _product,
    "products/delete": _deletion,
    "inventory/level_update": _stock_change,
    "customers/create": _customer,
}
"""The nine topics of the specification."""

READS: Mapping[str, Handler] = {
    "orders/read": _order,
    "products/read": _product,
    "inventory/read": _level_read,
    "inventory/history": _stock_change,
    "customers/read": _customer,
}
"""What we read ourselves; never accepted from outside."""


def fold_one(
    event: StoredEvent,
    mirror: MirrorWriter,
    *,
    store_id: str | None,
    currency: str,
) -> Folded:
    """Fold one event. `store_id` is the platform's id of the store, where known."""
    try:
        envelope = open_envelope(event.body, event.topic)
        handler = (READS if event.kind == "read" else TOPICS).get(envelope.topic)
        if handler is None:
            return _unhandled(envelope, f"unknown topic {envelope.topic!r}")
        if store_id and envelope.store_id and envelope.store_id != store_id:
            return _unhandled(envelope, f"belongs to another store {envelope.store_id}")
        if event.kind == "delivery" and not mirror.first_sight(
            _digest(event), event.id
        ):
            return Folded("duplicate", envelope.topic, envelope.event_id)
        return handler(Fold(event, envelope, mirror, currency))
    except Unusable as error:
        return Folded("quarantined", event.topic, detail=str(error))


def _unhandled(envelope: Envelope, detail: str) -> Folded:
    return Folded("unhandled", envelope.topic, envelope.event_id, detail=detail)


def _digest(event: StoredEvent) -> bytes:
    """Identify a delivery by its bytes; 128 bits keep the table of digests small."""
    parts = f"{len(event.store)}:{event.store}{len(event.topic)}:{event.topic}"
    return sha256(parts.encode() + event.body).digest()[:16]
