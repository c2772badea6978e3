"""Products as the two surfaces show them."""

from collections import defaultdict
from collections.abc import Sequence

from backhaul_reference import instants, money
from backhaul_reference.documents import Document, decode_stored
from backhaul_reference.state import membership
from backhaul_reference.state.database import Row, Rows, marks
from backhaul_reference.state.stores import Store

VARIANTS = (
    "SELECT * FROM variant WHERE product_id IN ({}) ORDER BY product_id, position"
)


def variants_of(rows: Rows, product_ids: Sequence[str]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows.all(VARIANTS.format(marks(product_ids)), product_ids):
        found[row["product_id"]].append(row)
    return found


def storefront_views(rows: Rows, store: Store, found: Sequence[Row]) -> list[Document]:
    variants = variants_of(rows, [row["id"] for row in found])
    return [_shared(store, row, variants[row["id"]]) for row in found]


def v1_views(rows: Rows, store: Store, found: Sequence[Row]) -> list[Document]:
    product_ids = [row["id"] for row in found]
    variants = variants_of(rows, product_ids)
    listed = membership.listed_of(rows, product_ids)
    return [_v1(store, row, variants[row["id"]], listed[row["id"]]) for row in found]


def is_available(variant: Row) -> bool:
    free = not variant["tracked"] or variant["policy"] == "CONTINUE"
    return free or variant["stock"] > 0


def _shared(store: Store, row: Row, variants: Sequence[Row]) -> Document:
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
        "createdAt": instants.to_text(row["created_ms"]),
        "updatedAt": instants.to_text(row["updated_ms"]),
    }


def _shared_variant(store: Store, row: Row) -> Document:
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
) -> Document:
    return {
        **_shared(store, row, variants),
        "variants": [_v1_variant(store, variant) for variant in variants],
        "status": row["status"],
        "publishedAt": instants.to_text_or_none(row["published_ms"]),
        "externalId": row["external_id"],
        "collectionIds": collection_ids,
        "version": row["version"],
    }


def _v1_variant(store: Store, row: Row) -> Document:
    return {
        **_shared_variant(store, row),
        "barcode": row["barcode"],
        "stock": row["stock"],
        "trackInventory": bool(row["tracked"]),
        "inventoryPolicy": row["policy"],
        "createdAt": instants.to_text(row["created_ms"]),
        "updatedAt": instants.to_text(row["updated_ms"]),
    }
