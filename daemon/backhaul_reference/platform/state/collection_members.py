"""Which products a collection holds: listed, or matched by tag rules."""

from collections import defaultdict
from collections.abc import Sequence

from backhaul_reference.platform.json_codec import decode_stored
from backhaul_reference.platform.problems import Flaw, invalid
from backhaul_reference.platform.state.database import Clause, Row, Rows, placeholders
from backhaul_reference.platform.state.writer import Tx

LISTED = "id IN (SELECT product_id FROM collection_product WHERE collection_id = ?)"
TAGGED = "EXISTS (SELECT 1 FROM json_each(product.tags) AS tag WHERE tag.value = ?)"
RELATIONS = {"EQUALS": TAGGED, "NOT_EQUALS": f"NOT {TAGGED}"}
JOINTS = {"ALL": " AND ", "ANY": " OR "}
TOUCH_PRODUCTS = "UPDATE product SET version = version + 1, updated_ms = ? WHERE id = ?"
TOUCH = "UPDATE collection SET version = version + 1, updated_ms = ? WHERE id = ?"


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
