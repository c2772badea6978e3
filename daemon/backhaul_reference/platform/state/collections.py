"""Collections, and the products that each holds: listed, or matched by tag rules."""

from collections import defaultdict
from collections.abc import Sequence

from backhaul_reference.platform import formats, models
from backhaul_reference.platform.json_codec import Document, decode_stored, encode_text
from backhaul_reference.platform.problems import Flaw, Problem, invalid, not_found
from backhaul_reference.platform.state.database import (
    Clause,
    Listing,
    Row,
    Rows,
    Window,
    listing,
    placeholders,
)
from backhaul_reference.platform.state.stores import Store
from backhaul_reference.platform.state.unique_values import free_handle
from backhaul_reference.platform.state.writer import Tx

LISTED = "id IN (SELECT product_id FROM collection_product WHERE collection_id = ?)"
TAGGED = "EXISTS (SELECT 1 FROM json_each(product.tags) AS tag WHERE tag.value = ?)"
RELATIONS = {"EQUALS": TAGGED, "NOT_EQUALS": f"NOT {TAGGED}"}
JOINTS = {"ALL": " AND ", "ANY": " OR "}
TOUCH_PRODUCTS = "UPDATE product SET version = version + 1, updated_ms = ? WHERE id = ?"
TOUCH = "UPDATE collection SET version = version + 1, updated_ms = ? WHERE id = ?"
COLUMNS = ("title", "handle", "description", "image_url", "match", "published")


def visible_page(rows: Rows, store: Store, window: Window) -> Listing:
    found = listing(rows, "collection", store.id, {"published": True}, window)
    return Listing([storefront_view(rows, row) for row in found.rows], found.total)


def visible_by_handle(rows: Rows, store: Store, handle: str) -> Row:
    row = rows.one(
        "SELECT * FROM collection WHERE store_id = ? AND handle = ? AND published",
        (store.id, handle),
    )
    if row is None:
        raise not_found("COLLECTION")
    return row


def visible(rows: Rows, store: Store, collection_id: str) -> Row | None:
    return rows.one(
        "SELECT * FROM collection WHERE store_id = ? AND id = ? AND published",
        (store.id, collection_id),
    )


def _visible_count(rows: Rows, collection: Row) -> int:
    belongs = clause(collection)
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
        "handle": handle or free_handle(tx, "collection", store.id, values["title"]),
        "type": values["type"],
        "rules": encode_text(values["rules"]),
        "version": 1,
        "created_ms": at_ms,
        "updated_ms": at_ms,
    }
    tx.insert("collection", columns)
    fill(tx, store.id, columns["id"], values["product_ids"])
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
        moved |= fill(tx, store.id, collection_id, values["product_ids"])
    if moved:
        tx.run(TOUCH, (tx.tick(store.id), collection_id))
    return view(tx, store, collection_id)


def delete(tx: Tx, store: Store, collection_id: str) -> Document:
    find(tx, store, collection_id)
    fill(tx, store.id, collection_id, ())
    tx.run("DELETE FROM collection WHERE id = ?", (collection_id,))
    return {"id": collection_id, "deleted": True}


def _check_type(before: Row, values: Document) -> None:
    foreign = "rules" if before["type"] == "MANUAL" else "product_ids"
    if foreign in values:
        kind = before["type"].lower()
        detail = f"the collection is {kind}"
        raise Problem(409, "COLLECTION_TYPE_MISMATCH", detail)


def clause(collection: Row) -> Clause:
    """Return the condition on the table `product` that selects the members."""
    if collection["type"] == "MANUAL":
        return Clause(LISTED, (collection["id"],))
    rules = decode_stored(collection["rules"])
    terms = [RELATIONS[rule["relation"]] for rule in rules]
    sql = JOINTS[collection["match"]].join(terms)
    return Clause(f"({sql})", tuple(rule["condition"] for rule in rules))


def published_of(rows: Rows, product: Row) -> list[Row]:
    """The published collections that hold a product, newest first."""
    found = rows.all(
        "SELECT * FROM collection WHERE store_id = ? AND published"
        " ORDER BY created_ms DESC, id DESC",
        (product["store_id"],),
    )
    return [one for one in found if _holds(rows, one, product["id"])]


def _holds(rows: Rows, collection: Row, product_id: str) -> bool:
    belongs = clause(collection)
    sql = f"SELECT 1 FROM product WHERE id = ? AND {belongs.sql}"  # noqa: S608  - clauses are literals of this module
    return rows.one(sql, (product_id, *belongs.params)) is not None


def listed_of(rows: Rows, product_ids: Sequence[str]) -> dict[str, list[str]]:
    """Return, per product, the manual collections that list it."""
    found: dict[str, list[str]] = defaultdict(list)
    sql = (
        "SELECT product_id, collection_id FROM collection_product"  # noqa: S608  - placeholders only
        f" WHERE product_id IN ({placeholders(product_ids)}) ORDER BY collection_id"
    )
    for row in rows.all(sql, product_ids):
        found[row["product_id"]].append(row["collection_id"])
    return found


def assign(
    tx: Tx, store_id: str, product_id: str, wanted: Sequence[str], at_ms: int
) -> None:
    """Set the product's manual collections; each changed collection gets a version."""
    _check(tx, store_id, wanted)
    before, after = set(listed_of(tx, [product_id])[product_id]), set(wanted)
    for collection_id in sorted(before - after):
        _take_out(tx, collection_id, product_id)
    for collection_id in sorted(after - before):
        _put_in(tx, collection_id, product_id)
    for collection_id in sorted(before ^ after):
        tx.run(TOUCH, (at_ms, collection_id))


def _check(rows: Rows, store_id: str, wanted: Sequence[str]) -> None:
    types = {
        row["id"]: row["type"]
        for row in rows.all(
            f"SELECT id, type FROM collection WHERE store_id = ?"  # noqa: S608  - placeholders only
            f" AND id IN ({placeholders(wanted)})",
            (store_id, *wanted),
        )
    }
    flaws = []
    for n, collection_id in enumerate(wanted):
        pointer = f"/collectionIds/{n}"
        if collection_id not in types:
            flaws.append(Flaw(pointer, "NOT_FOUND", "there is no such collection"))
        elif types[collection_id] != "MANUAL":
            flaws.append(Flaw(pointer, "NOT_ALLOWED", "its rules decide who belongs"))
    if flaws:
        raise invalid(flaws)


def fill(tx: Tx, store_id: str, collection_id: str, wanted: Sequence[str]) -> bool:
    """Set the products of a manual collection; each changed product gets a version."""
    _check_products(tx, store_id, wanted)
    before = {
        row["product_id"]
        for row in tx.all(
            "SELECT product_id FROM collection_product WHERE collection_id = ?",
            (collection_id,),
        )
    }
    after = set(wanted)
    for product_id in before - after:
        _take_out(tx, collection_id, product_id)
    for product_id in after - before:
        _put_in(tx, collection_id, product_id)
    _touch_products(tx, store_id, sorted(before ^ after))
    return before != after


def _check_products(rows: Rows, store_id: str, wanted: Sequence[str]) -> None:
    known = {
        row["id"]
        for row in rows.all(
            f"SELECT id FROM product WHERE store_id = ?"  # noqa: S608  - placeholders only
            f" AND id IN ({placeholders(wanted)})",
            (store_id, *wanted),
        )
    }
    flaws = [
        Flaw(f"/productIds/{n}", "NOT_FOUND", "there is no such product")
        for n, product_id in enumerate(wanted)
        if product_id not in known
    ]
    if flaws:
        raise invalid(flaws)


def remove_product(tx: Tx, product_id: str, at_ms: int) -> None:
    """Remove a deleted product from its collections."""
    for collection_id in listed_of(tx, [product_id])[product_id]:
        _take_out(tx, collection_id, product_id)
        tx.run(TOUCH, (at_ms, collection_id))


def _put_in(tx: Tx, collection_id: str, product_id: str) -> None:
    tx.run("INSERT INTO collection_product VALUES(?, ?)", (collection_id, product_id))


def _take_out(tx: Tx, collection_id: str, product_id: str) -> None:
    tx.run(
        "DELETE FROM collection_product WHERE collection_id = ? AND product_id = ?",
        (collection_id, product_id),
    )


def _touch_products(tx: Tx, store_id: str, product_ids: Sequence[str]) -> None:
    if not product_ids:
        return
    instants = tx.ticks(store_id, len(product_ids))
    tx.connection.executemany(
        TOUCH_PRODUCTS, list(zip(instants, product_ids, strict=True))
    )
