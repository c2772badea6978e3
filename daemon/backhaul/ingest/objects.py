"""Applies an event to one whole object of the mirror."""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from msgspec import Struct, json
from msgspec.structs import replace

from backhaul.core.fold import (
    GONE,
    Version,
    VersionComparison,
    compare_versions,
    join,
    order_standing,
    supersedes,
)
from backhaul.core.identity import cancellation
from backhaul.core.resources import Deletion
from backhaul.platform import decoding
from backhaul.store.inbox import CONFIRMING, Concerned, Decoded, Folded, StoredEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from backhaul.core.resources import Customer, Order, StockChange
    from backhaul.core.webhook import Envelope
    from backhaul.errors import Unreadable
    from backhaul.platform.decoding import Data
    from backhaul.store.inbox import MirrorWriter


STAMPS = frozenset({"updatedAt", "version"})
PARCEL = frozenset({"status", "fulfillmentStatus"})
CANCELLATION = PARCEL | {"financialStatus", "cancellation"}
LINE = frozenset({"fulfilledQuantity", "restockedQuantity"})
DUE = frozenset({"amountDue"})
"""The members of an order, its lines and its payment that an effect changes."""


def shows_more(
    known: Mapping[str, Any],
    shown: Mapping[str, Any],
    parcels: Collection[str],
    *,
    cancels: bool,
) -> bool:
    """Return whether an order changed more than our own commands explain.

    `known` and `shown` are its documents before and after. `parcels` are the parcels
    that we sent; `cancels` says that the cancellation is ours too. Every other change
    counts as foreign.
    """
    before, after = (_rest(order, parcels, cancels) for order in (known, shown))
    return before != after


def _rest(
    order: Mapping[str, Any], parcels: Collection[str], cancels: bool
) -> dict[str, Any]:
    explained = STAMPS | (PARCEL if parcels else set())
    explained |= CANCELLATION if cancels else set()
    rest = _without(order, explained)
    rest["items"] = [_without(line, LINE) for line in order.get("items") or ()]
    shipments = order.get("shipments") or ()
    rest["shipments"] = [each for each in shipments if each["id"] not in parcels]
    if cancels and isinstance(rest.get("payment"), dict):
        rest["payment"] = _without(rest["payment"], DUE)
    return rest


def _without(document: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in names}


_STATES = {
    VersionComparison.NEWER: "folded",
    VersionComparison.SAME: "duplicate",
    VersionComparison.STALE: "stale",
}
UNRESOLVED_SECONDS = 5.0
"""Delay before an object is fetched again whose refetch left a conflict."""


class Source(Struct, frozen=True, gc=False):
    """An event, its envelope, and how its store writes amounts and parcels.

    The envelope has no `data`: a slice holds many events, so that each is decoded and
    its document freed before the next. A webhook has a `digest`.
    """

    event: StoredEvent
    envelope: Envelope
    digest: bytes | None
    currency: str
    tracking: decoding.Tracking = decoding.TRACKING

    def concerned(
        self,
        kind: str = "",
        object_id: str = "",
        variants: tuple[str, ...] = (),
        effects: tuple[str, ...] = (),
        change: StockChange | None = None,
    ) -> Concerned:
        """Return the rows that an event about an object reads."""
        event = self.event
        return Concerned(
            event.id,
            event.store,
            self.digest,
            kind,
            object_id,
            variants,
            effects,
            change,
        )


class Fold:
    """The application of one event to the mirror."""

    def __init__(self, source: Source, mirror: MirrorWriter) -> None:
        self.event = event = source.event
        self.envelope = source.envelope
        self.mirror = mirror
        self.is_read = event.kind == "read"
        self.is_confirming = self.is_read and event.topic.endswith(CONFIRMING)
        self.conflicts: list[str] = []
        self.notes: tuple[str, ...] = ()

    def version(self, updated_at: str, content: bytes, standing: int = 0) -> Version:
        """Return the version of the object that the event describes."""
        seen_at = self.event.received_at
        return Version(
            updated_at=updated_at,
            sequence=self.envelope.sequence,
            delivered=not self.is_read,
            seen_at=seen_at,
            digest=sha256(content).digest(),
            standing=standing,
            confirmed_at=seen_at if self.is_confirming else "",
        )

    def enqueue_refetch(self, kind: str, object_id: str, reason: str) -> None:
        """Queue an object to be fetched again."""
        self.mirror.enqueue_refetch(
            self.event.store,
            kind,
            object_id,
            reason,
            self.event.id,
            rest_seconds=UNRESOLVED_SECONDS if self.is_confirming else 0.0,
        )
        self.conflicts.append(f"{kind} {object_id}: {reason}; it is fetched again")

    def conclude(
        self, kind: str, object_id: str, judgement: VersionComparison
    ) -> Folded:
        """Return the event's result, and append a change to the change feed."""
        if judgement is VersionComparison.NEWER:
            self.mirror.add_change(
                self.event.store, kind, object_id, self.envelope.topic, self.event.id
            )
        return Folded(
            state=_STATES[judgement],
            topic=self.envelope.topic,
            event_id=self.envelope.event_id,
            kind=kind,
            object_id=object_id,
            detail="; ".join((*self.conflicts, *self.notes)) or None,
            notes=self.notes,
        )

    def quarantine(self, error: Unreadable) -> Folded:
        """Quarantine the event, refetch its object, and hold the order's commands."""
        reason = f"event {self.event.id} could not be read"
        self.enqueue_refetch(error.kind, error.object_id, reason)
        if error.kind == "order":
            self.mirror.hold_order(
                self.event.store,
                error.object_id,
                self.event.id,
                str(error),
                self.event.received_at,
            )
        return Folded(
            "quarantined",
            self.envelope.topic,
            self.envelope.event_id,
            error.kind,
            error.object_id,
            str(error),
        )

    def confirm_order(self, order_id: str) -> None:
        """Release the order's commands: the event shows the order's present state."""
        began = self.event.received_at if self.is_confirming else ""
        self.mirror.release_order(self.event.store, order_id, self.event.id, began)


def decide(
    fold: Fold,
    about: tuple[str, str],
    held: Version | None,
    incoming: Version,
    put: Callable[[Version], None],
    key: str = "",
) -> VersionComparison:
    """Store the incoming version if it wins; queue a refetch if the two conflict.

    `about` is the kind and id to refetch. `key` is the mirror's own id if it differs.
    Returns the judgement that the event gets.
    """
    wins = supersedes(held, incoming)
    judgement = compare_versions(held, incoming, wins=wins)
    stays = join(held, incoming, wins=wins)
    if wins:
        put(stays)
        if held is not None and held.standing & GONE:
            fold.mirror.remove_tombstone(about[0], fold.event.store, about[1])
    elif stays != held:
        place = (about[0], fold.event.store, key or about[1])
        fold.mirror.confirm(*place, stays.confirmed_at)
    if judgement is VersionComparison.CONFLICT:
        fold.enqueue_refetch(*about, "two versions conflict, and neither is newer")
        return VersionComparison.NEWER if wins else VersionComparison.STALE
    return judgement


def order(source: Source, data: Data) -> Decoded:
    """Decode an order."""
    found = decoding.order(data, source.tracking, source.currency)
    effects = tuple(_effects(found))
    concerned = source.concerned("order", found.id, effects=effects)
    return Decoded(partial(_order, source, found, effects), concerned)


def _effects(order: Order) -> list[str]:
    """Return the effects that an order shows: its parcels and its cancellation."""
    effects = sorted({parcel.id for parcel in order.shipments})
    if order.cancelled_at is not None:
        effects.append(cancellation(order.id, order.cancelled_at))
    return effects


def _order(
    source: Source, found: Order, effects: Sequence[str], mirror: MirrorWriter
) -> Folded:
    fold, store = Fold(source, mirror), source.event.store
    fold.notes = found.notes
    version = fold.version(found.updated_at, found.document, order_standing(found))
    held = mirror.current_version("order", store, found.id)
    put = partial(mirror.put_order, store, found)
    _record_effects(fold, found, effects)
    judgement = decide(fold, ("order", found.id), held, version, put)
    fold.confirm_order(found.id)
    return fold.conclude("order", found.id, judgement)


def _record_effects(fold: Fold, order: Order, effects: Sequence[str]) -> None:
    """Record the command effects that this event shows first, and foreign changes."""
    if not effects:
        return
    store, mirror = fold.event.store, fold.mirror
    parcels = {parcel.id for parcel in order.shipments}
    first_seen = set(
        mirror.record_effects(store, f"order:{order.id}", effects, fold.event.id)
    )
    if not first_seen:
        return
    known, shown = mirror.order_document(store, order.id), json.decode(order.document)
    if shows_more(
        known, shown, first_seen & parcels, cancels=bool(first_seen - parcels)
    ):
        mirror.mark_shared_change(fold.event.id)


def customer(source: Source, data: Data) -> Decoded:
    """Decode a customer."""
    found = decoding.customer(data)
    concerned = source.concerned("customer", found.id)
    return Decoded(partial(_customer, source, found), concerned)


def _customer(source: Source, found: Customer, mirror: MirrorWriter) -> Folded:
    fold, store = Fold(source, mirror), source.event.store
    fold.notes = found.notes
    version = fold.version(found.updated_at, found.document)
    held = mirror.current_version("customer", store, found.id)
    put = partial(mirror.put_customer, store, found)
    judgement = decide(fold, ("customer", found.id), held, version, put)
    return fold.conclude("customer", found.id, judgement)


def deletion(source: Source, data: Data) -> Decoded:
    """Decode the deletion of a product."""
    return _deleted(source, decoding.deletion(data))


def product_gone(source: Source, data: Data) -> Decoded:
    """Decode a fetch that found no product of this id."""
    object_id = decoding.gone(data)
    return _deleted(source, Deletion(object_id, source.event.received_at))


def _deleted(source: Source, found: Deletion) -> Decoded:
    concerned = source.concerned("product", found.id)
    return Decoded(partial(_delete, source, found), concerned)


def _delete(source: Source, found: Deletion, mirror: MirrorWriter) -> Folded:
    fold, store = Fold(source, mirror), source.event.store
    content = b"deleted " + found.id.encode()
    version = fold.version(found.deleted_at, content, GONE)
    held = mirror.current_version("product", store, found.id)
    put = partial(mirror.delete_product, store, found)
    if held is not None and held.digest == version.digest:
        # The platform's own deletion event outweighs a 404 that Backhaul read,
        # whichever came first.
        if fold.is_confirming:
            return fold.conclude("product", found.id, VersionComparison.SAME)
        if not held.delivered:
            confirmed_at = max(held.confirmed_at, version.confirmed_at)
            put(replace(version, confirmed_at=confirmed_at))
            return fold.conclude("product", found.id, VersionComparison.NEWER)
    judgement = decide(fold, ("product", found.id), held, version, put)
    return fold.conclude("product", found.id, judgement)


def gone(kind: str, source: Source, data: Data) -> Decoded:
    """Decode a fetch that found no order or customer of this id."""
    object_id = decoding.gone(data)
    concerned = source.concerned(kind, object_id)
    return Decoded(partial(_gone, kind, source, object_id), concerned)


def _gone(kind: str, source: Source, object_id: str, mirror: MirrorWriter) -> Folded:
    fold, store = Fold(source, mirror), source.event.store
    content = b"gone " + object_id.encode()
    version = fold.version(fold.event.received_at, content, GONE)
    held = mirror.current_version(kind, store, object_id)
    put = partial(mirror.remove, kind, store, object_id)
    judgement = decide(fold, (kind, object_id), held, version, put)
    if kind == "order":
        fold.confirm_order(object_id)
    return fold.conclude(kind, object_id, judgement)
