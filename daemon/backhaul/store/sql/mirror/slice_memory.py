"""What a slice of events has read of the mirror, and what it changes there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import json

from backhaul.store.sql.commands import incidents
from backhaul.store.sql.commands.echoes import ShownEffects
from backhaul.store.sql.dialect import elements
from backhaul.store.sql.inbox.refetch_queue import Conflict, enqueue_refetches
from backhaul.store.sql.mirror.levels import ProductHeads, SliceLevels
from backhaul.store.sql.mirror.parts import SliceParts, parts
from backhaul.store.sql.mirror.rows import VERSION, SliceRows, table
from backhaul.store.sql.mirror.stock_ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from backhaul.core.resources import Order, StockChange
    from backhaul.store.inbox import Concerned
    from backhaul.store.sql.family import Connection
    from backhaul.store.sql.mirror.rows import Key

_ADD_DIGEST = """
    INSERT INTO delivery_digests (digest, id) VALUES (?, ?)
    ON CONFLICT (digest) DO NOTHING
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
_TOMBSTONES = table("tombstones", VERSION, "kind, store, id")
# Spellings are only added; reads skip a SKU that no variant has now.
_ADD_SPELLING = """
    INSERT INTO sku_spellings (store, near, sku) VALUES (?, ?, ?)
    ON CONFLICT (store, near, sku) DO NOTHING
"""
_RELEASE = """
    UPDATE commands SET hold_reason = NULL, due_at = :now
    WHERE store = :store AND lane = :lane
      AND state = 'planned' AND hold_reason = 'order'
"""
_NEWEST_CHANGE = "SELECT coalesce(max(id), 0) AS id FROM changes"
_CHANGES_OF_EVENTS = f"""
    SELECT event, id FROM changes WHERE id > :after
    AND event IN (SELECT CAST(value AS BIGINT) FROM {elements(":events", "$")})
"""  # noqa: S608 - constants
_LOOKED_UP = 64
# An array of JSON can hold no bytes.
_FIRST_EVENTS = f"""
    SELECT digest, id FROM delivery_digests
    WHERE digest IN ({", ".join("?" * _LOOKED_UP)})
"""  # noqa: S608 - constants
_LANES = {"order": "order", "level": "product"}
"""The first part of the ordering key of an object that shows effects."""


class SliceMemory:
    """What a slice of events has read of the mirror, and what it changes there."""

    def __init__(self, connection: Connection, now: str) -> None:
        self._connection = connection
        self._now = now
        self.objects = {
            kind: SliceRows(connection, one)
            for kind, one in (
                ("product", _PRODUCTS),
                ("order", _ORDERS),
                ("customer", _CUSTOMERS),
            )
        }
        self.levels = SliceLevels(connection)
        self.heads = ProductHeads(connection)
        self.tombstones = SliceRows(connection, _TOMBSTONES)
        self.variants = SliceParts(connection, _VARIANTS)
        self.items = SliceParts(connection, _ITEMS)
        self.shipments = SliceParts(connection, _SHIPMENTS)
        self.ledger = Ledger(connection)
        self.effects = ShownEffects(connection, now)
        self.deliveries: dict[bytes, int] = {}
        self.spellings: dict[tuple[str, str, str], None] = {}
        self.changes: list[dict[str, object]] = []
        self.linked: dict[int, tuple[str, list[str]]] = {}
        self.cancelled: list[tuple[str, Order]] = []
        self.released: dict[tuple[str, str], None] = {}
        self.refetches: list[tuple[Conflict, str]] = []
        self.unreadable: set[tuple[str, str]] | None = None

    def load(self, events: Iterable[Concerned], *, has_tombstones: bool) -> None:
        """Read the rows that these events concern."""
        deliveries: dict[bytes, int] = {}
        objects: dict[str, list[Key]] = {kind: [] for kind in self.objects}
        levels, heads, effects = [], [], []
        changes: list[tuple[str, StockChange]] = []
        for one in events:
            store, kind, id_ = one.store, one.kind, one.object_id
            if one.digest:
                # An event that the slice does not reach stays the first with its body.
                deliveries.setdefault(one.digest, one.event)
            if kind in objects:
                objects[kind].append((store, id_))
            if one.variants:
                levels += [(store, variant) for variant in one.variants]
                heads += [(store, id_, variant) for variant in one.variants]
            if one.effects:
                lane = f"{_LANES[kind]}:{id_}"
                effects += [(store, lane, effect) for effect in one.effects]
            if one.change:
                changes.append((store, one.change))
        self.add_deliveries(deliveries)
        for kind, keys in objects.items():
            self.objects[kind].load(keys)
            if has_tombstones and kind != "product":
                self.tombstones.load((kind, *key) for key in keys)
        self.levels.load_products(objects["product"])
        self.levels.load(levels)
        self.heads.load(heads)
        self.ledger.load(changes)
        self.effects.load(effects)

    def add_deliveries(self, events: Mapping[bytes, int]) -> None:
        """Remember which event had each of these bodies first."""
        known, connection = self.deliveries, self._connection
        new = [one for one in events.items() if one[0] not in known]
        if not new:
            return
        known |= new
        added = connection.executemany(_ADD_DIGEST, new).rowcount
        while added < len(new):
            part, new = new[:_LOOKED_UP], new[_LOOKED_UP:]
            digests = [digest for digest, _ in part]
            digests += digests[-1:] * (_LOOKED_UP - len(part))
            known |= dict(connection.execute(_FIRST_EVENTS, digests).fetchall())
            added = 0

    def flush(self) -> None:
        """Write what the events changed."""
        connection = self._connection
        for rows in (*self.objects.values(), self.tombstones, self.levels):
            rows.flush()
        for parts_ in (self.items, self.shipments, self.variants):
            parts_.flush()
        if self.spellings:
            connection.executemany(_ADD_SPELLING, [*self.spellings])
            self.spellings = {}
        self.ledger.flush()
        self._flush_commands()
        self._flush_changes()
        self.effects.flush()

    def _flush_commands(self) -> None:
        """Wake commands on hold, add incidents, and queue refetches."""
        connection = self._connection
        if self.released:
            values = [
                {"now": self._now, "store": store, "lane": lane}
                for store, lane in self.released
            ]
            connection.executemany(_RELEASE, values)
        incidents.add_of_orders(connection, self.cancelled, self._now)
        enqueue_refetches(connection, self.refetches, self._now)
        self.released, self.cancelled, self.refetches = {}, [], []

    def _flush_changes(self) -> None:
        """Add the rows of the change feed, and link them to the effects they report."""
        connection = self._connection
        if not self.changes:
            return
        after = 0
        if self.linked:
            after = connection.execute(_NEWEST_CHANGE).fetchone()[0]
        connection.executemany(_ADD_CHANGE, self.changes)
        if self.linked:
            values = {"after": after, "events": json.encode([*self.linked]).decode()}
            for event, change in connection.execute(_CHANGES_OF_EVENTS, values):
                store, effects = self.linked[event]
                self.effects.link_change(store, effects, change)
        self.changes, self.linked = [], {}
