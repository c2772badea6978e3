"""Writes the mirror's tables inside the transaction of a fold."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from backhaul.core.clock import from_text, to_text
from backhaul.core.fold import Version, as_of
from backhaul.core.sku_matching import near_text
from backhaul.store.sql.commands import echoes, incidents
from backhaul.store.sql.dialect import document_of
from backhaul.store.sql.inbox import unreadable_orders
from backhaul.store.sql.inbox.refetch_queue import Conflict, enqueue_refetch
from backhaul.store.sql.mirror import stock_ledger
from backhaul.store.sql.mirror.rows import Parts, document_text, parts, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backhaul.core.clock import Clock
    from backhaul.core.resources import (
        Customer,
        Deletion,
        Level,
        Order,
        Product,
        StockChange,
    )
    from backhaul.store.sql.family import Connection
    from backhaul.store.sql.mirror.rows import Values

TABLES = {"product": "products", "order": "orders", "customer": "customers"}
VERSION = "updated_at, sequence, delivered, seen_at, digest, standing, confirmed_at"
_CURRENT = {
    kind: f"SELECT {VERSION} FROM {name} WHERE store = :store AND id = :id"  # noqa: S608 - constants
    for kind, name in TABLES.items()
}
_CURRENT["level"] = (
    f"SELECT {VERSION} FROM inventory_levels"  # noqa: S608 - constants
    " WHERE store = :store AND variant_id = :id"
)
_CONFIRM = {
    kind: f"UPDATE {name} SET confirmed_at = :at WHERE store = :store AND id = :id"  # noqa: S608 - constants
    for kind, name in TABLES.items()
}
_CONFIRM["level"] = (
    "UPDATE inventory_levels SET confirmed_at = :at"
    " WHERE store = :store AND variant_id = :id"
)
_ADD_DIGEST = """
    INSERT INTO delivery_digests (digest, id) VALUES (:digest, :event)
    ON CONFLICT (digest) DO NOTHING
"""
_IS_ERASED = """
    SELECT EXISTS (SELECT 1 FROM erased_customers
                   WHERE store = :store AND customer_id = :customer_id)
        OR EXISTS (SELECT 1 FROM erased_emails WHERE digest = :address)
"""
_TOMBSTONE = "kind = :kind AND store = :store AND id = :id"
_CURRENT_TOMBSTONE = f"SELECT {VERSION} FROM tombstones WHERE {_TOMBSTONE}"  # noqa: S608 - constants
_PUT_TOMBSTONE = f"""
    INSERT INTO tombstones (kind, store, id, {VERSION})
    VALUES (:kind, :store, :id, {", ".join(f":{c}" for c in VERSION.split(", "))})
    ON CONFLICT (kind, store, id) DO UPDATE SET
        {", ".join(f"{c} = excluded.{c}" for c in VERSION.split(", "))}
"""  # noqa: S608 - constants
_DELETED_SINCE = """
    SELECT 1 FROM products WHERE store = :store AND id = :product
    AND (updated_at >= :updated_at OR deleted_at IS NOT NULL)
    AND NOT EXISTS (SELECT 1 FROM variants
        WHERE store = :store AND product_id = :product AND id = :variant)
"""
_DELETE_LOST_LEVELS = """
    DELETE FROM inventory_levels
    WHERE store = :store AND product_id = :product
    AND (updated_at <= :updated_at OR seen_at <= :confirmed_at) AND variant_id
    NOT IN (SELECT id FROM variants WHERE store = :store AND product_id = :product)
"""
_REPLACE_BODY = """
    UPDATE inbox SET body = :body, digest = NULL, erased_at = :now,
        erased_by = 'forget'
    WHERE id = :event
"""
_ADD_CHANGE = """
    INSERT INTO changes (store, kind, object_id, change, at, event, instance)
    VALUES (:store, :kind, :object_id, :change, :now, :event, :instance)
"""

_PRODUCTS = table(
    "products",
    f"handle, title, status, external_id, deleted_at, document, {VERSION}",
)
_VARIANTS = parts(
    "variants",
    "product_id",
    "sku, barcode, title, price_minor, currency, updated_at",
)
_ORDERS = table(
    "orders",
    "number, name, external_id, awaiting_confirmation, status, financial_status,"
    " fulfillment_status, placed_at, cancelled_at, total_minor, currency, customer_id,"
    f" document, {VERSION}",
)
_ITEMS = parts(
    "order_items",
    "order_id",
    "product_id, variant_id, sku, title, quantity, fulfilled_quantity,"
    " unit_price_minor",
)
_SHIPMENTS = parts(
    "shipments", "order_id", "tracking_company, tracking_number, shipped_at"
)
_CUSTOMERS = table("customers", f"name, email, phone, document, {VERSION}")
_LEVELS = table("inventory_levels", f"product_id, stock, {VERSION}", key="variant_id")
# Spellings are only added; reads skip a SKU that no variant has now.
_ADD_SPELLING = """
    INSERT INTO sku_spellings (store, near, sku) VALUES (:store, :near, :sku)
    ON CONFLICT (store, near, sku) DO NOTHING
"""
_RELEASE = """
    UPDATE commands SET hold_reason = NULL, due_at = :now
    WHERE store = :store AND lane = :lane
      AND state = 'planned' AND hold_reason = 'order'
"""
_RARE = f"""
    SELECT EXISTS (SELECT 1 FROM tombstones),
           EXISTS (
             SELECT 1 FROM commands WHERE state = 'planned' AND hold_reason = 'order'),
           {unreadable_orders.EXIST}
"""  # noqa: S608 - constants


class MirrorTransaction:
    """A MirrorWriter on the connection of one transaction.

    Lines and parcels of new orders, and rows of the change feed, are kept back until
    `flush`: one statement then writes those of many events. What reads or changes such
    rows of an order, or needs the id of such a row, flushes first.
    """

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._moment = clock.now()
        self.now = to_text(self._moment)
        self.refetches = 0
        self._has_erased_customers: bool | None = None
        self._effects: dict[int, dict[str, str | None]] = {}
        self._new_parts: dict[str, list[Values]] = {}
        self._new_changes: list[dict[str, object]] = []
        # These tables are nearly always empty, and no object is searched in them then.
        rare = connection.execute(_RARE).fetchone()
        self._has_tombstones, self._has_held, self._has_unreadable = rare

    def flush(self) -> None:
        """Write what was kept back."""
        for insert, rows in self._new_parts.items():
            self._connection.executemany(insert, rows)
        if self._new_changes:
            self._connection.executemany(_ADD_CHANGE, self._new_changes)
        self.discard()

    def discard(self) -> None:
        """Drop what was kept back, because the transaction is undone."""
        self._new_parts, self._new_changes = {}, []

    def seconds_since(self, at: str) -> float:
        """Return the seconds from a time to the start of this transaction."""
        return (self._moment - from_text(at)).total_seconds()

    def is_new_delivery(self, digest: bytes, event: int) -> bool:
        values = {"digest": digest, "event": event}
        if self._connection.execute(_ADD_DIGEST, values).rowcount == 1:
            return True
        query = "SELECT id FROM delivery_digests WHERE digest = :digest"
        (first,) = self._connection.execute(query, values).fetchone()
        return bool(first == event)

    def current_version(self, kind: str, store: str, object_id: str) -> Version | None:
        values = {"store": store, "id": object_id}
        found = self._version(_CURRENT[kind], values)
        if found is None and self._has_tombstones and kind != "product":
            return self._version(_CURRENT_TOMBSTONE, {"kind": kind, **values})
        return found

    def current_level_version(self, store: str, variant_id: str) -> Version | None:
        values = {"store": store, "id": variant_id}
        return self._version(_CURRENT["level"], values)

    def _version(self, query: str, values: dict[str, str]) -> Version | None:
        row = self._connection.execute(query, values).fetchone()
        if row is None:
            return None
        return as_of(self.now, Version(row[0], row[1], bool(row[2]), *row[3:]))

    def deleted_since(
        self, store: str, product_id: str, variant_id: str, updated_at: str
    ) -> bool:
        values = {
            "store": store,
            "product": product_id,
            "variant": variant_id,
            "updated_at": updated_at,
        }
        row = self._connection.execute(_DELETED_SINCE, values).fetchone()
        return row is not None

    def put_product(
        self, store: str, product: Product, currency: str, version: Version
    ) -> None:
        connection = self._connection
        columns = (
            product.handle,
            product.title,
            product.status,
            product.external_id,
            None,
            product.document.decode(),
            *_columns(version),
        )
        _PRODUCTS.put(connection, store, product.id, columns)
        variants = {
            variant.id: (
                variant.sku,
                variant.barcode,
                variant.title,
                variant.price_minor,
                currency,
                product.updated_at,
            )
            for variant in product.variants
        }
        _VARIANTS.put_all(connection, store, product.id, variants)
        spellings = [
            {"store": store, "near": near_text(variant.sku), "sku": variant.sku}
            for variant in product.variants
            if variant.sku
        ]
        connection.executemany(_ADD_SPELLING, spellings)
        values = {
            "store": store,
            "product": product.id,
            "updated_at": product.updated_at,
            # A confirming read knows better than what was seen before it.
            "confirmed_at": version.confirmed_at,
        }
        connection.execute(_DELETE_LOST_LEVELS, values)

    def delete_product(self, store: str, deletion: Deletion, version: Version) -> None:
        # The whole row comes from the deletion, so it is the same after any past.
        columns = (
            deletion.handle,
            deletion.title,
            "deleted",
            deletion.external_id,
            deletion.deleted_at,
            deletion.document.decode(),
            *_columns(version),
        )
        _PRODUCTS.put(self._connection, store, deletion.id, columns)
        self._delete_parts(
            ("variants", "inventory_levels"), "product_id", store, deletion.id
        )

    def put_order(self, store: str, order: Order, version: Version) -> None:
        columns = (
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
        is_new = _ORDERS.put(self._connection, store, order.id, columns)
        self._put_order_parts(store, order, is_new=is_new)
        if self._has_held:
            values = {"now": self.now, "store": store, "lane": f"order:{order.id}"}
            self._connection.execute(_RELEASE, values)
        incidents.add_of_order(self._connection, store, order, self.now)

    def _put_order_parts(self, store: str, order: Order, *, is_new: bool) -> None:
        items = {
            item.id: (
                item.product_id,
                item.variant_id,
                item.sku,
                item.title,
                item.quantity,
                item.fulfilled_quantity,
                item.unit_price_minor,
            )
            for item in order.items
        }
        shipments = {
            parcel.id: (
                parcel.tracking_company,
                parcel.tracking_number,
                parcel.shipped_at,
            )
            for parcel in order.shipments
        }
        if is_new:  # then it has no parts in the mirror
            self._add_parts(_ITEMS, store, order.id, items)
            self._add_parts(_SHIPMENTS, store, order.id, shipments)
            return
        self.flush()
        _ITEMS.put_all(self._connection, store, order.id, items)
        _SHIPMENTS.put_all(self._connection, store, order.id, shipments)

    def _add_parts(
        self, table_: Parts, store: str, parent: str, rows: Mapping[str, Values]
    ) -> None:
        if rows:
            kept = self._new_parts.setdefault(table_.upsert, [])
            kept.extend((store, parent, id_, *row) for id_, row in rows.items())

    def _delete_parts(
        self, tables: tuple[str, ...], parent: str, store: str, object_id: str
    ) -> None:
        self.flush()
        for name in tables:
            self._connection.execute(
                f"DELETE FROM {name} WHERE store = :store AND {parent} = :id",  # noqa: S608 - constants
                {"store": store, "id": object_id},
            )

    def put_customer(self, store: str, customer: Customer, version: Version) -> None:
        columns = (
            customer.name,
            customer.email,
            customer.phone,
            customer.document.decode(),
            *_columns(version),
        )
        _CUSTOMERS.put(self._connection, store, customer.id, columns)

    def put_level(self, store: str, level: Level, version: Version) -> None:
        columns = (level.product_id, level.stock, *_columns(version))
        _LEVELS.put(self._connection, store, level.variant_id, columns)

    def remove(self, kind: str, store: str, object_id: str, version: Version) -> None:
        values = {"kind": kind, "store": store, "id": object_id}
        self._connection.execute(
            f"DELETE FROM {TABLES[kind]} WHERE store = :store AND id = :id",  # noqa: S608 - constants
            values,
        )
        if kind == "order":
            parts_ = ("order_items", "shipments")
            self._delete_parts(parts_, "order_id", store, object_id)
        self._has_tombstones = True
        columns = zip(VERSION.split(", "), _columns(version), strict=True)
        self._connection.execute(_PUT_TOMBSTONE, values | dict(columns))

    def confirm(self, kind: str, store: str, object_id: str, confirmed_at: str) -> None:
        values = {"at": confirmed_at, "store": store, "id": object_id}
        self._connection.execute(_CONFIRM[kind], values)

    def remove_tombstone(self, kind: str, store: str, object_id: str) -> None:
        self._connection.execute(
            f"DELETE FROM tombstones WHERE {_TOMBSTONE}",  # noqa: S608 - constants
            {"kind": kind, "store": store, "id": object_id},
        )

    def add_moves(self, store: str, change: StockChange, event_id: str) -> bool:
        return stock_ledger.add(self._connection, store, change, event_id)

    def has_erased_customers(self) -> bool:
        if self._has_erased_customers is None:
            query = "SELECT EXISTS (SELECT 1 FROM erased_customers)"
            (found,) = self._connection.execute(query).fetchone()
            self._has_erased_customers = bool(found)
        return self._has_erased_customers

    def is_erased(
        self, store: str, customer_id: str | None, address: bytes | None
    ) -> bool:
        return is_erased(self._connection, store, customer_id, address)

    def replace_body(self, event: int, body: bytes) -> None:
        values = {"body": body, "now": self.now, "event": event}
        self._connection.execute(_REPLACE_BODY, values)

    def add_change(
        self, store: str, kind: str, object_id: str, change: str, event: int
    ) -> None:
        effects = self._effects.pop(event, {})
        # Two connections that caused one change would each miss the other's part. If
        # the cause of one of several effects is unknown, that effect may be foreign.
        causes = set(effects.values())
        if len(causes) > 1 or (len(effects) > 1 and None in causes):
            effects, causes = {}, {None}
        values = {
            "store": store,
            "kind": kind,
            "object_id": object_id,
            "change": change,
            "now": self.now,
            "event": event,
            "instance": causes.pop() if causes else None,
        }
        if not effects:
            self._new_changes.append(values)
            return
        self.flush()  # the ids of rows are in the order of their events
        added = self._connection.execute(f"{_ADD_CHANGE} RETURNING id", values)
        (id_,) = added.fetchone()
        echoes.link_change(self._connection, store, [*effects], id_)

    def record_effects(
        self, store: str, lane: str, effects: Sequence[str], event: int
    ) -> list[str]:
        new = {}
        for effect in effects:
            is_first, instance = echoes.record_effect(
                self._connection, store, lane, effect, event, self.now
            )
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
        unreadable_orders.hold(
            self._connection, store, order_id, event, reason, received_at
        )

    def release_order(self, store: str, order_id: str, event: int, began: str) -> None:
        if self._has_unreadable:
            unreadable_orders.release(
                self._connection, store, order_id, event, began, self.now
            )

    def order_document(self, store: str, object_id: str) -> dict[str, Any]:
        return document_of(document_text(self._connection, "order", store, object_id))

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
        enqueue_refetch(self._connection, conflict, self.now, due_at)
        self.refetches += 1


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
