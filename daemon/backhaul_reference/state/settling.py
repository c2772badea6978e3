"""The merchant's own moves on an order: confirm, mark paid, refund."""

from typing import Any

from backhaul_reference import lifecycle
from backhaul_reference.documents import Document
from backhaul_reference.state import events, order_changes, order_views
from backhaul_reference.state.database import Row
from backhaul_reference.state.stores import Store
from backhaul_reference.state.writer import Tx


def confirm(tx: Tx, store: Store, order_id: str) -> Document:
    row = order_views.find(tx, store, order_id)
    if row["confirmed_ms"] is not None:
        return order_views.view(tx, store, order_id)
    if row["cancelled_ms"] is not None:
        raise order_changes.refusal("ORDER_CANCELLED", "it is cancelled", row)
    at_ms = tx.tick(store.id)
    before, after = _change(tx, store, row, at_ms, {"confirmed_ms": at_ms})
    order_changes.announce_update(tx, store, before, after)
    return after


def mark_paid(tx: Tx, store: Store, order_id: str) -> Document:
    row = order_views.find(tx, store, order_id)
    to = _financial(row, "mark_paid")
    if to == row["financial"]:
        return order_views.view(tx, store, order_id)
    at_ms = tx.tick(store.id)
    values = {"financial": to, "paid_ms": at_ms}
    before, after = _change(tx, store, row, at_ms, values)
    order_changes.announce_update(tx, store, before, after)
    return after


def refund(tx: Tx, store: Store, order_id: str) -> Document:
    row = order_views.find(tx, store, order_id)
    to = _financial(row, "refund")
    at_ms = tx.tick(store.id)
    before, after = _change(tx, store, row, at_ms, {"financial": to})
    events.emit(tx, store.id, "orders/cancelled", {**after, "trigger": "REFUND"})
    order_changes.announce_update(tx, store, before, after)
    return after


def _financial(row: Row, trigger: str) -> str:
    cancelled = row["cancelled_ms"] is not None
    move = lifecycle.financial_move(row["financial"], trigger, cancelled=cancelled)
    if move.to is None:
        raise order_changes.refusal(move.refusal, "its payment does not allow it", row)
    return move.to


def _change(
    tx: Tx, store: Store, row: Row, at_ms: int, values: dict[str, Any]
) -> tuple[Document, Document]:
    before = order_views.view(tx, store, row["id"])
    order_changes.touch(tx, row["id"], at_ms, values)
    return before, order_views.view(tx, store, row["id"])
