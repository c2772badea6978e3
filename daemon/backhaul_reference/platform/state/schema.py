"""Database tables, as append-only migration steps."""

import sqlite3

TEST_CONTROLS = """
ALTER TABLE store ADD COLUMN quirks TEXT NOT NULL DEFAULT '[]';
ALTER TABLE store ADD COLUMN fixture TEXT NOT NULL DEFAULT 'empty';
CREATE UNIQUE INDEX customer_external ON customer(store_id, external_id);
CREATE INDEX customer_changed ON customer(store_id, updated_ms, id);
CREATE INDEX order_customer ON orders(customer_id);
CREATE INDEX delivery_event ON delivery(event_seq);
CREATE INDEX delivery_age ON delivery(created_ms);
CREATE INDEX event_age ON event(created_ms);
"""

LISTS = "CREATE INDEX product_status ON product(store_id, status, created_ms, id);"

# Each ends with the row's id, which is `seq`: what they find is in order of time.
HISTORY = """
DROP INDEX history_product;
CREATE INDEX history_product ON history(store_id, product_id);
CREATE INDEX history_store ON history(store_id);
CREATE INDEX history_order ON history(store_id, order_id) WHERE order_id IS NOT NULL;
"""


COLLECTIONS = """
CREATE TABLE collection(
  id TEXT PRIMARY KEY, store_id TEXT NOT NULL, handle TEXT NOT NULL,
  title TEXT NOT NULL, description TEXT, image_url TEXT, type TEXT NOT NULL,
  match TEXT NOT NULL, rules TEXT NOT NULL, published INTEGER NOT NULL,
  version INTEGER NOT NULL, created_ms INTEGER NOT NULL,
  updated_ms INTEGER NOT NULL);
CREATE UNIQUE INDEX collection_handle ON collection(store_id, handle);
CREATE INDEX collection_newest ON collection(store_id, created_ms, id);
CREATE TABLE collection_product(
  collection_id TEXT NOT NULL REFERENCES collection(id),
  product_id TEXT NOT NULL REFERENCES product(id),
  PRIMARY KEY(collection_id, product_id)) WITHOUT ROWID;
CREATE INDEX collection_product_product ON collection_product(product_id);
"""

MENUS = """
CREATE TABLE menu(
  store_id TEXT NOT NULL, handle TEXT NOT NULL, title TEXT NOT NULL,
  items TEXT NOT NULL, PRIMARY KEY(store_id, handle)) WITHOUT ROWID;
INSERT INTO menu SELECT id, 'main-menu', 'Main menu', '[]' FROM store;
INSERT INTO menu SELECT id, 'footer', 'Footer', '[]' FROM store;
"""

DISCOUNTS = """
CREATE TABLE discount(
  id TEXT PRIMARY KEY, store_id TEXT NOT NULL, code TEXT NOT NULL,
  code_key TEXT NOT NULL, type TEXT NOT NULL, value INTEGER NOT NULL,
  minimum_subtotal INTEGER, usage_limit INTEGER, customer_limit INTEGER,
  used INTEGER NOT NULL DEFAULT 0, starts_ms INTEGER, ends_ms INTEGER,
  active INTEGER NOT NULL, created_ms INTEGER NOT NULL,
  updated_ms INTEGER NOT NULL);
CREATE UNIQUE INDEX discount_code ON discount(store_id, code_key);
CREATE TABLE discount_customer(
  discount_id TEXT NOT NULL REFERENCES discount(id) ON DELETE CASCADE,
  email_key TEXT NOT NULL, used INTEGER NOT NULL,
  PRIMARY KEY(discount_id, email_key)) WITHOUT ROWID;
CREATE TABLE discount_order(
  order_id TEXT PRIMARY KEY,
  discount_id TEXT NOT NULL REFERENCES discount(id) ON DELETE CASCADE,
  email_key TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX discount_order_discount ON discount_order(discount_id);
"""

# Ids and the template's name only: a mail is rendered when it is sent, so that no
# tracking token is at rest.
MAILS = """
ALTER TABLE store ADD COLUMN merchant_email TEXT;
ALTER TABLE store ADD COLUMN tracking_page TEXT;
CREATE INDEX payment_report_transaction ON payment_report(transaction_id);
CREATE TABLE mail(
  seq INTEGER PRIMARY KEY, id TEXT NOT NULL, store_id TEXT NOT NULL,
  template TEXT NOT NULL, order_id TEXT, part TEXT, status TEXT NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0, next_ms INTEGER, error TEXT,
  created_ms INTEGER NOT NULL, sent_ms INTEGER);
CREATE INDEX mail_due ON mail(next_ms) WHERE status = 'PENDING';
"""

SHOP = COLLECTIONS + MENUS + DISCOUNTS + MAILS

SHOP_TABLES = (
    "mail",
    "discount_order",
    "discount_customer",
    "discount",
    "menu",
    "collection_product",
    "collection",
)


EXCHANGES = """
ALTER TABLE delivery_attempt ADD COLUMN request_url TEXT;
ALTER TABLE delivery_attempt ADD COLUMN request_headers TEXT;
ALTER TABLE delivery_attempt ADD COLUMN response_headers TEXT;
ALTER TABLE delivery_attempt ADD COLUMN response_body BLOB;
ALTER TABLE delivery_attempt ADD COLUMN response_cut INTEGER;
"""


# All that the storefront shows of a variant; of its stock only whether there is any.
VARIANT_COLUMNS = (
    "id, store_id, product_id, position, title, sku, barcode, price, compare_at,"
    " tracked, policy, options, image_url, weight_grams, created_ms, updated_ms"
)
CHANGES = {
    "product": ("INSERT", "DELETE", "UPDATE"),
    "collection": ("INSERT", "DELETE", "UPDATE"),
    "collection_product": ("INSERT", "DELETE", "UPDATE"),
    "variant": ("INSERT", "DELETE", f"UPDATE OF {VARIANT_COLUMNS}"),
}
RAISE = "BEGIN UPDATE catalogue SET revision = revision + 1; END;"

# One for all stores and never emptied: a number that came twice would bring back
# pages that were true at its first time.
CATALOGUE_REVISION = f"""
CREATE TABLE catalogue(revision INTEGER NOT NULL);
INSERT INTO catalogue VALUES(0);
CREATE TRIGGER variant_sold_out AFTER UPDATE OF stock ON variant
  WHEN (OLD.stock > 0) <> (NEW.stock > 0) {RAISE}
""" + "".join(
    f"CREATE TRIGGER {table}_{change.split()[0].lower()} AFTER {change} ON {table}"
    f" {RAISE}\n"
    for table, changes in CHANGES.items()
    for change in changes
)


KEYS = """
ALTER TABLE api_key ADD COLUMN expires_ms INTEGER;
ALTER TABLE api_key ADD COLUMN used_ms INTEGER;
"""


STORES = """
CREATE TABLE store(
  id TEXT PRIMARY KEY, subdomain TEXT NOT NULL UNIQUE, name TEXT NOT NULL,
  currency TEXT NOT NULL, timezone TEXT NOT NULL, locale TEXT NOT NULL,
  country TEXT NOT NULL, logo TEXT, seo_title TEXT, seo_description TEXT,
  active INTEGER NOT NULL, cod_confirmation INTEGER NOT NULL,
  account_mode TEXT NOT NULL, cod TEXT NOT NULL, custom_qr TEXT NOT NULL,
  vertical TEXT NOT NULL, created_ms INTEGER NOT NULL);
CREATE TABLE counter(
  store_id TEXT PRIMARY KEY, tick INTEGER NOT NULL DEFAULT 0,
  sequence INTEGER NOT NULL DEFAULT 0, order_number INTEGER NOT NULL DEFAULT 1000);
CREATE TABLE api_key(
  id TEXT PRIMARY KEY, store_id TEXT NOT NULL, hash TEXT NOT NULL UNIQUE,
  last4 TEXT NOT NULL, name TEXT NOT NULL, scopes TEXT NOT NULL,
  created_ms INTEGER NOT NULL, revoked_ms INTEGER);
CREATE TABLE zone(
  id TEXT PRIMARY KEY, store_id TEXT NOT NULL, name TEXT NOT NULL,
  priority INTEGER NOT NULL, countries TEXT NOT NULL, provinces TEXT NOT NULL,
  cities TEXT NOT NULL, zips TEXT NOT NULL, rates TEXT NOT NULL);
CREATE INDEX zone_store ON zone(store_id, priority);
CREATE TABLE idempotency(
  store_id TEXT NOT NULL, principal TEXT NOT NULL, route TEXT NOT NULL,
  key TEXT NOT NULL, fingerprint TEXT NOT NULL, status INTEGER NOT NULL,
  location TEXT, body BLOB NOT NULL, token_order_id TEXT,
  created_ms INTEGER NOT NULL);
CREATE UNIQUE INDEX idempotency_scope
  ON idempotency(store_id, principal, route, key);
CREATE INDEX idempotency_age ON idempotency(created_ms);
"""

CATALOGUE = """
CREATE TABLE product(
  id TEXT PRIMARY KEY, store_id TEXT NOT NULL, handle TEXT NOT NULL,
  title TEXT NOT NULL, description TEXT, vendor TEXT, product_type TEXT,
  tags TEXT NOT NULL, images TEXT NOT NULL, options TEXT NOT NULL,
  status TEXT NOT NULL, published_ms INTEGER, external_id TEXT, seo_title TEXT,
  seo_description TEXT, search TEXT NOT NULL, version INTEGER NOT NULL,
  created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL);
CREATE UNIQUE INDEX product_handle ON product(store_id, handle);
CREATE UNIQUE INDEX product_external ON product(store_id, external_id);
CREATE INDEX product_newest ON product(store_id, created_ms, id);
CREATE INDEX product_changed ON product(store_id, updated_ms, id);
CREATE TABLE variant(
  id TEXT PRIMARY KEY, store_id TEXT NOT NULL,
  product_id TEXT NOT NULL REFERENCES product(id),
  position INTEGER NOT NULL, title TEXT NOT NULL, sku TEXT, barcode TEXT,
  price INTEGER NOT NULL, compare_at INTEGER, tracked INTEGER NOT NULL,
  policy TEXT NOT NULL, stock INTEGER NOT NULL DEFAULT 0, options TEXT NOT NULL,
  image_url TEXT, weight_grams INTEGER, created_ms INTEGER NOT NULL,
  updated_ms INTEGER NOT NULL, stock_ms INTEGER NOT NULL);
CREATE UNIQUE INDEX variant_sku ON variant(store_id, sku);
CREATE INDEX variant_product ON variant(product_id, position);
CREATE TABLE history(
  seq INTEGER PRIMARY KEY, id TEXT NOT NULL, store_id TEXT NOT NULL,
  adjustment_id TEXT NOT NULL, product_id TEXT NOT NULL, variant_id TEXT NOT NULL,
  sku TEXT, adjustment INTEGER NOT NULL, stock_before INTEGER NOT NULL,
  stock_after INTEGER NOT NULL, reason TEXT NOT NULL, note TEXT,
  source_type TEXT NOT NULL, source_id TEXT, order_id TEXT,
  created_ms INTEGER NOT NULL);
CREATE INDEX history_product ON history(product_id);
"""

ORDERS = """
CREATE TABLE customer(
  id TEXT PRIMARY KEY, store_id TEXT NOT NULL, email TEXT, email_key TEXT,
  phone TEXT, first_name TEXT, last_name TEXT, name TEXT NOT NULL,
  tags TEXT NOT NULL, note TEXT, accepts_marketing INTEGER NOT NULL,
  addresses TEXT NOT NULL, orders_count INTEGER NOT NULL DEFAULT 0,
  total_spent INTEGER NOT NULL DEFAULT 0, external_id TEXT,
  version INTEGER NOT NULL, created_ms INTEGER NOT NULL,
  updated_ms INTEGER NOT NULL);
CREATE UNIQUE INDEX customer_email ON customer(store_id, email_key);
CREATE INDEX customer_newest ON customer(store_id, created_ms, id);
CREATE TABLE orders(
  id TEXT PRIMARY KEY, store_id TEXT NOT NULL, number INTEGER NOT NULL,
  external_id TEXT, source TEXT NOT NULL, financial TEXT NOT NULL,
  fulfillment TEXT NOT NULL, confirmation_required INTEGER NOT NULL,
  confirmed_ms INTEGER, currency TEXT NOT NULL, payment_method TEXT,
  customer_id TEXT, customer_name TEXT NOT NULL, customer_email TEXT,
  customer_phone TEXT, subtotal INTEGER NOT NULL, discount INTEGER NOT NULL,
  shipping INTEGER NOT NULL, payment_fee INTEGER NOT NULL, tax INTEGER NOT NULL,
  total INTEGER NOT NULL, discount_code TEXT, address TEXT, paid_ms INTEGER,
  cancelled_ms INTEGER, cancel_reason TEXT, cancel_note TEXT,
  cancel_restock INTEGER, cancel_refund INTEGER, cancel_skipped TEXT, note TEXT,
  tags TEXT NOT NULL, token_hash TEXT, placed_ms INTEGER NOT NULL,
  created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL,
  version INTEGER NOT NULL,
  status TEXT GENERATED ALWAYS AS (CASE
    WHEN cancelled_ms IS NOT NULL THEN 'CANCELLED'
    WHEN fulfillment = 'FULFILLED' AND financial IN ('PAID', 'REFUNDED')
      THEN 'COMPLETED'
    WHEN confirmed_ms IS NOT NULL OR financial = 'PAID'
      OR fulfillment IN ('PARTIALLY_FULFILLED', 'FULFILLED') THEN 'CONFIRMED'
    ELSE 'PENDING' END) VIRTUAL);
CREATE UNIQUE INDEX order_number ON orders(store_id, number);
CREATE UNIQUE INDEX order_external ON orders(store_id, external_id)
  WHERE external_id IS NOT NULL;
CREATE UNIQUE INDEX order_token ON orders(token_hash) WHERE token_hash IS NOT NULL;
CREATE INDEX order_newest ON orders(store_id, created_ms, id);
CREATE INDEX order_changed ON orders(store_id, updated_ms, id);
CREATE TABLE order_item(
  seq INTEGER PRIMARY KEY, id TEXT NOT NULL,
  order_id TEXT NOT NULL REFERENCES orders(id), product_id TEXT, variant_id TEXT,
  sku TEXT, title TEXT NOT NULL, variant_title TEXT, options TEXT NOT NULL,
  image_url TEXT, quantity INTEGER NOT NULL, fulfilled INTEGER NOT NULL DEFAULT 0,
  restocked INTEGER NOT NULL DEFAULT 0, taken INTEGER NOT NULL,
  unit_price INTEGER NOT NULL, discount INTEGER NOT NULL, total INTEGER NOT NULL);
CREATE INDEX order_item_order ON order_item(order_id);
CREATE INDEX order_item_product ON order_item(product_id);
CREATE TABLE shipment(
  seq INTEGER PRIMARY KEY, id TEXT NOT NULL,
  order_id TEXT NOT NULL REFERENCES orders(id), company TEXT, number TEXT,
  url TEXT, items TEXT NOT NULL, shipped_ms INTEGER NOT NULL);
CREATE INDEX shipment_order ON shipment(order_id);
CREATE TABLE payment_report(
  seq INTEGER PRIMARY KEY, order_id TEXT NOT NULL REFERENCES orders(id),
  transaction_id TEXT NOT NULL, payer_name TEXT, duplicate_of TEXT,
  reported_ms INTEGER NOT NULL);
CREATE INDEX payment_report_order ON payment_report(order_id);
"""

OUTBOX = """
CREATE TABLE event(
  seq INTEGER PRIMARY KEY, id TEXT NOT NULL, store_id TEXT NOT NULL,
  sequence INTEGER NOT NULL, topic TEXT NOT NULL, body BLOB NOT NULL,
  created_ms INTEGER NOT NULL);
CREATE UNIQUE INDEX event_sequence ON event(store_id, sequence);
CREATE TABLE subscription(
  id TEXT PRIMARY KEY, store_id TEXT NOT NULL, address TEXT NOT NULL,
  topics TEXT NOT NULL, description TEXT, status TEXT NOT NULL,
  disabled_reason TEXT, secret TEXT NOT NULL, previous_secret TEXT,
  previous_until_ms INTEGER, consecutive_failures INTEGER NOT NULL DEFAULT 0,
  failing_since_ms INTEGER, last_success_ms INTEGER, last_failure_ms INTEGER,
  created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL);
CREATE TABLE subscription_topic(
  store_id TEXT NOT NULL, topic TEXT NOT NULL, subscription_id TEXT NOT NULL
    REFERENCES subscription(id) ON DELETE CASCADE);
CREATE INDEX subscription_topic_store ON subscription_topic(store_id, topic);
CREATE TABLE delivery(
  seq INTEGER PRIMARY KEY, id TEXT NOT NULL,
  event_seq INTEGER NOT NULL REFERENCES event(seq),
  subscription_id TEXT NOT NULL REFERENCES subscription(id) ON DELETE CASCADE,
  status TEXT NOT NULL, attempts INTEGER NOT NULL DEFAULT 0,
  series_start INTEGER NOT NULL DEFAULT 0, next_ms INTEGER, lease_ms INTEGER,
  created_ms INTEGER NOT NULL);
CREATE INDEX delivery_list ON delivery(subscription_id, seq);
CREATE INDEX delivery_due ON delivery(subscription_id, next_ms)
  WHERE status = 'PENDING' AND lease_ms IS NULL;
CREATE TABLE delivery_attempt(
  seq INTEGER PRIMARY KEY,
  delivery_seq INTEGER NOT NULL REFERENCES delivery(seq) ON DELETE CASCADE,
  number INTEGER NOT NULL, at_ms INTEGER NOT NULL, status_code INTEGER,
  error TEXT, duration_ms INTEGER NOT NULL);
CREATE INDEX delivery_attempt_delivery ON delivery_attempt(delivery_seq);
"""

STEPS = (
    STORES + CATALOGUE + ORDERS + OUTBOX,
    TEST_CONTROLS,
    SHOP,
    EXCHANGES,
    LISTS,
    CATALOGUE_REVISION,
    HISTORY,
    KEYS,
)

# In an order that never breaks a reference when they are emptied one by one.
TABLES = (
    *SHOP_TABLES,
    "delivery_attempt",
    "delivery",
    "subscription_topic",
    "subscription",
    "event",
    "payment_report",
    "shipment",
    "order_item",
    "orders",
    "customer",
    "history",
    "variant",
    "product",
    "idempotency",
    "zone",
    "api_key",
    "counter",
    "store",
)


class NewerDatabaseError(Exception):
    """The database was written by a newer server."""


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the tables up to date, each step whole or not at all."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(STEPS):
        raise NewerDatabaseError(f"schema {version} is newer than {len(STEPS)}")
    for number, step in enumerate(STEPS[version:], start=version + 1):
        connection.executescript(
            f"BEGIN IMMEDIATE; {step} PRAGMA user_version = {number}; COMMIT;"
        )
