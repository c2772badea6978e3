"""The ledger of stock: one row for each move, however often it is reported.

The `adjustment_id` identifies a move. A delivery may lack it: then the history, or the
same delivery in other bytes, reports the move again. Two reports are one move if
variant, stock afterwards and time are equal, and if change, reason and order are equal
as far as the delivery has them. The values of the history win.

With whole seconds, goods can leave, return and leave again at one time. Then deliveries
of different events are separate moves. A row belongs to at most one id and one such
event, so in the end there are as many rows as the richer source has, in any order of
arrival.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul.store.sql.dialect import hint, same

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul.core.resources import StockChange
    from backhaul.store.sql.family import Connection

# The + keeps SQLite from an index that returns all moves of a product without an id.
_AT = f"""
    SELECT id FROM stock_ledger
    WHERE variant_id = :variant AND at = :at AND {hint("+")}store = :store
      AND {hint("+")}product_id = :product AND stock_after = :stock_after
"""  # noqa: S608 - constants
_WITHOUT_ID = f"""
    {_AT} AND adjustment_id IS NULL AND adjustment IN (0, :adjustment)
      AND reason IN ('', :reason) AND (cause IS NULL OR cause = :order)
    ORDER BY id LIMIT 1
"""
# A row without `told_by` was reported with an id only, or by an earlier version.
_REPORTED = f"""
    {_AT} AND (adjustment = :adjustment OR :adjustment = 0) AND :reason IN ('', reason)
      AND (:order IS NULL OR cause = :order)
      AND (told_by IS NULL OR told_by = :event_id OR at NOT LIKE '%.000Z')
    ORDER BY {same("told_by", ":event_id")} DESC, told_by IS NULL DESC, id LIMIT 1
"""
# If another row has the id already, nothing changes.
_SET_ID = """
    UPDATE stock_ledger
    SET adjustment_id = :id, adjustment = :adjustment, reason = :reason,
        cause = coalesce(:order, :id)
    WHERE id = :row AND NOT EXISTS (
        SELECT 1 FROM stock_ledger k WHERE k.store = :store AND k.adjustment_id = :id
        AND k.variant_id = :variant)
"""
_SET_EVENT = """
    UPDATE stock_ledger SET told_by = coalesce(told_by, :event_id) WHERE id = :row
"""
_ADD = """
    INSERT INTO stock_ledger
        (store, product_id, variant_id, adjustment, stock_after, reason, cause,
         adjustment_id, at, told_by)
    VALUES (:store, :product, :variant, :adjustment, :stock_after, :reason,
            coalesce(:order, :id), :id, :at,
            CASE WHEN :id IS NULL THEN :event_id END)
    ON CONFLICT (store, adjustment_id, variant_id) DO NOTHING
"""


def add(connection: Connection, store: str, change: StockChange, event_id: str) -> bool:
    """Add the moves of a stock change; return False if the ledger has all of them.

    `event_id` is the platform's id of the event that reports them, or empty.
    """
    return sum(_add(connection, row) for row in _rows(store, change, event_id)) > 0


def _rows(store: str, change: StockChange, event_id: str) -> list[dict[str, Any]]:
    shared = {
        "store": store,
        "product": change.product_id,
        "order": change.order_id,
        "id": change.adjustment_id,
        "at": change.updated_at,
        "event_id": event_id,
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


def _add(connection: Connection, row: Mapping[str, Any]) -> bool:
    find, keep = (
        (_REPORTED, _SET_EVENT) if row["id"] is None else (_WITHOUT_ID, _SET_ID)
    )
    found = connection.execute(find, row).fetchone()
    if found is not None:
        connection.execute(keep, {**row, "row": found[0]})
        return False
    return connection.execute(_ADD, row).rowcount > 0
