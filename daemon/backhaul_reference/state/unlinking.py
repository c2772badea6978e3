"""Cutting order snapshots loose from products that go away."""

from collections.abc import Sequence

from backhaul_reference.state.database import marks
from backhaul_reference.state.writer import Tx


def unlink_product(tx: Tx, store_id: str, product_id: str) -> None:
    """Clear the lines' references; each order so touched can be found by a sweep."""
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
    where = f"product_id = ? AND variant_id IN ({marks(variant_ids)})"
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
