"""The mirror's tables, written inside the writer's transaction."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from backhaul.core.clock import from_text, to_text
from backhaul.core.fold import Version, as_of
from backhaul.store.sql.commands import echoes, incidents
from backhaul.store.sql.documents import document_of
from backhaul.store.sql.inbox import unreadable_orders
from backhaul.store.sql.inbox.refetch_queue import Conflict, enqueue_refetch
from backhaul.store.sql.mirror import stock_ledger
from backhaul.store.sql.mirror.rows import parts, table
from backhaul.store.sql.mirror.sku_spellings import add_spellings

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

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

TABLES = {"product": "products", "order": "orders", "customer": "customers"}
VERSION = "updated_at, sequence, delivered, seen_at, digest, standing, confirmed_at"
_HELD = {
    kind: f"SELECT {VERSION} FROM {table} WHERE store = ? AND id = ?"  # noqa: S608 - constants
    for kind, table in TABLES.items()
}
_HELD_LEVEL = (
    f"SELECT {VERSION} FROM inventory_levels WHERE store = ? AND variant_id = ?"  # noqa: S608 - constants
)
_CONFIRM = {
    kind: f"UPDATE {table} SET confirmed_at = ? WHERE store = ? AND id = ?"  # noqa: S608 - constants
    for kind, table in TABLES.items()
}
_CONFIRM["level"] = (
    "UPDATE inventory_levels SET confirmed_at = ? WHERE store = ? AND variant_id = ?"
)
_IS_ERASED = """
    SELECT EXISTS (SELECT 1 FROM forgotten
                   WHERE store = :store AND customer_id = :customer_id)
        OR EXISTS (SELECT 1 FROM forgotten_addresses WHERE digest = :address)
"""
_TOMBSTONE = "kind = ? AND store = ? AND id = ?"
_HELD_TOMBSTONE = f"SELECT {VERSION} FROM tombstones WHERE {_TOMBSTONE}"  # noqa: S608 - constants


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
_PUT_TOMBSTONE = (
    f"INSERT OR REPLACE INTO tombstones (kind, store, id, {VERSION})"  # noqa: S608 - constants
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_RELEASE = """
    UPDATE commands SET held = 0, due_at = ?
    WHERE store = ? AND lane = ? AND state = 'planned' AND held = 1
"""
_RARE = f"""
    SELECT EXISTS (SELECT 1 FROM tombstones),
           EXISTS (SELECT 1 FROM commands WHERE state = 'planned' AND held = 1),
           {unreadable_orders.EXIST}
"""  # noqa: S608 - constants


class MirrorTransaction:
    """The mirror as one transaction sees and changes it."""

    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        self._connection = connection
        self._moment = clock.now()
        self.now = to_text(self._moment)
        self.refetches = 0
        self._has_erased_customers: bool | None = None
        self._heard: dict[int, dict[str, str | None]] = {}
        # Nearly always there is none: only then is each object looked up in them.
        rare = connection.execute(_RARE).fetchone()
        self._has_tombstones, self._has_held, self._has_unreadable = rare

    def seconds_since(self, at: str) -> float:
        """Return how long before this transaction something was."""
        return (self._moment - from_text(at)).total_seconds()

    def is_new_delivery(self, digest: bytes, event: int) -> bool:
        """Remember a delivery's digest; False when another event had it before."""
        cursor = self._connection.execute(
            "INSERT OR IGNORE INTO seen (digest, id) VALUES (?, ?)", (digest, event)
        )
        if cursor.rowcount == 1:
            return True
        (first,) = self._connection.execute(
            "SELECT id FROM seen WHERE digest = ?", (digest,)
        ).fetchone()
        return bool(first == event)

    def current_version(self, kind: str, store: str, object_id: str) -> Version | None:
        """Return the version the mirror holds of `product`, `order` or `customer`."""
        found = self._version(_HELD[kind], store, object_id)
        if found is None and self._has_tombstones and kind != "product":
            return self._version(_HELD_TOMBSTONE, kind, store, object_id)
        return found

    def current_level_version(self, store: str, variant_id: str) -> Version | None:
        """Return the version of a stock level."""
        return self._version(_HELD_LEVEL, store, variant_id)

    def _version(self, query: str, *key: str) -> Version | None:
        row = self._connection.execute(query, key).fetchone()
        if row is None:
            return None
        return as_of(self.now, Version(row[0], row[1], bool(row[2]), *row[3:]))

    def deleted_since(
        self, store: str, product_id: str, variant_id: str, updated_at: str
    ) -> bool:
        """Tell whether the variant was gone by `updated_at` or later."""
        row = self._connection.execute(
            """
            SELECT 1 FROM products WHERE store = ?1 AND id = ?2
            AND (updated_at >= ?4 OR deleted_at IS NOT NULL)
            AND NOT EXISTS (
              SELECT 1 FROM variants
              WHERE store = ?1 AND product_id = ?2 AND id = ?3)
            """,
            (store, product_id, variant_id, updated_at),
        ).fetchone()
        return row is not None

    def put_product(
        self, store: str, product: Product, currency: str, version: Version
    ) -> None:
        """Write a product and its variants; variants that are gone go."""
        _PRODUCTS.put(
            self._connection,
            store,
            product.id,
            (
                product.handle,
                product.title,
                product.status,
                product.external_id,
                None,
                product.document.decode(),
                *_columns(version),
            ),
        )
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
        _VARIANTS.put_all(self._connection, store, product.id, variants)
        skus = [variant.sku for variant in product.variants]
        add_spellings(self._connection, store, skus)
        self._connection.execute(
            """
            DELETE FROM inventory_levels
            WHERE store = ?1 AND product_id = ?2
            AND (updated_at <= ?3 OR seen_at <= ?4) AND variant_id
            NOT IN (SELECT id FROM variants WHERE store = ?1 AND product_id = ?2)
            """,
            # A confirming read knows better than what was seen before it.
            (store, product.id, product.updated_at, version.confirmed_at),
        )

    def delete_product(self, store: str, deletion: Deletion, version: Version) -> None:
        """Leave a tombstone; the product's variants and levels go."""
        # The whole row is the deletion's, so that it is the same whatever came before.
        _PRODUCTS.put(
            self._connection,
            store,
            deletion.id,
            (
                deletion.handle,
                deletion.title,
                "deleted",
                deletion.external_id,
                deletion.deleted_at,
                deletion.document.decode(),
                *_columns(version),
            ),
        )
        for children in ("variants", "inventory_levels"):
            self._connection.execute(
                f"DELETE FROM {children} WHERE store = ? AND product_id = ?",  # noqa: S608 - constants
                (store, deletion.id),
            )

    def put_order(self, store: str, order: Order, version: Version) -> None:
        """Write an order with its lines and parcels, and wake what waits for it."""
        is_new = _ORDERS.put(
            self._connection,
            store,
            order.id,
            (
                order.number,
                order.name,
                order.external_id,
                order.awaiting_confirmation,
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
            ),
        )
        self._put_children(store, order, is_new=is_new)
        self._release(store, f"order:{order.id}")
        incidents.add_of_order(self._connection, store, order, self.now)

    def _release(self, store: str, lane: str) -> None:
        """Let go what waits in a lane."""
        if self._has_held:
            self._connection.execute(_RELEASE, (self.now, store, lane))

    def _put_children(self, store: str, order: Order, *, is_new: bool) -> None:
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
        for children, rows in ((_ITEMS, items), (_SHIPMENTS, shipments)):
            # An order that was not there has none: they go with it.
            if is_new:
                children.add_all(self._connection, store, order.id, rows)
            else:
                children.put_all(self._connection, store, order.id, rows)

    def _remove_children(self, store: str, order_id: str) -> None:
        for children in ("order_items", "shipments"):
            self._connection.execute(
                f"DELETE FROM {children} WHERE store = ? AND order_id = ?",  # noqa: S608 - constants
                (store, order_id),
            )

    def put_customer(self, store: str, customer: Customer, version: Version) -> None:
        """Write a customer."""
        _CUSTOMERS.put(
            self._connection,
            store,
            customer.id,
            (
                customer.name,
                customer.email,
                customer.phone,
                customer.document.decode(),
                *_columns(version),
            ),
        )

    def put_level(self, store: str, level: Level, version: Version) -> None:
        """Write a stock level."""
        row = (level.product_id, level.stock, *_columns(version))
        _LEVELS.put(self._connection, store, level.variant_id, row)

    def remove(self, kind: str, store: str, object_id: str, version: Version) -> None:
        """Take an `order` or `customer` out of the mirror; a tombstone stays."""
        self._connection.execute(
            f"DELETE FROM {TABLES[kind]} WHERE store = ? AND id = ?",  # noqa: S608 - constants
            (store, object_id),
        )
        if kind == "order":
            self._remove_children(store, object_id)
        self._has_tombstones = True
        self._connection.execute(
            _PUT_TOMBSTONE, (kind, store, object_id, *_columns(version))
        )

    def confirm(self, kind: str, store: str, object_id: str, confirmed_at: str) -> None:
        """Keep that a confirming read began then, which did not replace what is held.

        A tombstone is never meant: only confirming reads leave one, so a later one
        replaces it.
        """
        self._connection.execute(_CONFIRM[kind], (confirmed_at, store, object_id))

    def remove_tombstone(self, kind: str, store: str, object_id: str) -> None:
        """Forget the tombstone of an object that was written again."""
        self._connection.execute(
            f"DELETE FROM tombstones WHERE {_TOMBSTONE}",  # noqa: S608 - constants
            (kind, store, object_id),
        )

    def add_moves(self, store: str, change: StockChange, event_id: str) -> bool:
        """Write a stock change to the ledger; False where it was known already."""
        return stock_ledger.add(self._connection, store, change, event_id)

    def has_erased_customers(self) -> bool:
        """Tell whether there is anybody to be forgotten at all."""
        if self._has_erased_customers is None:
            query = "SELECT EXISTS (SELECT 1 FROM forgotten)"
            (found,) = self._connection.execute(query).fetchone()
            self._has_erased_customers = bool(found)
        return self._has_erased_customers

    def is_erased(
        self, store: str, customer_id: str | None, address: bytes | None
    ) -> bool:
        """Tell whether a person is to be forgotten, by id or digest of the e-mail."""
        return is_erased(self._connection, store, customer_id, address)

    def replace_body(self, event: int, body: bytes) -> None:
        """Keep a body without its person instead of the one that came."""
        self._connection.execute(
            "UPDATE inbox SET body = ?, erased_at = ?, erased_by = 'forget'"
            " WHERE id = ?",
            (body, self.now, event),
        )

    def add_change(
        self, store: str, kind: str, object_id: str, change: str, event: int
    ) -> None:
        """Add a row to the change feed."""
        heard = self._heard.pop(event, {})
        # Two that caused one change would each miss what the other one did, and while
        # it is not known whose two effects are, one may be a stranger's.
        causes = set(heard.values())
        if len(causes) > 1 or (len(heard) > 1 and None in causes):
            heard, causes = {}, {None}
        cause = causes.pop() if causes else None
        added = self._connection.execute(
            "INSERT INTO changes (store, kind, object_id, change, at, event, instance)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (store, kind, object_id, change, self.now, event, cause),
        )
        if heard:
            echoes.link_change(self._connection, store, [*heard], added.lastrowid or 0)

    def record_effects(
        self, store: str, lane: str, effects: Sequence[str], event: int
    ) -> list[str]:
        """Note that an event shows effects; the first to show our own is its echo."""
        heard = {}
        for effect in effects:
            place = (store, lane, effect, event)
            is_first, instance = echoes.record_effect(
                self._connection, *place, self.now
            )
            if is_first:
                heard[effect] = instance
        self._heard = {event: heard}
        return [*heard]

    def mark_shared_change(self, event: int) -> None:
        """Note that an event shows more than what is our own: all are told of it."""
        self._heard.pop(event, None)

    def hold_order(
        self, store: str, order_id: str, event: int, reason: str, received_at: str
    ) -> None:
        """Let an order's commands wait: an event of it could not be read."""
        self._has_unreadable = True
        unreadable_orders.hold(
            self._connection, store, order_id, event, reason, received_at
        )

    def release_order(self, store: str, order_id: str, event: int, began: str) -> None:
        """Let them leave again if this event settles what the order is.

        `began` is when a confirming read began, empty for any other event.
        """
        if self._has_unreadable:
            place = (store, order_id, event, began, self.now)
            unreadable_orders.release(self._connection, *place)

    def order_document(self, store: str, object_id: str) -> dict[str, Any]:
        """Return the document of an order; empty where none is known."""
        query = "SELECT CAST(document AS BLOB) FROM orders WHERE store = ? AND id = ?"
        row = self._connection.execute(query, (store, object_id)).fetchone()
        return document_of(row[0] if row else None)

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
        """Ask for a re-read; one that is asked for already is asked for anew."""
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


def _columns(version: Version) -> tuple[str, int, bool, str, bytes, int, str]:
    return (
        version.updated_at,
        version.sequence,
        version.delivered,
        version.seen_at,
        version.digest,
        version.standing,
        version.confirmed_at,
    )
