"""Migration steps that rewrite rows: keys of lines, and stock moves stored twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator

    from sqlite_utils import Database


class _Parts(Struct, frozen=True):
    """A table of parts; `shown_as` is what its parent's document calls them."""

    name: str
    parent: str
    columns: str
    indices: tuple[str, ...]
    shown_as: str


_LINES = _Parts(
    "order_items",
    "order_id",
    "store TEXT, id TEXT, order_id TEXT NOT NULL, product_id TEXT, variant_id TEXT,"
    " sku TEXT, title TEXT, quantity INTEGER NOT NULL, fulfilled_quantity INTEGER,"
    " unit_price_minor INTEGER",
    (
        "order_items_sku ON order_items(sku)",
        "order_items_variant ON order_items(variant_id)",
    ),
    "items",
)
_PARCELS = _Parts(
    "shipments",
    "order_id",
    "store TEXT, id TEXT, order_id TEXT NOT NULL, tracking_company TEXT,"
    " tracking_number TEXT, shipped_at TEXT",
    ("shipments_tracking ON shipments(tracking_number)",),
    "shipments",
)
_VARIANTS = _Parts(
    "variants",
    "product_id",
    "store TEXT, id TEXT, product_id TEXT NOT NULL, sku TEXT, barcode TEXT,"
    " title TEXT, price_minor INTEGER, currency TEXT, updated_at TEXT NOT NULL",
    (
        "variants_id ON variants(id, store)",
        "variants_sku ON variants(sku)",
        "variants_barcode ON variants(barcode) WHERE barcode IS NOT NULL",
    ),
    "variants",
)
_LACKS = """
    iif(json_valid(document), json_array_length(document, '$.{shown_as}'), 0) > (
        SELECT count(*) FROM {name} c WHERE c.store = p.store AND c.{parent} = p.id)
"""
# If two products show a variant, it belongs to the later one.
_VARIANT = """
    LEFT JOIN variants v ON v.store = l.store AND v.id = l.variant_id
      AND NOT EXISTS (
        SELECT 1 FROM variants n WHERE n.store = v.store AND n.id = v.id
        AND (n.updated_at, n.product_id) > (v.updated_at, v.product_id))
"""
_VIEWS = {
    "open_orders": """
        SELECT store, id, number, name, placed_at, status, financial_status,
               fulfillment_status, awaiting_confirmation,
               (SELECT sum(quantity - fulfilled_quantity) FROM order_items i
                WHERE i.store = o.store AND i.order_id = o.id) AS units_to_ship,
               total_minor, currency, customer_id
        FROM orders o
        WHERE cancelled_at IS NULL AND fulfillment_status != 'FULFILLED'
    """,
    "order_lines": """
        SELECT i.store, i.id, i.order_id, o.number AS order_number,
               o.name AS order_name, o.placed_at, o.status AS order_status, i.sku,
               i.title, i.quantity, i.fulfilled_quantity,
               CASE WHEN o.cancelled_at IS NULL THEN i.quantity - i.fulfilled_quantity
                    ELSE 0 END AS units_to_ship,
               i.unit_price_minor, o.currency, i.product_id, i.variant_id
        FROM order_items i JOIN orders o ON o.store = i.store AND o.id = i.order_id
    """,
    "stock": f"""
        SELECT l.store, v.sku, p.title AS product, v.title AS variant, l.stock,
               l.updated_at AS since, v.barcode, l.product_id, l.variant_id
        FROM inventory_levels l {_VARIANT}
        LEFT JOIN products p ON p.store = l.store AND p.id = l.product_id
    """,  # noqa: S608 - constants
    "stock_moves": f"""
        SELECT l.id, l.store, l.at, v.sku, p.title AS product, v.title AS variant,
               l.adjustment, l.stock_after, l.reason, o.name AS order_name, l.cause,
               l.product_id, l.variant_id
        FROM stock_ledger l {_VARIANT}
        LEFT JOIN products p ON p.store = l.store AND p.id = l.product_id
        LEFT JOIN orders o ON o.store = l.store AND o.id = l.cause
    """,  # noqa: S608 - constants
}


def add_part_keys(db: Database) -> None:
    """Lines, parcels and variants by their parent; lost rows are read again."""
    # A table is not renamed while a view names one that is not there.
    for view in _VIEWS:
        db.execute(f"DROP VIEW {view}")
    for parts in (_LINES, _PARCELS, _VARIANTS):
        _rekey(db, parts)
    _disown(db, "orders", _LINES, _PARCELS)
    _disown(db, "products", _VARIANTS)
    for view, query in _VIEWS.items():
        db.execute(f"CREATE VIEW {view} AS {query}")


def _rekey(db: Database, parts: _Parts) -> None:
    key = f"PRIMARY KEY (store, {parts.parent}, id)"
    db.execute(f"CREATE TABLE rekeyed ({parts.columns}, {key})")
    # The order of the key writes its index from one end to the other.
    db.execute(
        f"INSERT INTO rekeyed SELECT * FROM {parts.name}"  # noqa: S608 - constants
        f" ORDER BY store, {parts.parent}, id"
    )
    db.execute(f"DROP TABLE {parts.name}")
    db.execute(f"ALTER TABLE rekeyed RENAME TO {parts.name}")
    for index in parts.indices:
        db.execute(f"CREATE INDEX {index}")


def _disown(db: Database, parents: str, *shown: _Parts) -> None:
    """Clear the digests of objects that lack rows: a full sync writes them again."""
    lacks = " OR ".join(
        _LACKS.format(shown_as=parts.shown_as, name=parts.name, parent=parts.parent)
        for parts in shown
    )
    # A deleted product shows parts, and the mirror keeps no rows for them.
    db.execute(
        f"UPDATE {parents} AS p SET digest = x'' WHERE ({lacks})"  # noqa: S608 - constants
        + (" AND deleted_at IS NULL" if parents == "products" else "")
    )


# A move with the event that reported it came from a version that joins them.
_PAIRS = """
    SELECT n.id, i.id, n.at LIKE '%.000Z' OR n.at NOT LIKE '%.%'
    FROM stock_ledger n JOIN stock_ledger i
      ON i.store = n.store AND i.variant_id = n.variant_id AND i.at = n.at
    WHERE n.adjustment_id IS NULL AND n.told_by IS NULL
      AND i.adjustment_id IS NOT NULL AND i.told_by IS NULL
      AND i.product_id = n.product_id AND i.stock_after = n.stock_after
      AND n.adjustment IN (0, i.adjustment) AND n.reason IN ('', i.reason)
      AND (n.cause IS NULL OR n.cause = i.cause)
    ORDER BY n.id, i.id
"""
_NAMED = """
    SELECT adjustment_id, adjustment, reason, cause FROM stock_ledger WHERE id = ?
"""
_NAME = """
    UPDATE stock_ledger SET adjustment_id = ?, adjustment = ?, reason = ?, cause = ?
    WHERE id = ?
"""
_REMOVE = "DELETE FROM stock_ledger WHERE id = ?"


def join(connection: sqlite3.Connection) -> int:
    """Make each such pair one row, in the place of the older; return their number."""
    pairs = list(_matched(connection.execute(_PAIRS).fetchall()))
    places: dict[int, int] = {}
    for nameless, named in pairs:
        place = places.get(named, named)
        known = connection.execute(_NAMED, (place,)).fetchone()
        places[named] = min(nameless, place)
        connection.execute(_REMOVE, (max(nameless, place),))
        connection.execute(_NAME, (*known, places[named]))
    return len(pairs)


def _matched(pairs: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, int]]:
    """Yield each row without an id, and the row with an id that repeats it.

    Within a whole second goods may leave, come back and leave again: then a row with an
    id repeats at most one row.
    """
    joined: set[int] = set()
    taken: set[int] = set()
    for nameless, named, is_coarse in pairs:
        if nameless not in joined and not (is_coarse and named in taken):
            joined.add(nameless)
            taken.add(named)
            yield nameless, named
