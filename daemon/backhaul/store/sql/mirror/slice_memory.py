"""What a slice of events has read of the mirror, and what it changes there."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, json

from backhaul.store.sql.commands import incidents
from backhaul.store.sql.commands.echoes import ShownEffects
from backhaul.store.sql.dialect import batch, elements, is_damaged
from backhaul.store.sql.inbox.refetch_queue import Conflict, enqueue_refetches
from backhaul.store.sql.mirror.rows import (
    KEYS,
    VERSION,
    Changes,
    SliceRows,
    Table,
    Values,
    key_is,
    part_of_key,
    read_by_keys,
    table,
)
from backhaul.store.sql.mirror.stock_ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from backhaul.core.resources import Order, StockChange
    from backhaul.store.inbox import Concerned
    from backhaul.store.sql.family import Connection
    from backhaul.store.sql.mirror.rows import Key


class Parts(Struct, frozen=True):
    """A table of parts, with the statements that concern all parts of a parent.

    A part's id is unique only within its parent. A part that moves to another parent
    belongs to both for a while, and a platform may number the parts of each parent from
    one.
    """

    table: Table
    select: str
    delete_all: str


def parts(name: str, parent: str, columns: str) -> Parts:
    """Return a table with these columns besides `store`, its parent's id and `id`."""
    of_part = table(name, columns, f"store, {parent}, id")
    shown = ", ".join(f"t.{column}" for column in of_part.columns)
    of_parent = key_is("t", ("store", parent))
    return Parts(
        of_part,
        f"SELECT {shown} FROM {KEYS} {name} t ON {of_parent}",  # noqa: S608 - constants
        f"DELETE FROM {name} WHERE store = ? AND {parent} = ?",  # noqa: S608 - constants
    )


class SliceParts:
    """The parts of the objects that a slice changes."""

    def __init__(self, connection: Connection, parts_: Parts) -> None:
        self._connection = connection
        self._parts = parts_
        self._stored: dict[Key, Mapping[str, Values]] = {}
        self._changed: dict[Key, Mapping[str, Values]] = {}

    def put_all(
        self, parent: Key, rows: Mapping[str, Values], *, is_new: bool = False
    ) -> None:
        """Replace all parts of an object, from their ids to their rows.

        The table has no parts of an object that `is_new`.
        """
        if is_new:
            self._stored.setdefault(parent, {})
        if rows or self.known(parent) != {}:
            self._changed[parent] = rows

    def known(self, parent: Key) -> Mapping[str, Values] | None:
        """Return the parts of an object, None if the slice has not read them."""
        changed = self._changed.get(parent)
        return self._stored.get(parent) if changed is None else changed

    def flush(self) -> None:
        """Write the parts that differ from the stored ones."""
        if not self._changed:
            return
        self._load(self._changed)
        changes = Changes(self._parts.table)
        for parent, rows in self._changed.items():
            stored = self._stored[parent]
            self._stored[parent] = rows
            if any(map(is_damaged, stored)):
                # No statement finds such a part by its id, and it would stay beside
                # the new ones.
                self._connection.execute(self._parts.delete_all, parent)
                stored = {}
            if not stored:
                changes.new += rows.values()
                continue
            for id_ in stored.keys() - rows.keys():
                changes.add((*parent, id_), stored[id_], None)
            for id_, row in rows.items():
                changes.add((*parent, id_), stored.get(id_), row)
        changes.write(self._connection)
        self._changed = {}

    def _load(self, parents: Iterable[Key]) -> None:
        missing = [parent for parent in parents if parent not in self._stored]
        if not missing:
            return
        stored: dict[Key, dict[str, Values]] = {parent: {} for parent in missing}
        found = read_by_keys(self._connection, self._parts.select, missing)
        for row in found:
            store, parent, id_, *_ = row
            stored[store, parent][id_] = tuple(row)
        self._stored |= stored


_LEVELS = table(
    "inventory_levels", f"product_id, stock, {VERSION}", "store, variant_id"
)
PRODUCT_OF_LEVEL = 2
"""The place of the product's id in the row of a level."""
_OF_PRODUCTS = f"""
    SELECT {", ".join(f"t.{column}" for column in _LEVELS.columns)}
    FROM {KEYS} inventory_levels t ON {key_is("t", ("store", "product_id"))}
"""  # noqa: S608 - constants
_DELETE_OF_PRODUCT = """
    DELETE FROM inventory_levels WHERE store = :store AND product_id = :product
"""
_HEADS = f"""
    SELECT p.store, p.id, {part_of_key(2)}, p.updated_at, p.deleted_at,
           EXISTS (SELECT 1 FROM variants v WHERE v.store = p.store
                   AND v.product_id = p.id AND v.id = {part_of_key(2)})
    FROM {KEYS} products p ON {key_is("p", ("store", "id"))}
"""  # noqa: S608 - constants


class SliceLevels(SliceRows):
    """The stock levels that a slice has read or changed, by store and variant."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, _LEVELS)
        self._products: dict[Key, dict[Key, None]] = {}
        self._whole: set[Key] = set()

    def load_products(self, products: Iterable[Key]) -> None:
        """Read all levels of these products."""
        missing = dict.fromkeys(one for one in products if one not in self._whole)
        if not missing:
            return
        self._whole.update(missing)
        for row in read_by_keys(self._connection, _OF_PRODUCTS, missing):
            key = row[0], row[1]
            if key not in self._stored:
                self._keep(key, tuple(row))

    def _keep(self, key: Key, row: Values) -> None:
        super()._keep(key, row)
        self._products.setdefault((row[0], row[PRODUCT_OF_LEVEL]), {})[key] = None

    def put(self, key: Key, row: Values | None) -> None:
        super().put(key, row)
        if row is not None:
            self._products.setdefault((row[0], row[PRODUCT_OF_LEVEL]), {})[key] = None

    def of_product(self, product: Key) -> Iterator[tuple[Key, Values]]:
        """Yield the levels of a product, with their keys."""
        self.load_products((product,))
        for key in [*self._products.get(product, ())]:
            row = self.get(key)
            if row is not None and row[PRODUCT_OF_LEVEL] == product[1]:
                yield key, row

    def flush(self) -> None:
        for key, row in [*self._changed.items()]:
            if row is None and any(map(is_damaged, key)):
                self._delete_damaged(key)
        super().flush()

    def _delete_damaged(self, damaged: Key) -> None:
        """Delete a level that no statement finds by its variant's id.

        It is deleted with all levels of its product; the others are written again.
        """
        old = self._stored[damaged]
        if old is None:
            return
        product = old[PRODUCT_OF_LEVEL]
        values = {"store": damaged[0], "product": product}
        self._connection.execute(_DELETE_OF_PRODUCT, values)
        for key, row in self._stored.items():
            if row is None or key[0] != damaged[0]:
                continue
            if row[PRODUCT_OF_LEVEL] == product:
                self._stored[key] = None
                self._changed.setdefault(key, row)


Head: TypeAlias = "tuple[str, str | None, bool]"
"""A product's `updated_at` and `deleted_at`, and whether it has a variant."""


class ProductHeads:
    """What a stock level's event needs of its product, without the product's document.

    The key is the store, the product's id and the variant's id.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stored: dict[Key, Head | None] = {}

    def load(self, keys: Iterable[Key]) -> None:
        """Read what was not read yet."""
        missing = dict.fromkeys(key for key in keys if key not in self._stored)
        if not missing:
            return
        self._stored |= missing
        for (
            store,
            product,
            variant,
            updated_at,
            deleted_at,
            has_variant,
        ) in read_by_keys(self._connection, _HEADS, missing):
            head = updated_at, deleted_at, bool(has_variant)
            self._stored[store, product, variant] = head

    def get(self, key: Key) -> Head | None:
        """Return the stored state of a product, None if there is no such product."""
        self.load((key,))
        return self._stored[key]


_ADD_DIGEST = batch("""
    INSERT INTO delivery_digests (digest, id) VALUES (?, ?)
    ON CONFLICT (digest) DO NOTHING
""")
_ADD_CHANGE = batch("""
    INSERT INTO changes (store, kind, object_id, change, at, event, instance)
    VALUES (?, ?, ?, ?, ?, ?, ?)
""")
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
_ADD_SPELLING = batch("""
    INSERT INTO sku_spellings (store, near, sku) VALUES (?, ?, ?)
    ON CONFLICT (store, near, sku) DO NOTHING
""")
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
        self.changes: list[Values] = []
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
