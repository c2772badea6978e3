"""What customers, quirks, fixtures, pruning and long lists add to the tables."""

LEVERS = """
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
