"""The ledger of stock: one row for each move, however often and by whom it is told.

A move is known by its `adjustment_id`. A delivery may lack it, so that the history, or
the same delivery in other bytes, tells of the move once more. The two are one where
variant, stock left and moment are the same, and so are change, reason and order as far
as the delivery tells them; the history is taken at its word.

In whole seconds goods may leave, come back and leave again within one moment: there
deliveries of different events are moves of their own. A row stands for at most one id
and one such event, so that in the end there are as many rows as the richer of the two
knows of, in whichever order they came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from backhaul.core.resources import StockChange

# The + keeps SQLite from an index that brings all moves of a product without an id.
_AT = """
    SELECT id FROM stock_ledger
    WHERE variant_id = :variant AND at = :at AND +store = :store
      AND +product_id = :product AND stock_after = :stock_after
"""
_NAMELESS = f"""
    {_AT} AND adjustment_id IS NULL AND adjustment IN (0, :adjustment)
      AND reason IN ('', :reason) AND (cause IS NULL OR cause = :order)
    ORDER BY id LIMIT 1
"""
# A row without `told_by` was told by its id only, or by an earlier version.
_TOLD = f"""
    {_AT} AND :adjustment IN (0, adjustment) AND :reason IN ('', reason)
      AND (:order IS NULL OR cause = :order)
      AND (told_by IS NULL OR told_by = :told_by OR at NOT LIKE '%.000Z')
    ORDER BY told_by IS :told_by DESC, told_by IS NULL DESC, id LIMIT 1
"""
# An id that another row bears is known: then nothing is changed.
_NAME = """
    UPDATE OR IGNORE stock_ledger
    SET adjustment_id = :id, adjustment = :adjustment, reason = :reason,
        cause = coalesce(:order, :id)
    WHERE id = :row
"""
_HEAR = "UPDATE stock_ledger SET told_by = coalesce(told_by, :told_by) WHERE id = :row"
_ADD = """
    INSERT OR IGNORE INTO stock_ledger
        (store, product_id, variant_id, adjustment, stock_after, reason, cause,
         adjustment_id, at, told_by)
    VALUES (:store, :product, :variant, :adjustment, :stock_after, :reason,
            coalesce(:order, :id), :id, :at, iif(:id IS NULL, :told_by, NULL))
"""


def add(
    connection: sqlite3.Connection, store: str, change: StockChange, told_by: str
) -> bool:
    """Write what a change of stock moved; False where all of it was known.

    `told_by` is the id of the event that tells of it, empty where it has none.
    """
    return sum(_add(connection, row) for row in _rows(store, change, told_by)) > 0


def _rows(store: str, change: StockChange, told_by: str) -> list[dict[str, Any]]:
    shared = {
        "store": store,
        "product": change.product_id,
        "order": change.order_id,
        "id": change.adjustment_id,
        "at": change.updated_at,
        "told_by": told_by,
    }
    return [
        shared
        | {
            "variant": move.level.variant_id,
            "stock_after": move.level.stock,
            "adjustment": move.adjustment,
            "reason": move.reason,
        }
        for move in change.moves
    ]


def _add(connection: sqlite3.Connection, row: Mapping[str, Any]) -> bool:
    find, keep = (_TOLD, _HEAR) if row["id"] is None else (_NAMELESS, _NAME)
    found = connection.execute(find, row).fetchone()
    if found is not None:
        connection.execute(keep, {**row, "row": found[0]})
        return False
    return connection.execute(_ADD, row).rowcount > 0
