"""Variants: added, replaced, removed; detached from past orders."""

from collections.abc import Mapping, Sequence
from typing import Any

from backhaul_reference.platform.json_codec import Document, decode_stored, encode_text
from backhaul_reference.platform.problems import Flaw, Problem, invalid
from backhaul_reference.platform.state import inventory
from backhaul_reference.platform.state.database import Row, placeholders
from backhaul_reference.platform.state.inventory import Cause, Source
from backhaul_reference.platform.state.stores import Store
from backhaul_reference.platform.state.writer import Tx


def unlink_product(tx: Tx, store_id: str, product_id: str) -> None:
    """Clear the order lines' references; each changed order gets a new updated time."""
    where = "product_id = ?"
    _touch(tx, store_id, where, (product_id,))
    tx.run(
        "UPDATE order_item SET product_id = NULL, variant_id = NULL"
        " WHERE product_id = ?",
        (product_id,),
    )


def unlink_variants(
    tx: Tx, store_id: str, product_id: str, variant_ids: Sequence[str]
) -> None:
    if not variant_ids:
        return
    # By the product, which is what lines are indexed by.
    where = f"product_id = ? AND variant_id IN ({placeholders(variant_ids)})"
    params = (product_id, *variant_ids)
    _touch(tx, store_id, where, params)
    tx.run(f"UPDATE order_item SET variant_id = NULL WHERE {where}", params)  # noqa: S608  - placeholders only


def _touch(tx: Tx, store_id: str, where: str, params: Sequence[str]) -> None:
    orders = tx.all(
        f"SELECT DISTINCT order_id FROM order_item WHERE {where} ORDER BY order_id",  # noqa: S608  - placeholders only
        params,
    )
    if not orders:
        return
    instants = tx.ticks(store_id, len(orders))
    tx.connection.executemany(
        "UPDATE orders SET updated_ms = ?, version = version + 1 WHERE id = ?",
        [(at_ms, row["order_id"]) for at_ms, row in zip(instants, orders, strict=True)],
    )


COLUMNS = {
    "title": "title",
    "sku": "sku",
    "barcode": "barcode",
    "price": "price",
    "compare_at_price": "compare_at",
    "track_inventory": "tracked",
    "inventory_policy": "policy",
    "image_url": "image_url",
    "weight_grams": "weight_grams",
}
DEFAULTS = {"title": "Default", "tracked": True, "policy": "DENY"}


def requested_variants(values: Document) -> list[Document]:
    """Return the variants of a create request, by default one variant."""
    if values.get("variants"):
        listed: list[Document] = values["variants"]
        return listed
    names = ("price", "sku", "stock")
    return [{name: values[name] for name in names if name in values}]


def add_all(
    tx: Tx,
    store: Store,
    source: Source,
    product_id: str,
    listed: Sequence[Document],
    at_ms: int,
) -> None:
    adjustment_id = tx.ids.new("adj")
    cause = Cause(adjustment_id, "INITIAL_STOCK", source, at_ms)
    for position, values in enumerate(listed, start=1):
        variant_id = _add(tx, store, product_id, position, values, at_ms)
        if values.get("stock"):
            inventory.move(tx, store.id, variant_id, values["stock"], cause)


def _add(
    tx: Tx, store: Store, product_id: str, position: int, values: Document, at_ms: int
) -> str:
    columns = {**DEFAULTS, **_columns(values)}
    columns["title"] = columns["title"] or _titled(values.get("options"))
    columns |= {"id": tx.ids.new("var"), "store_id": store.id}
    columns |= {"product_id": product_id, "position": position}
    columns |= {"options": encode_text(values.get("options") or {})}
    columns |= {"created_ms": at_ms, "updated_ms": at_ms, "stock_ms": at_ms}
    tx.insert("variant", columns)
    variant_id: str = columns["id"]
    return variant_id


def replace(
    tx: Tx,
    store: Store,
    source: Source,
    product_id: str,
    listed: Sequence[Document],
    at_ms: int,
) -> None:
    """Replace the product's variants by the list: change, add, remove."""
    existing = {
        row["id"]: row
        for row in tx.all("SELECT * FROM variant WHERE product_id = ?", (product_id,))
    }
    _check_known(listed, set(existing))
    kept = {values["id"] for values in listed if values.get("id")}
    gone = [
        {"id": row["id"], "stock": row["stock"]}
        for row in existing.values()
        if row["id"] not in kept
    ]
    unlink_variants(tx, store.id, product_id, [row["id"] for row in gone])
    remove(tx, store, source, gone, at_ms)
    _give_up_skus(tx, existing, listed)
    for position, values in enumerate(listed, start=1):
        if values.get("id"):
            before = existing[values["id"]]
            _change(tx, store, before, position, values, at_ms)
        else:
            _add(tx, store, product_id, position, values, at_ms)


def change_only(
    tx: Tx, store: Store, product_id: str, values: Document, at_ms: int
) -> None:
    """Change the product's only variant by the members of the product."""
    sent: Document = {name: values[name] for name in ("price", "sku") if name in values}
    if not sent:
        return
    first, *others = tx.all("SELECT * FROM variant WHERE product_id = ?", (product_id,))
    if others:
        raise Problem(409, "VARIANT_REQUIRED", "the product has several variants")
    _change(tx, store, first, first["position"], sent, at_ms)


def _give_up_skus(tx: Tx, existing: dict[str, Row], listed: Sequence[Document]) -> None:
    """Free the SKUs that change, so that variants may swap them in one request."""
    for values in listed:
        before = existing.get(values.get("id") or "")
        if before is not None and values.get("sku", before["sku"]) != before["sku"]:
            tx.update("variant", before["id"], {"sku": None})


def _check_known(listed: Sequence[Document], known: set[str]) -> None:
    flaws = [
        Flaw(f"/variants/{n}/id", "NOT_FOUND", "the product has no such variant")
        for n, values in enumerate(listed)
        if values.get("id") and values["id"] not in known
    ]
    if not listed:
        flaws.append(Flaw("/variants", "TOO_SHORT", "at least one variant stays"))
    ids = [values["id"] for values in listed if values.get("id")]
    if len(ids) != len(set(ids)):
        flaws.append(Flaw("/variants", "DUPLICATE", "a variant is listed twice"))
    flaws += [
        Flaw(f"/variants/{n}/price", "REQUIRED", "is required")
        for n, values in enumerate(listed)
        if not values.get("id") and values.get("price") is None
    ]
    if flaws:
        raise invalid(flaws)


def _change(
    tx: Tx, store: Store, before: Row, position: int, values: Document, at_ms: int
) -> None:
    columns: Document = {**_columns(values), "position": position}
    if "options" in values:
        columns["options"] = encode_text(values["options"] or {})
    if "title" in columns and not columns["title"]:
        options = columns.get("options", before["options"])
        columns["title"] = _titled(decode_stored(options))
    if all(before[name] == value for name, value in columns.items()):
        return
    tx.update("variant", before["id"], {**columns, "updated_ms": at_ms})


def remove(
    tx: Tx, store: Store, source: Source, gone: Sequence[Mapping[str, Any]], at_ms: int
) -> None:
    """Delete variants; the stock ledger logs the loss of their stock."""
    note = "variant deleted"
    cause = Cause(tx.ids.new("adj"), "OTHER", source, at_ms, note)
    for variant in gone:
        if variant["stock"]:
            inventory.move(
                tx, store.id, variant["id"], -variant["stock"], cause, force=True
            )
        tx.run("DELETE FROM variant WHERE id = ?", (variant["id"],))


def _columns(values: Document) -> Document:
    found = {column: values[name] for name, column in COLUMNS.items() if name in values}
    # Null clears where there is something to clear to: the default.
    for name in ("tracked", "policy"):
        if name in found and found[name] is None:
            found[name] = DEFAULTS[name]
    return found


def _titled(options: dict[str, str] | None) -> str:
    return " / ".join((options or {}).values()) or "Default"
