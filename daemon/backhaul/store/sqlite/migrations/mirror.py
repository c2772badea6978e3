"""Migrations of the mirror: 20 to 23, 87, 91, 96, 101 and 102.

They are frozen like the others; `migrations` registers them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.sku_matching import near_text
from backhaul.store.sql.mirror.payment_states import UNKNOWN
from backhaul.store.sqlite.migrations import row_rewrites

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlite_utils import Database

    from backhaul.store.sql.family import Connection

_REPLACED = (
    "idx_orders_store_number",
    "idx_orders_store_external_id",
    "idx_variants_store_sku",
    "idx_stock_ledger_store_variant_id_at",
)
# An index begins with the column that selects most, not with the store: then it also
# serves an operator who has one store and does not name it.
_INDICES = (
    "orders_number ON orders(number, store)",
    "orders_external_id ON orders(external_id) WHERE external_id IS NOT NULL",
    "orders_name ON orders(name)",
    "orders_customer ON orders(customer_id)",
    "orders_status ON orders(status, placed_at)",
    "orders_open ON orders(placed_at)"
    " WHERE cancelled_at IS NULL AND fulfillment_status != 'FULFILLED'",
    "order_items_sku ON order_items(sku)",
    "shipments_tracking ON shipments(tracking_number)",
    "products_handle ON products(handle)",
    "products_external_id ON products(external_id) WHERE external_id IS NOT NULL",
    "variants_sku ON variants(sku)",
    "customers_email ON customers(email COLLATE NOCASE)",
    "levels_stock ON inventory_levels(stock)",
    "ledger_variant ON stock_ledger(variant_id, at)",
    "ledger_product ON stock_ledger(product_id, at)",
    "ledger_cause ON stock_ledger(cause)",
    "records_command ON records(command_id) WHERE command_id IS NOT NULL",
)
_OPEN_ORDERS = """
    SELECT store, id, number, name, placed_at, status, financial_status,
           fulfillment_status, awaiting_confirmation,
           (SELECT sum(quantity - fulfilled_quantity) FROM order_items i
            WHERE i.store = o.store AND i.order_id = o.id) AS units_to_ship,
           total_minor, currency, customer_id
    FROM orders o WHERE cancelled_at IS NULL AND fulfillment_status != 'FULFILLED'
"""
_ORDER_LINES = """
    SELECT i.store, i.id, i.order_id, o.number AS order_number, o.name AS order_name,
           o.placed_at, o.status AS order_status, i.sku, i.title, i.quantity,
           i.fulfilled_quantity,
           CASE WHEN o.cancelled_at IS NULL THEN i.quantity - i.fulfilled_quantity
                ELSE 0 END AS units_to_ship,
           i.unit_price_minor, o.currency, i.product_id, i.variant_id
    FROM order_items i JOIN orders o ON o.store = i.store AND o.id = i.order_id
"""
_STOCK = """
    SELECT l.store, v.sku, p.title AS product, v.title AS variant, l.stock,
           l.updated_at AS since, v.barcode, l.product_id, l.variant_id
    FROM inventory_levels l
    LEFT JOIN variants v ON v.store = l.store AND v.id = l.variant_id
    LEFT JOIN products p ON p.store = l.store AND p.id = l.product_id
"""
_STOCK_MOVES = """
    SELECT l.id, l.store, l.at, v.sku, p.title AS product, v.title AS variant,
           l.adjustment, l.stock_after, l.reason, o.name AS order_name, l.cause,
           l.product_id, l.variant_id
    FROM stock_ledger l
    LEFT JOIN variants v ON v.store = l.store AND v.id = l.variant_id
    LEFT JOIN products p ON p.store = l.store AND p.id = l.product_id
    LEFT JOIN orders o ON o.store = l.store AND o.id = l.cause
"""
_REVENUE_BY_DAY = """
    SELECT store, substr(placed_at, 1, 10) AS day, currency, count(*) AS orders,
           sum(total_minor) AS revenue_minor
    FROM orders WHERE cancelled_at IS NULL AND placed_at IS NOT NULL
    GROUP BY store, day, currency
"""
_EVENTS = """
    SELECT i.id, i.store, coalesce(o.topic, i.topic) AS topic, o.event_id,
           i.received_at, coalesce(o.state, 'received') AS state, i.body,
           i.headers, i.kind AS source, o.kind, o.object_id, o.detail, o.folded_at,
           i.erased_at, i.erased_by
    FROM inbox i LEFT JOIN event_outcomes o ON o.id = i.id
"""
_SEARCHABLE = """
    CREATE TABLE searchable (
        id INTEGER PRIMARY KEY, kind TEXT NOT NULL, store TEXT NOT NULL,
        object_id TEXT NOT NULL, title TEXT NOT NULL, words TEXT NOT NULL,
        UNIQUE (object_id, kind, store))
"""
# As sqlite-utils does, but in the running transaction: sqlite-utils commits it.
_SEARCH_INDEX = (
    """
    CREATE VIRTUAL TABLE searchable_fts USING fts5(
        title, words, content='searchable', content_rowid='id',
        tokenize='unicode61 remove_diacritics 2')
    """,
    """
    CREATE TRIGGER searchable_ai AFTER INSERT ON searchable BEGIN
        INSERT INTO searchable_fts (rowid, title, words)
        VALUES (new.id, new.title, new.words);
    END
    """,
    """
    CREATE TRIGGER searchable_ad AFTER DELETE ON searchable BEGIN
        INSERT INTO searchable_fts (searchable_fts, rowid, title, words)
        VALUES ('delete', old.id, old.title, old.words);
    END
    """,
    """
    CREATE TRIGGER searchable_au AFTER UPDATE ON searchable BEGIN
        INSERT INTO searchable_fts (searchable_fts, rowid, title, words)
        VALUES ('delete', old.id, old.title, old.words);
        INSERT INTO searchable_fts (rowid, title, words)
        VALUES (new.id, new.title, new.words);
    END
    """,
)


def add_questions(db: Database) -> None:
    """Indexes and views for the queries of docs/mirror.md."""
    for name in _REPLACED:
        db.execute(f"DROP INDEX {name}")
    for index in _INDICES:
        db.execute(f"CREATE INDEX {index}")
    db.create_view("open_orders", _OPEN_ORDERS)
    db.create_view("order_lines", _ORDER_LINES)
    db.create_view("stock", _STOCK)
    db.create_view("stock_moves", _STOCK_MOVES)
    db.create_view("revenue_by_day", _REVENUE_BY_DAY)


def add_erasure(db: Database) -> None:
    """When and why an event's body was erased: for its age or for a customer."""
    # Only an erased event is updated, so an accept is still one page write.
    db.execute("ALTER TABLE inbox ADD COLUMN erased_at TEXT")
    db.execute("ALTER TABLE inbox ADD COLUMN erased_by TEXT")
    db.create_view("events", _EVENTS, replace=True)


def add_search(db: Database) -> None:
    """Full-text search, in tables of its own that folding never touches."""
    create_search(db.conn)


def create_search(connection: Connection) -> None:
    """Create the search tables, empty; triggers keep the index equal to its table."""
    for statement in (_SEARCHABLE, *_SEARCH_INDEX):
        connection.execute(statement)


def add_erased_customers(db: Database) -> None:
    """Erased customers, known by id and e-mail digest; the audit log."""
    db.execute(
        """
        CREATE TABLE forgotten (
            store TEXT NOT NULL, customer_id TEXT NOT NULL, at TEXT NOT NULL,
            PRIMARY KEY (store, customer_id)) WITHOUT ROWID
        """
    )
    db.execute(
        """
        CREATE TABLE forgotten_addresses (
            digest BLOB PRIMARY KEY, store TEXT NOT NULL, customer_id TEXT NOT NULL
        ) WITHOUT ROWID
        """
    )
    db.execute(
        """
        CREATE TABLE audit (
            id INTEGER PRIMARY KEY, at TEXT NOT NULL, who TEXT NOT NULL,
            action TEXT NOT NULL, detail TEXT NOT NULL)
        """
    )


def add_reporting_event(db: Database) -> None:
    """The event that reported a stock movement without the platform's id of it."""
    db.execute("ALTER TABLE stock_ledger ADD COLUMN told_by TEXT")


def join_doubled_moves(db: Database) -> None:
    """Stock movements that were stored twice become one row again."""
    row_rewrites.join(db.conn)


_WORD = "upper(trim(financial_status))"
_UNREFUNDED_OPEN_ORDERS = f"""
    SELECT store, id, number, name, placed_at, status, financial_status,
           fulfillment_status, awaiting_confirmation,
           (SELECT sum(quantity - fulfilled_quantity) FROM order_items i
            WHERE i.store = o.store AND i.order_id = o.id) AS units_to_ship,
           total_minor, currency, customer_id
    FROM orders o WHERE cancelled_at IS NULL AND fulfillment_status != 'FULFILLED'
      AND {_WORD} IS NOT 'REFUNDED'
"""  # noqa: S608 - constants
_UNREFUNDED_ORDER_LINES = f"""
    SELECT i.store, i.id, i.order_id, o.number AS order_number, o.name AS order_name,
           o.placed_at, o.status AS order_status, i.sku, i.title, i.quantity,
           i.fulfilled_quantity,
           CASE WHEN o.cancelled_at IS NULL AND {_WORD} IS NOT 'REFUNDED'
                THEN i.quantity - i.fulfilled_quantity ELSE 0 END AS units_to_ship,
           i.unit_price_minor, o.currency, i.product_id, i.variant_id
    FROM order_items i JOIN orders o ON o.store = i.store AND o.id = i.order_id
"""  # noqa: S608 - constants


def add_payment_states(db: Database) -> None:
    """Refunded orders are no open orders; unknown statuses are found by an index."""
    db.create_view("open_orders", _UNREFUNDED_OPEN_ORDERS, replace=True)
    db.create_view("order_lines", _UNREFUNDED_ORDER_LINES, replace=True)
    db.execute(
        "CREATE INDEX orders_unknown_status ON orders(store, financial_status)"
        f" WHERE {UNKNOWN}"
    )


def create_spellings(db: Database) -> None:
    """The table of SKU spellings, with the SKUs that the mirror has already."""
    db.execute(
        "CREATE TABLE sku_spellings (store TEXT NOT NULL, near TEXT NOT NULL,"
        " sku TEXT NOT NULL, PRIMARY KEY (store, near, sku)) WITHOUT ROWID"
    )
    query = (
        "SELECT DISTINCT store, sku FROM variants WHERE sku IS NOT NULL AND sku != ''"
    )
    _add_spellings(db, db.execute(query).fetchall())


def add_alphabets(db: Database) -> None:
    """SKUs with letters of other alphabets are found under what they look like."""
    query = "SELECT store, sku FROM sku_spellings WHERE sku GLOB '*[^ -~]*'"
    _add_spellings(db, db.execute(query).fetchall())


def _add_spellings(db: Database, skus: Iterable[tuple[str, str]]) -> None:
    db.conn.executemany(
        "INSERT OR IGNORE INTO sku_spellings (store, near, sku) VALUES (?, ?, ?)",
        [(store, near_text(sku), sku) for store, sku in skus],
    )
