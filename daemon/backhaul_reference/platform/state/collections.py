"""Collections: products grouped manually or by tag."""

from backhaul_reference.platform import formats, models
from backhaul_reference.platform.json_codec import Document, decode_stored, encode_text
from backhaul_reference.platform.problems import Problem, not_found
from backhaul_reference.platform.state import collection_members, products
from backhaul_reference.platform.state.database import (
    Listing,
    Row,
    Rows,
    Window,
    listing,
)
from backhaul_reference.platform.state.stores import Store
from backhaul_reference.platform.state.writer import Tx

BATCH = 500
COLUMNS = ("title", "handle", "description", "image_url", "match", "published")


def visible_page(rows: Rows, store: Store, window: Window) -> Listing:
    found = listing(rows, "collection", store.id, {"published": True}, window)
    return Listing([storefront_view(rows, row) for row in found.rows], found.total)


def visible_with_products(
    rows: Rows, store: Store, handle: str
) -> models.CollectionWithProducts:
    row = rows.one(
        "SELECT * FROM collection WHERE store_id = ? AND handle = ? AND published",
        (store.id, handle),
    )
    if row is None:
        raise not_found("COLLECTION")
    products = _visible_products(rows, store, row)
    return {"collection": storefront_view(rows, row), "products": products}


def visible(rows: Rows, store: Store, collection_id: str) -> Row | None:
    return rows.one(
        "SELECT * FROM collection WHERE store_id = ? AND id = ? AND published",
        (store.id, collection_id),
    )


def _visible_products(
    rows: Rows, store: Store, collection: Row
) -> list[models.Product]:
    belongs = collection_members.clause(collection)
    found = rows.all(
        "SELECT * FROM product WHERE store_id = ? AND status = 'active'"  # noqa: S608  - clauses are constants
        f" AND {belongs.sql} ORDER BY created_ms DESC, id DESC",
        (store.id, *belongs.params),
    )
    batches = [found[start : start + BATCH] for start in range(0, len(found), BATCH)]
    return [
        view
        for batch in batches
        for view in products.storefront_views(rows, store, batch)
    ]


def _visible_count(rows: Rows, collection: Row) -> int:
    belongs = collection_members.clause(collection)
    count: int = rows.value(
        "SELECT COUNT(*) FROM product WHERE store_id = ? AND status = 'active'"  # noqa: S608  - clauses are constants
        f" AND {belongs.sql}",
        (collection["store_id"], *belongs.params),
    )
    return count


def storefront_view(rows: Rows, row: Row) -> models.Collection:
    return {
        "id": row["id"],
        "handle": row["handle"],
        "title": row["title"],
        "description": row["description"],
        "imageUrl": row["image_url"],
        "type": row["type"],
        "productCount": _visible_count(rows, row),
        "createdAt": formats.to_text(row["created_ms"]),
        "updatedAt": formats.to_text(row["updated_ms"]),
    }


def page(rows: Rows, store: Store, window: Window) -> Listing:
    """All collections, as the merchant sees them."""
    found = listing(rows, "collection", store.id, {}, window)
    return Listing([_control_view(rows, row) for row in found.rows], found.total)


def every(rows: Rows, store: Store) -> list[Document]:
    found = rows.all(
        "SELECT * FROM collection WHERE store_id = ? ORDER BY created_ms, id",
        (store.id,),
    )
    return [_control_view(rows, row) for row in found]


def view(rows: Rows, store: Store, collection_id: str) -> Document:
    return _control_view(rows, find(rows, store, collection_id))


def find(rows: Rows, store: Store, collection_id: str) -> Row:
    row = rows.one(
        "SELECT * FROM collection WHERE id = ? AND store_id = ?",
        (collection_id, store.id),
    )
    if row is None:
        raise not_found("COLLECTION")
    return row


def _control_view(rows: Rows, row: Row) -> Document:
    listed = rows.all(
        "SELECT product_id FROM collection_product WHERE collection_id = ?"
        " ORDER BY product_id",
        (row["id"],),
    )
    return {
        **storefront_view(rows, row),
        "published": bool(row["published"]),
        "match": row["match"],
        "rules": decode_stored(row["rules"]),
        "productIds": [one["product_id"] for one in listed],
        "version": row["version"],
    }


def create(tx: Tx, store: Store, values: Document) -> Document:
    at_ms = tx.tick(store.id)
    handle = values.get("handle")
    columns: Document = {name: values.get(name) for name in COLUMNS} | {
        "id": tx.ids.new("col"),
        "store_id": store.id,
        "handle": handle or products.free(tx, "collection", store.id, values["title"]),
        "type": values["type"],
        "rules": encode_text(values["rules"]),
        "version": 1,
        "created_ms": at_ms,
        "updated_ms": at_ms,
    }
    tx.insert("collection", columns)
    collection_members.fill(tx, store.id, columns["id"], values["product_ids"])
    return view(tx, store, columns["id"])


def change(tx: Tx, store: Store, collection_id: str, values: Document) -> Document:
    """Merge a change; a new version only if something differs."""
    before = find(tx, store, collection_id)
    _check_type(before, values)
    columns = {name: values[name] for name in COLUMNS if name in values}
    if "rules" in values:
        columns["rules"] = encode_text(values["rules"])
    moved = any(before[name] != value for name, value in columns.items())
    if columns:
        tx.update("collection", collection_id, columns)
    if "product_ids" in values:
        moved |= collection_members.fill(
            tx, store.id, collection_id, values["product_ids"]
        )
    if moved:
        tx.run(collection_members.TOUCH, (tx.tick(store.id), collection_id))
    return view(tx, store, collection_id)


def delete(tx: Tx, store: Store, collection_id: str) -> Document:
    find(tx, store, collection_id)
    collection_members.fill(tx, store.id, collection_id, ())
    tx.run("DELETE FROM collection WHERE id = ?", (collection_id,))
    return {"id": collection_id, "deleted": True}


def _check_type(before: Row, values: Document) -> None:
    foreign = "rules" if before["type"] == "MANUAL" else "product_ids"
    if foreign in values:
        kind = before["type"].lower()
        detail = f"the collection is {kind}"
        raise Problem(409, "COLLECTION_TYPE_MISMATCH", detail)
