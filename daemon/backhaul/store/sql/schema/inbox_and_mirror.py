"""Tables of the inbox (events, outcomes, the change feed) and of the mirror."""

from __future__ import annotations

from backhaul.store.sql.mirror.payment_states import UNKNOWN

INBOX: tuple[str, ...] = (
    # Append-only, without a secondary index: to accept an event writes one page.
    """
    CREATE TABLE inbox (
        id INTEGER PRIMARY KEY, store TEXT NOT NULL, kind TEXT NOT NULL,
        topic TEXT NOT NULL, received_at TEXT NOT NULL, headers BLOB NOT NULL,
        body BLOB NOT NULL, erased_at TEXT, erased_by TEXT, digest BLOB
    )
    """,
    """
    CREATE TABLE event_outcomes (
        id INTEGER PRIMARY KEY REFERENCES inbox(id), state TEXT NOT NULL,
        topic TEXT NOT NULL, event_id TEXT, kind TEXT, object_id TEXT, detail TEXT,
        folded_at TEXT NOT NULL
    )
    """,
    "CREATE INDEX outcomes_object ON event_outcomes(object_id)",
    """
    CREATE INDEX outcomes_unhandled ON event_outcomes(id) WHERE state = 'unhandled'
    """,
    # The first event with each body, so that a repeated delivery is recognized.
    """
    CREATE TABLE delivery_digests (
        digest BLOB PRIMARY KEY, id INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE changes (
        id INTEGER PRIMARY KEY, store TEXT NOT NULL, kind TEXT NOT NULL,
        object_id TEXT NOT NULL, change TEXT NOT NULL, at TEXT NOT NULL,
        event INTEGER NOT NULL, instance TEXT
    )
    """,
    """
    CREATE TABLE refetch_queue (
        store TEXT NOT NULL, kind TEXT NOT NULL, object_id TEXT NOT NULL,
        reason TEXT NOT NULL, event INTEGER, asked_at TEXT NOT NULL,
        asks INTEGER NOT NULL DEFAULT 1, due_at TEXT NOT NULL,
        failures INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (store, kind, object_id)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX refetch_queue_due ON refetch_queue(store, due_at)",
    """
    CREATE TABLE quarantine (
        id INTEGER PRIMARY KEY, source TEXT NOT NULL, name TEXT NOT NULL,
        key TEXT NOT NULL, raw BLOB NOT NULL, reason TEXT NOT NULL,
        locator TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'open', at TEXT NOT NULL,
        reported INTEGER NOT NULL DEFAULT 0, UNIQUE (source, name, key)
    )
    """,
    """
    CREATE INDEX quarantine_unreported ON quarantine(name, id)
        WHERE source = 'record' AND reported = 0
    """,
    """
    CREATE TABLE unreadable_orders (
        store TEXT NOT NULL, order_id TEXT NOT NULL, event INTEGER NOT NULL,
        reason TEXT NOT NULL, since TEXT NOT NULL, seen_at TEXT NOT NULL,
        PRIMARY KEY (store, order_id)
    ) WITHOUT ROWID
    """,
)
# A daemon of an earlier version, which knows no classes, still adds rows.
QUARANTINE_REASONS: tuple[str, ...] = (
    "ALTER TABLE quarantine ADD COLUMN reason_class TEXT NOT NULL DEFAULT 'other'",
    "ALTER TABLE quarantine ADD COLUMN subject TEXT NOT NULL DEFAULT ''",
)
# Rows that were retried or dropped stay for ever; few are open.
QUARANTINE_STATES: tuple[str, ...] = (
    "CREATE INDEX quarantine_states ON quarantine(state, id)",
)
# As an expression, so that no other query of a store takes these indexes for its own.
ORDER_STORE = "store || ''"
ORDER_PLACED = "coalesce(placed_at, '')"
ORDER_TAB = """
    CASE WHEN cancelled_at IS NOT NULL THEN 'CANCELLED'
         ELSE coalesce(fulfillment_status, '') END
"""
"""Under which tab of a list an order is; the indexes and the queries use this text."""
ORDER_LISTS: tuple[str, ...] = (
    f"CREATE INDEX orders_listed ON orders(({ORDER_STORE}), ({ORDER_PLACED}), id)",
    f"""
    CREATE INDEX orders_tab
        ON orders(({ORDER_STORE}), ({ORDER_TAB}), ({ORDER_PLACED}), id)
    """,
)
STOCK_SKU = "coalesce(sku, '')"
"""By which text a list of stock is sorted; the index and the queries use this text."""
STOCK_LISTS: tuple[str, ...] = (
    f"CREATE INDEX variants_listed ON variants(({ORDER_STORE}), ({STOCK_SKU}), id)",
    f"""
    CREATE INDEX levels_listed
        ON inventory_levels(({ORDER_STORE}), stock, variant_id)
    """,
)
# In each of these states are few rows of a long list.
LIST_INDEXES: tuple[str, ...] = (
    """
    CREATE INDEX outcomes_failed ON event_outcomes(state, id)
        WHERE state IN ('quarantined', 'unhandled')
    """,
    "CREATE INDEX commands_rejected ON commands(seq) WHERE state = 'rejected'",
    """
    CREATE INDEX targets_discarded ON stock_targets(seq) WHERE state = 'discarded'
    """,
    """
    CREATE INDEX deliveries_stopped ON deliveries(state, seq)
        WHERE state IN ('parked', 'rejected')
    """,
)
SEARCH_DOCUMENTS = """
    CREATE TABLE search_documents (
        id INTEGER PRIMARY KEY, kind TEXT NOT NULL, store TEXT NOT NULL,
        object_id TEXT NOT NULL, title TEXT NOT NULL, words TEXT NOT NULL,
        UNIQUE (object_id, kind, store)
    )
    """
MIRROR: tuple[str, ...] = (
    """
    CREATE TABLE products (
        store TEXT, id TEXT, handle TEXT, title TEXT NOT NULL, status TEXT NOT NULL,
        external_id TEXT, updated_at TEXT NOT NULL, deleted_at TEXT, document TEXT,
        sequence INTEGER, delivered INTEGER, seen_at TEXT, digest BLOB,
        standing INTEGER NOT NULL DEFAULT 0, confirmed_at TEXT DEFAULT '',
        PRIMARY KEY (store, id)
    )
    """,
    "CREATE INDEX products_handle ON products(handle)",
    """
    CREATE INDEX products_external_id ON products(external_id)
        WHERE external_id IS NOT NULL
    """,
    """
    CREATE TABLE variants (
        store TEXT, id TEXT, product_id TEXT NOT NULL, sku TEXT, barcode TEXT,
        title TEXT, price_minor INTEGER, currency TEXT, updated_at TEXT NOT NULL,
        PRIMARY KEY (store, product_id, id)
    )
    """,
    "CREATE INDEX variants_id ON variants(id, store)",
    "CREATE INDEX variants_sku ON variants(sku)",
    "CREATE INDEX variants_barcode ON variants(barcode) WHERE barcode IS NOT NULL",
    # Spellings of SKUs without signs and case, to suggest near matches.
    """
    CREATE TABLE sku_spellings (
        store TEXT NOT NULL, near TEXT NOT NULL, sku TEXT NOT NULL,
        PRIMARY KEY (store, near, sku)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE inventory_levels (
        store TEXT, product_id TEXT NOT NULL, variant_id TEXT, stock INTEGER NOT NULL,
        updated_at TEXT NOT NULL, sequence INTEGER, delivered INTEGER, seen_at TEXT,
        digest BLOB, standing INTEGER NOT NULL DEFAULT 0,
        confirmed_at TEXT DEFAULT '', PRIMARY KEY (store, variant_id)
    )
    """,
    "CREATE INDEX levels_product ON inventory_levels(store, product_id)",
    "CREATE INDEX levels_stock ON inventory_levels(stock)",
    """
    CREATE TABLE stock_ledger (
        id INTEGER PRIMARY KEY, store TEXT NOT NULL, product_id TEXT NOT NULL,
        variant_id TEXT NOT NULL, adjustment INTEGER NOT NULL,
        stock_after INTEGER NOT NULL, reason TEXT, cause TEXT, adjustment_id TEXT,
        at TEXT, told_by TEXT
    )
    """,
    """
    CREATE UNIQUE INDEX ledger_adjustment
        ON stock_ledger(store, adjustment_id, variant_id)
    """,
    "CREATE INDEX ledger_variant ON stock_ledger(variant_id, at)",
    "CREATE INDEX ledger_product ON stock_ledger(product_id, at)",
    "CREATE INDEX ledger_cause ON stock_ledger(cause)",
    """
    CREATE TABLE orders (
        store TEXT, id TEXT, number INTEGER, name TEXT, external_id TEXT,
        awaiting_confirmation INTEGER, status TEXT NOT NULL, financial_status TEXT,
        fulfillment_status TEXT, placed_at TEXT, cancelled_at TEXT,
        total_minor INTEGER, currency TEXT, customer_id TEXT,
        updated_at TEXT NOT NULL, document TEXT NOT NULL, sequence INTEGER,
        delivered INTEGER, seen_at TEXT, digest BLOB,
        standing INTEGER NOT NULL DEFAULT 0, confirmed_at TEXT DEFAULT '',
        PRIMARY KEY (store, id)
    )
    """,
    # An index begins with the column that selects most, not with the store: then it
    # also serves an operator who has one store and does not name it.
    "CREATE INDEX orders_number ON orders(number, store)",
    """
    CREATE INDEX orders_external_id ON orders(external_id) WHERE external_id IS NOT NULL
    """,
    "CREATE INDEX orders_name ON orders(name)",
    "CREATE INDEX orders_customer ON orders(customer_id)",
    "CREATE INDEX orders_status ON orders(status, placed_at)",
    """
    CREATE INDEX orders_open ON orders(placed_at)
        WHERE cancelled_at IS NULL AND fulfillment_status != 'FULFILLED'
    """,
    f"""
    CREATE INDEX orders_unknown_status ON orders(store, financial_status)
        WHERE {UNKNOWN}
    """,
    """
    CREATE TABLE order_items (
        store TEXT, id TEXT, order_id TEXT NOT NULL, product_id TEXT, variant_id TEXT,
        sku TEXT, title TEXT, quantity INTEGER NOT NULL, fulfilled_quantity INTEGER,
        unit_price_minor INTEGER, PRIMARY KEY (store, order_id, id)
    )
    """,
    "CREATE INDEX order_items_sku ON order_items(sku)",
    "CREATE INDEX order_items_variant ON order_items(variant_id)",
    """
    CREATE TABLE shipments (
        store TEXT, id TEXT, order_id TEXT NOT NULL, tracking_company TEXT,
        tracking_number TEXT, shipped_at TEXT, PRIMARY KEY (store, order_id, id)
    )
    """,
    "CREATE INDEX shipments_tracking ON shipments(tracking_number)",
    """
    CREATE TABLE customers (
        store TEXT, id TEXT, name TEXT, email TEXT, phone TEXT,
        updated_at TEXT NOT NULL, document TEXT NOT NULL, sequence INTEGER,
        delivered INTEGER, seen_at TEXT, digest BLOB,
        standing INTEGER NOT NULL DEFAULT 0, confirmed_at TEXT DEFAULT '',
        PRIMARY KEY (store, id)
    )
    """,
    "CREATE INDEX customers_email ON customers(email COLLATE NOCASE)",
    """
    CREATE TABLE tombstones (
        kind TEXT, store TEXT, id TEXT, updated_at TEXT NOT NULL, sequence INTEGER,
        delivered INTEGER, seen_at TEXT, digest BLOB, standing INTEGER,
        confirmed_at TEXT, PRIMARY KEY (kind, store, id)
    )
    """,
    """
    CREATE TABLE passes (
        id INTEGER PRIMARY KEY, store TEXT NOT NULL, job TEXT NOT NULL,
        kind TEXT NOT NULL, began_at TEXT NOT NULL, ended_at TEXT,
        page INTEGER NOT NULL DEFAULT 0, total INTEGER,
        read INTEGER NOT NULL DEFAULT 0, missed INTEGER NOT NULL DEFAULT 0,
        stale INTEGER NOT NULL DEFAULT 0, deleted INTEGER NOT NULL DEFAULT 0,
        "foreign" INTEGER NOT NULL DEFAULT 0, unrepaired INTEGER NOT NULL DEFAULT 0,
        note TEXT NOT NULL DEFAULT ''
    )
    """,
    """
    CREATE UNIQUE INDEX passes_open ON passes(store, job, kind) WHERE ended_at IS NULL
    """,
    "CREATE INDEX passes_ended ON passes(store, job, kind, ended_at)",
    # What an open pass has seen in the list; the rest is read by its id.
    """
    CREATE TABLE pass_seen (
        store TEXT NOT NULL, kind TEXT NOT NULL, object_id TEXT NOT NULL,
        sweep INTEGER NOT NULL, PRIMARY KEY (store, kind, object_id)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE intake_repairs (
        sweep INTEGER NOT NULL, event INTEGER NOT NULL, PRIMARY KEY (sweep, event)
    ) WITHOUT ROWID
    """,
    SEARCH_DOCUMENTS,
    """
    CREATE TABLE erased_customers (
        store TEXT NOT NULL, customer_id TEXT NOT NULL, at TEXT NOT NULL,
        PRIMARY KEY (store, customer_id)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE erased_emails (
        digest BLOB PRIMARY KEY, store TEXT NOT NULL, customer_id TEXT NOT NULL
    ) WITHOUT ROWID
    """,
)
