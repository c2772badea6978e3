"""The tables. A change appends a step; steps already released never change."""

import sqlite3

from backhaul_reference.state.schema_catalogue import CATALOGUE_REVISION
from backhaul_reference.state.schema_exchanges import EXCHANGES
from backhaul_reference.state.schema_keys import KEYS
from backhaul_reference.state.schema_levers import HISTORY, LEVERS, LISTS
from backhaul_reference.state.schema_shop import SHOP, SHOP_TABLES

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
    LEVERS,
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
