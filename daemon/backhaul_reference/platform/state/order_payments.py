"""Payments: buyers' reports; confirm, mark paid, refund."""

from dataclasses import dataclass
from typing import Any

from backhaul_reference.platform import formats, order_models
from backhaul_reference.platform.state import (
    mail_outbox,
    order_lifecycle,
    order_views,
    webhook_outbox,
)
from backhaul_reference.platform.state.database import Row
from backhaul_reference.platform.state.stores import Store
from backhaul_reference.platform.state.writer import Tx

SAME_ELSEWHERE = """SELECT o.id FROM payment_report r JOIN orders o ON o.id = r.order_id
WHERE r.transaction_id = ? AND o.store_id = ? AND o.id <> ? ORDER BY r.seq LIMIT 1"""
# What of an order decides -> why a report is refused; the first that applies.
REFUSALS = (
    ("COD", None, "PAYMENT_NOT_EXPECTED", "the order is not paid by Scan & Pay"),
    (None, "PAID", "ORDER_ALREADY_PAID", "the order is paid"),
    (None, "REFUNDED", "ORDER_ALREADY_PAID", "the order was paid and refunded"),
    (None, "VOIDED", "ORDER_CANCELLED", "the order is cancelled"),
)


@dataclass(frozen=True, slots=True)
class PaymentReport:
    """A buyer's report of a payment."""

    transaction_id: str
    payer_name: str | None


def report(
    tx: Tx, store: Store, row: Row, sent: PaymentReport
) -> order_models.PaymentReport:
    """Store a report; a repeated transaction changes nothing."""
    _check(row)
    known = tx.one(
        "SELECT * FROM payment_report WHERE order_id = ? AND transaction_id = ?",
        (row["id"], sent.transaction_id),
    )
    if known is not None:
        return _view(sent.transaction_id, known["reported_ms"])
    at_ms = tx.tick(store.id)
    elsewhere = (sent.transaction_id, store.id, row["id"])
    values = {
        "order_id": row["id"],
        "transaction_id": sent.transaction_id,
        "payer_name": sent.payer_name,
        "duplicate_of": tx.value(SAME_ELSEWHERE, elsewhere),
        "reported_ms": at_ms,
    }
    seq = tx.insert("payment_report", values)
    order_views.touch(tx, row["id"], at_ms, {})
    mail_outbox.queue(tx, store.id, "payment_reported", row["id"], part=str(seq))
    return _view(sent.transaction_id, at_ms)


def _check(row: Row) -> None:
    method = row["payment_method"]
    kind = method if method == "CUSTOM_QR" else "COD"
    for wanted, financial, code, detail in REFUSALS:
        if wanted in (None, kind) and financial in (None, row["financial"]):
            raise order_views.refusal(code, detail, row)


def _view(transaction_id: str, reported_ms: int) -> order_models.PaymentReport:
    return {
        "received": True,
        "status": "AWAITING_CONFIRMATION",
        "transactionId": transaction_id,
        "reportedAt": formats.to_text(reported_ms),
    }


def confirm(tx: Tx, store: Store, order_id: str) -> order_models.Order:
    row = order_views.find(tx, store, order_id)
    if row["confirmed_ms"] is not None:
        return order_views.view(tx, store, order_id)
    if row["cancelled_ms"] is not None:
        raise order_views.refusal("ORDER_CANCELLED", "it is cancelled", row)
    at_ms = tx.tick(store.id)
    before, after = _change(tx, store, row, at_ms, {"confirmed_ms": at_ms})
    order_views.announce_update(tx, store, before, after)
    return after


def mark_paid(tx: Tx, store: Store, order_id: str) -> order_models.Order:
    row = order_views.find(tx, store, order_id)
    to = _financial(row, "mark_paid")
    if to == row["financial"]:
        return order_views.view(tx, store, order_id)
    at_ms = tx.tick(store.id)
    values = {"financial": to, "paid_ms": at_ms}
    before, after = _change(tx, store, row, at_ms, values)
    order_views.announce_update(tx, store, before, after)
    return after


def refund(tx: Tx, store: Store, order_id: str) -> order_models.Order:
    row = order_views.find(tx, store, order_id)
    to = _financial(row, "refund")
    at_ms = tx.tick(store.id)
    before, after = _change(tx, store, row, at_ms, {"financial": to})
    webhook_outbox.emit(
        tx, store.id, "orders/cancelled", {**after, "trigger": "REFUND"}
    )
    order_views.announce_update(tx, store, before, after)
    return after


def _financial(row: Row, trigger: str) -> str:
    cancelled = row["cancelled_ms"] is not None
    move = order_lifecycle.financial_move(
        row["financial"], trigger, cancelled=cancelled
    )
    if move.to is None:
        raise order_views.refusal(move.refusal, "its payment does not allow it", row)
    return move.to


def _change(
    tx: Tx, store: Store, row: Row, at_ms: int, values: dict[str, Any]
) -> tuple[order_models.Order, order_models.Order]:
    before = order_views.view(tx, store, row["id"])
    order_views.touch(tx, row["id"], at_ms, values)
    return before, order_views.view(tx, store, row["id"])
