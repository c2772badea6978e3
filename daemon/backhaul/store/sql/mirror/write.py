"""Writes the mirror inside the transaction of a fold."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import astuple

from backhaul.core.clock import from_text, to_text
from backhaul.core.fold import Version, as_of
from backhaul.core.sku_matching import near_text
from backhaul.store.sql.dialect import document_of
from backhaul.store.sql.inbox import unreadable_orders
from backhaul.store.sql.inbox.refetch_queue import Conflict
from backhaul.store.sql.mirror.slice_memory import SliceMemory

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from backhaul.core.clock import Clock
    from backhaul.core.resources import (
        Customer,
        Deletion,
        Level,
        Order,
        Product,
        StockChange,
    )
    from backhaul.store.inbox import Concerned
    from backhaul.store.sql.family import Connection
    from backhaul.store.sql.mirror.rows import Values

_IS_ERASED = """
    SELECT EXISTS (SELECT 1 FROM erased_customers
                   WHERE store = :store AND customer_id = :customer_id)
        OR EXISTS (SELECT 1 FROM erased_emails WHERE digest = :address)
"""
_ERASED_CUSTOMERS = "SELECT store, customer_id FROM erased_customers LIMIT :most"
_ERASED_ADDRESSES = "SELECT digest FROM erased_emails LIMIT :most"
MOST_ERASURES = 500
"""With more erased customers, each is looked up when an event names a customer."""
Erasures: TypeAlias = tuple[set[tuple[str, str | None]], set[bytes]]
"""The store and id of each erased customer, and the digests of their e-mails."""
_REPLACE_BODY = """
    UPDATE inbox SET body = :body, digest = NULL, erased_at = :now,
        erased_by = 'forget'
    WHERE id = :event
"""
_RARE = f"""
    SELECT EXISTS (SELECT 1 FROM tombstones),
           EXISTS (
             SELECT 1 FROM commands WHERE state = 'planned' AND hold_reason = 'order'),
           {unreadable_orders.EXIST}
"""  # noqa: S608 - constants
_VERSION = 7
"""How many columns at the end of a row are its version."""
_DELETED_AT = 6
"""The place of `deleted_at` in the row of a product."""


class MirrorTransaction:
    """A MirrorWriter on the connection of one transaction.

    It reads the rows that a slice of events concerns at once, changes them in memory,
    where the later events of the slice see them, and writes them at `flush`.
    """

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._moment = clock.now()
        self.now = to_text(self._moment)
        self.refetches = 0
        self._has_erased_customers: bool | None = None
        self._erasures: Erasures | None = None
        self._effects: dict[int, dict[str, str | None]] = {}
        self._memory = SliceMemory(connection, self.now)
        # These tables are nearly always empty, and no object is searched in them then.
        rare = connection.execute(_RARE).fetchone()
        self._has_tombstones, self._has_held, self._has_unreadable = rare

    def load(self, events: Iterable[Concerned]) -> None:
        """Read the rows that these events concern."""
        self._memory.load(events, has_tombstones=self._has_tombstones)

    def flush(self) -> None:
        """Write what the events changed."""
        self._memory.flush()

    def discard(self) -> None:
        """Forget what was read and changed, because the transaction is undone."""
        self._memory = SliceMemory(self._connection, self.now)
        self._effects = {}

    def seconds_since(self, at: str) -> float:
        """Return the seconds from a time to the start of this transaction."""
        return (self._moment - from_text(at)).total_seconds()

    def is_new_delivery(self, digest: bytes, event: int) -> bool:
        deliveries = self._memory.deliveries
        if digest not in deliveries:
            self._memory.add_deliveries({digest: event})
        return deliveries[digest] == event

    def current_version(self, kind: str, store: str, object_id: str) -> Version | None:
        found = self._version(self._memory.objects[kind].get((store, object_id)))
        if found is None and self._has_tombstones and kind != "product":
            tombstones = self._memory.tombstones
            return self._version(tombstones.get((kind, store, object_id)))
        return found

    def current_level_version(self, store: str, variant_id: str) -> Version | None:
        return self._version(self._memory.levels.get((store, variant_id)))

    def _version(self, row: Values | None) -> Version | None:
        """Return the version of a row, whose last columns it is."""
        if row is None:
            return None
        updated_at, sequence, delivered, *rest = row[-_VERSION:]
        version = Version(updated_at, sequence, bool(delivered), *rest)
        return as_of(self.now, version)

    def deleted_since(
        self, store: str, product_id: str, variant_id: str, updated_at: str
    ) -> bool:
        product, memory = (store, product_id), self._memory
        parts_ = memory.variants.known(product)
        if memory.objects["product"].is_known(product):
            row = memory.objects["product"].get(product)
            if row is None:
                return False
            changed_at, deleted_at = row[-_VERSION], row[_DELETED_AT]
            if parts_ is None:
                head = memory.heads.get((*product, variant_id))
                has_variant = head is not None and head[2]
            else:
                has_variant = variant_id in parts_
        else:
            head = memory.heads.get((*product, variant_id))
            if head is None:
                return False
            changed_at, deleted_at, has_variant = head
        is_newer = changed_at >= updated_at or deleted_at is not None
        return is_newer and not has_variant

    def put_product(
        self, store: str, product: Product, currency: str, version: Version
    ) -> None:
        memory, key = self._memory, (store, product.id)
        columns = (
            *key,
            product.handle,
            product.title,
            product.status,
            product.external_id,
            None,
            product.document.decode(),
            *_columns(version),
        )
        memory.objects["product"].put(key, columns)
        variants = {
            variant.id: (
                *key,
                variant.id,
                variant.sku,
                variant.barcode,
                variant.title,
                variant.price_minor,
                currency,
                product.updated_at,
            )
            for variant in product.variants
        }
        memory.variants.put_all(key, variants)
        memory.spellings |= {
            (store, near_text(variant.sku), variant.sku): None
            for variant in product.variants
            if variant.sku
        }
        for level, row in memory.levels.of_product(key):
            updated_at, *_, seen_at, _, _, _ = row[-_VERSION:]
            # A confirming read knows better than what was seen before it.
            is_older = updated_at <= product.updated_at or (
                seen_at is not None and seen_at <= version.confirmed_at
            )
            if is_older and level[1] not in variants:
                memory.levels.put(level, None)

    def delete_product(self, store: str, deletion: Deletion, version: Version) -> None:
        memory, key = self._memory, (store, deletion.id)
        # The whole row comes from the deletion, so it is the same after any past.
        columns = (
            *key,
            deletion.handle,
            deletion.title,
            "deleted",
            deletion.external_id,
            deletion.deleted_at,
            deletion.document.decode(),
            *_columns(version),
        )
        memory.objects["product"].put(key, columns)
        memory.variants.put_all(key, {})
        for level, _ in memory.levels.of_product(key):
            memory.levels.put(level, None)

    def put_order(self, store: str, order: Order, version: Version) -> None:
        memory, key = self._memory, (store, order.id)
        columns = (
            *key,
            order.number,
            order.name,
            order.external_id,
            int(order.awaiting_confirmation),
            order.status,
            order.financial_status,
            order.fulfillment_status,
            order.placed_at,
            order.cancelled_at,
            order.total_minor,
            order.currency,
            order.customer_id,
            order.document.decode(),
            *_columns(version),
        )
        orders = memory.objects["order"]
        orders.put(key, columns)
        # The columns of lines and parcels are in the order of their fields.
        items = {item.id: key + astuple(item) for item in order.items}
        shipments = {parcel.id: key + astuple(parcel) for parcel in order.shipments}
        is_new = orders.is_new(key)  # then the table has no parts of it
        memory.items.put_all(key, items, is_new=is_new)
        memory.shipments.put_all(key, shipments, is_new=is_new)
        if self._has_held:
            memory.released[store, f"order:{order.id}"] = None
        if order.cancelled_at is not None:
            memory.cancelled.append((store, order))

    def put_customer(self, store: str, customer: Customer, version: Version) -> None:
        key = store, customer.id
        columns = (
            *key,
            customer.name,
            customer.email,
            customer.phone,
            customer.document.decode(),
            *_columns(version),
        )
        self._memory.objects["customer"].put(key, columns)

    def put_level(self, store: str, level: Level, version: Version) -> None:
        key = store, level.variant_id
        columns = (*key, level.product_id, level.stock, *_columns(version))
        self._memory.levels.put(key, columns)

    def remove(self, kind: str, store: str, object_id: str, version: Version) -> None:
        memory, key = self._memory, (store, object_id)
        memory.objects[kind].put(key, None)
        if kind == "order":
            memory.items.put_all(key, {})
            memory.shipments.put_all(key, {})
        self._has_tombstones = True
        memory.tombstones.put((kind, *key), (kind, *key, *_columns(version)))

    def confirm(self, kind: str, store: str, object_id: str, confirmed_at: str) -> None:
        memory, key = self._memory, (store, object_id)
        rows = memory.levels if kind == "level" else memory.objects[kind]
        row = rows.get(key)
        if row is not None:
            rows.put(key, (*row[:-1], confirmed_at))

    def remove_tombstone(self, kind: str, store: str, object_id: str) -> None:
        if self._has_tombstones:
            self._memory.tombstones.put((kind, store, object_id), None)

    def add_moves(self, store: str, change: StockChange, event_id: str) -> bool:
        return self._memory.ledger.add(store, change, event_id)

    def has_erased_customers(self) -> bool:
        if self._has_erased_customers is None:
            query = "SELECT EXISTS (SELECT 1 FROM erased_customers)"
            (found,) = self._connection.execute(query).fetchone()
            self._has_erased_customers = bool(found)
        return self._has_erased_customers

    def is_erased(
        self, store: str, customer_id: str | None, address: bytes | None
    ) -> bool:
        if self._erasures is None:
            self._erasures = _all_erasures(self._connection)
        customers, addresses = self._erasures
        if len(customers) > MOST_ERASURES or len(addresses) > MOST_ERASURES:
            return is_erased(self._connection, store, customer_id, address)
        return (store, customer_id) in customers or address in addresses

    def replace_body(self, event: int, body: bytes) -> None:
        values = {"body": body, "now": self.now, "event": event}
        self._connection.execute(_REPLACE_BODY, values)

    def add_change(
        self, store: str, kind: str, object_id: str, change: str, event: int
    ) -> None:
        cause = None
        if effects := self._effects.pop(event, None):
            cause = self._cause_of(store, effects, event)
        self._memory.changes.append(
            (store, kind, object_id, change, self.now, event, cause)
        )

    def _cause_of(
        self, store: str, effects: dict[str, str | None], event: int
    ) -> str | None:
        """Return the connection that caused all these effects, and link them."""
        causes = set(effects.values())
        # Two connections that caused one change would each miss the other's part. If
        # the cause of one of several effects is unknown, that effect may be foreign.
        if len(causes) > 1 or (len(effects) > 1 and None in causes):
            return None
        self._memory.linked[event] = store, [*effects]
        return causes.pop()

    def record_effects(
        self, store: str, lane: str, effects: Sequence[str], event: int
    ) -> list[str]:
        new = {}
        for effect in effects:
            is_first, instance = self._memory.effects.record(store, lane, effect, event)
            if is_first:
                new[effect] = instance
        self._effects = {event: new}
        return [*new]

    def mark_shared_change(self, event: int) -> None:
        self._effects.pop(event, None)

    def hold_order(
        self, store: str, order_id: str, event: int, reason: str, received_at: str
    ) -> None:
        self._has_unreadable = True
        self._memory.unreadable = None
        unreadable_orders.hold(
            self._connection, store, order_id, event, reason, received_at
        )

    def release_order(self, store: str, order_id: str, event: int, began: str) -> None:
        if not self._has_unreadable:
            return
        memory = self._memory
        if memory.unreadable is None:
            memory.unreadable = unreadable_orders.all_keys(self._connection)
        if (store, order_id) in memory.unreadable:
            unreadable_orders.release(
                self._connection, store, order_id, event, began, self.now
            )

    def order_document(self, store: str, object_id: str) -> dict[str, Any]:
        row = self._memory.objects["order"].get((store, object_id))
        return document_of(None if row is None else row[-_VERSION - 1])

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
        due_at = to_text(self._moment + timedelta(seconds=rest_seconds))
        conflict = Conflict(store, kind, object_id, reason, event)
        self._memory.refetches.append((conflict, due_at))
        self.refetches += 1


def _all_erasures(connection: Connection) -> Erasures:
    """Return the erased customers, at most one more than `MOST_ERASURES`."""
    values = {"most": MOST_ERASURES + 1}
    rows = connection.execute(_ERASED_CUSTOMERS, values)
    customers = {(store, customer) for store, customer in rows}
    return customers, {row[0] for row in connection.execute(_ERASED_ADDRESSES, values)}


def is_erased(
    connection: Connection, store: str, customer_id: str | None, address: bytes | None
) -> bool:
    """Return True if a customer is erased, by id or digest of the e-mail."""
    values = {"store": store, "customer_id": customer_id, "address": address}
    return bool(connection.execute(_IS_ERASED, values).fetchone()[0])


def _columns(version: Version) -> tuple[str, int, int, str, bytes, int, str]:
    return (
        version.updated_at,
        version.sequence,
        int(version.delivered),
        version.seen_at,
        version.digest,
        version.standing,
        version.confirmed_at,
    )
