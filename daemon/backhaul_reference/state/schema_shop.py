"""The tables behind collections, menus, discounts and mails."""

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
