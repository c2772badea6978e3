"""Products: queries, views, creation, changes and deletion."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from backhaul_reference.platform import formats, models, money
from backhaul_reference.platform.json_codec import Document, decode_stored, encode_text
from backhaul_reference.platform.problems import not_found
from backhaul_reference.platform.state import (
    collections,
    variants,
    webhook_outbox,
)
from backhaul_reference.platform.state.database import (
    Clause,
    Listing,
    Row,
    Rows,
    Window,
    listing,
    placeholders,
)
from backhaul_reference.platform.state.inventory import Source
from backhaul_reference.platform.state.stores import Store
from backhaul_reference.platform.state.unique_values import free_handle
from backhaul_reference.platform.state.writer import Tx

BATCH = 500
VARIANTS = (
    "SELECT * FROM variant WHERE product_id IN ({}) ORDER BY product_id, position"
)


def variants_of(rows: Rows, product_ids: Sequence[str]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows.all(VARIANTS.format(placeholders(product_ids)), product_ids):
        found[row["product_id"]].append(row)
    return found


def storefront_views(
    rows: Rows, store: Store, found: Sequence[Row]
) -> list[models.Product]:
    variants = variants_of(rows, [row["id"] for row in found])
    return [_shared(store, row, variants[row["id"]]) for row in found]


def in_collection(rows: Rows, store: Store, collection: Row) -> list[models.Product]:
    """Return the active products of a collection, newest first."""
    belongs = collections.clause(collection)
    found = rows.all(
        "SELECT * FROM product WHERE store_id = ? AND status = 'active'"  # noqa: S608  - clauses are constants
        f" AND {belongs.sql} ORDER BY created_ms DESC, id DESC",
        (store.id, *belongs.params),
    )
    batches = [found[start : start + BATCH] for start in range(0, len(found), BATCH)]
    return [view for batch in batches for view in storefront_views(rows, store, batch)]


def v1_views(
    rows: Rows, store: Store, found: Sequence[Row]
) -> list[models.CatalogueProduct]:
    product_ids = [row["id"] for row in found]
    variants = variants_of(rows, product_ids)
    listed = collections.listed_of(rows, product_ids)
    return [_v1(store, row, variants[row["id"]], listed[row["id"]]) for row in found]


def is_available(variant: Row) -> bool:
    free = not variant["tracked"] or variant["policy"] == "CONTINUE"
    return free or variant["stock"] > 0


def _shared(store: Store, row: Row, variants: Sequence[Row]) -> models.Product:
    prices = [variant["price"] for variant in variants]
    return {
        "id": row["id"],
        "handle": row["handle"],
        "title": row["title"],
        "description": row["description"],
        "vendor": row["vendor"],
        "productType": row["product_type"],
        "tags": decode_stored(row["tags"]),
        "images": decode_stored(row["images"]),
        "options": decode_stored(row["options"]),
        "priceRange": {
            "min": store.money(min(prices)),
            "max": store.money(max(prices)),
        },
        "available": any(is_available(variant) for variant in variants),
        "seoTitle": row["seo_title"],
        "seoDescription": row["seo_description"],
        "variants": [_shared_variant(store, variant) for variant in variants],
        "createdAt": formats.to_text(row["created_ms"]),
        "updatedAt": formats.to_text(row["updated_ms"]),
    }


def _shared_variant(store: Store, row: Row) -> models.Variant:
    return {
        "id": row["id"],
        "title": row["title"],
        "sku": row["sku"],
        "price": store.money(row["price"]),
        "compareAtPrice": money.to_text_or_none(row["compare_at"], store.exponent),
        "options": decode_stored(row["options"]),
        "imageUrl": row["image_url"],
        "weightGrams": row["weight_grams"],
        "available": is_available(row),
        "position": row["position"],
    }


def _v1(
    store: Store, row: Row, variants: Sequence[Row], collection_ids: list[str]
) -> models.CatalogueProduct:
    return {
        **_shared(store, row, variants),
        "variants": [_v1_variant(store, variant) for variant in variants],
        "status": row["status"],
        "publishedAt": formats.to_text_or_none(row["published_ms"]),
        "externalId": row["external_id"],
        "collectionIds": collection_ids,
        "version": row["version"],
    }


def _v1_variant(store: Store, row: Row) -> models.CatalogueVariant:
    return {
        **_shared_variant(store, row),
        "barcode": row["barcode"],
        "stock": row["stock"],
        "trackInventory": bool(row["tracked"]),
        "inventoryPolicy": row["policy"],
        "createdAt": formats.to_text(row["created_ms"]),
        "updatedAt": formats.to_text(row["updated_ms"]),
    }


AS_JSON = ("tags", "images", "options")
EMPTY: Document = {"tags": [], "images": [], "options": []}
COLUMNS = (
    "title",
    "handle",
    "description",
    "vendor",
    "product_type",
    "status",
    "external_id",
    "seo_title",
    "seo_description",
    *AS_JSON,
)


def page(rows: Rows, store: Store, filters: dict[str, Any], window: Window) -> Listing:
    """v1 products, newest first; `search` must be case-folded already."""
    found = listing(rows, "product", store.id, filters, window)
    return Listing(v1_views(rows, store, found.rows), found.total)


def visible_page(
    rows: Rows,
    store: Store,
    filters: dict[str, Any],
    window: Window,
    within: Clause | None = None,
) -> Listing:
    visible = {**filters, "status": "active"}
    found = listing(rows, "product", store.id, visible, window, within=within)
    return Listing(storefront_views(rows, store, found.rows), found.total)


def every(rows: Rows, store: Store) -> Iterator[models.CatalogueProduct]:
    sql = "SELECT * FROM product WHERE store_id = ? ORDER BY created_ms, id"
    for found in rows.batches(sql, (store.id,)):
        yield from v1_views(rows, store, found)


def view(rows: Rows, store: Store, product_id: str) -> models.CatalogueProduct:
    return v1_views(rows, store, [_row(rows, store, product_id)])[0]


def visible_view(
    rows: Rows, store: Store, handle_or_id: str
) -> models.ProductWithCollections:
    row = rows.one(
        "SELECT * FROM product WHERE store_id = ? AND status = 'active'"
        " AND (id = ? OR handle = ?)",
        (store.id, handle_or_id, handle_or_id),
    )
    if row is None:
        raise not_found("PRODUCT")
    shown = storefront_views(rows, store, [row])[0]
    held_by = [
        models.CollectionName(id=one["id"], handle=one["handle"], title=one["title"])
        for one in collections.published_of(rows, row)
    ]
    return {**shown, "collections": held_by}


def _row(rows: Rows, store: Store, product_id: str) -> Row:
    row = rows.one(
        "SELECT * FROM product WHERE id = ? AND store_id = ?", (product_id, store.id)
    )
    if row is None:
        raise not_found("PRODUCT", product_id)
    return row


def create(
    tx: Tx, store: Store, source: Source, values: Document
) -> models.CatalogueProduct:
    """Create a product with its variants; opening stock is logged."""
    at_ms = tx.tick(store.id)
    product_id = tx.ids.new("prod")
    handle = values.get("handle") or free_handle(
        tx, "product", store.id, values["title"]
    )
    known = {name: values[name] for name in COLUMNS if name in values}
    merged = {"status": "active", **EMPTY, **known, "handle": handle}
    columns: Document = _stored(merged)
    columns["published_ms"] = at_ms if merged["status"] == "active" else None
    columns |= {"id": product_id, "store_id": store.id, "search": "", "version": 1}
    columns |= {"created_ms": at_ms, "updated_ms": at_ms}
    tx.insert("product", columns)
    collections.assign(
        tx, store.id, product_id, values.get("collection_ids") or (), at_ms
    )
    variants.add_all(
        tx, store, source, product_id, variants.requested_variants(values), at_ms
    )
    _index_search(tx, product_id)
    created = view(tx, store, product_id)
    webhook_outbox.emit(tx, store.id, "products/create", created)
    return created


def update(
    tx: Tx, store: Store, source: Source, product_id: str, values: Document
) -> models.CatalogueProduct:
    """Merge a change; an event and a new version only if something differs."""
    before = view(tx, store, product_id)
    at_ms = tx.tick(store.id)
    columns = _stored({name: values[name] for name in COLUMNS if name in values})
    if values.get("status") == "active" and before["publishedAt"] is None:
        columns["published_ms"] = at_ms
    if columns:
        tx.update("product", product_id, columns)
    if "variants" in values:
        variants.replace(tx, store, source, product_id, values["variants"], at_ms)
    else:
        variants.change_only(tx, store, product_id, values, at_ms)
    if "collection_ids" in values:
        collections.assign(
            tx, store.id, product_id, values["collection_ids"] or (), at_ms
        )
    after = view(tx, store, product_id)
    if after == before:
        return before
    _index_search(tx, product_id)
    tx.run(
        "UPDATE product SET version = version + 1, updated_ms = ? WHERE id = ?",
        (at_ms, product_id),
    )
    changed = view(tx, store, product_id)
    webhook_outbox.emit(tx, store.id, "products/update", changed)
    return changed


def delete(tx: Tx, store: Store, source: Source, product_id: str) -> models.Deleted:
    """Delete a product and its variants; orders keep their snapshots."""
    last = view(tx, store, product_id)
    at_ms = tx.tick(store.id)
    variants.unlink_product(tx, store.id, product_id)
    collections.remove_product(tx, product_id, at_ms)
    variants.remove(tx, store, source, last["variants"], at_ms)
    tx.run("DELETE FROM product WHERE id = ?", (product_id,))
    data: models.DeletedProduct = {
        "id": last["id"],
        "handle": last["handle"],
        "title": last["title"],
        "externalId": last["externalId"],
        "variants": [{"id": v["id"], "sku": v["sku"]} for v in last["variants"]],
        "deletedAt": formats.to_text(at_ms),
    }
    webhook_outbox.emit(tx, store.id, "products/delete", data)
    return {"id": product_id, "deleted": True}


def _stored(values: Document) -> Document:
    return {
        name: encode_text(value or []) if name in AS_JSON else value
        for name, value in values.items()
    }


def _index_search(tx: Tx, product_id: str) -> None:
    row = tx.one(
        "SELECT p.title, p.handle, p.tags, GROUP_CONCAT(v.sku, char(10)) AS skus"
        " FROM product p LEFT JOIN variant v ON v.product_id = p.id WHERE p.id = ?",
        (product_id,),
    )
    text = "\n".join(part or "" for part in row or ()).casefold()
    tx.update("product", product_id, {"search": text})
