"""The revision of what shoppers see of the catalogue, kept by the database itself."""

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
