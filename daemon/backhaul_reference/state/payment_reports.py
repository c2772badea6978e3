"""Payment reports: what a buyer says they paid, for the merchant to confirm."""

from dataclasses import dataclass

from backhaul_reference import instants
from backhaul_reference.documents import Document
from backhaul_reference.state import mails, order_changes
from backhaul_reference.state.database import Row
from backhaul_reference.state.stores import Store
from backhaul_reference.state.writer import Tx

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
class Report:
    """What the buyer sent."""

    transaction_id: str
    payer_name: str | None


def report(tx: Tx, store: Store, row: Row, sent: Report) -> Document:
    """Keep a report; the same transaction again changes nothing."""
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
    order_changes.touch(tx, row["id"], at_ms, {})
    mails.queue(tx, store.id, "payment_reported", row["id"], part=str(seq))
    return _view(sent.transaction_id, at_ms)


def _check(row: Row) -> None:
    method = row["payment_method"]
    kind = method if method == "CUSTOM_QR" else "COD"
    for wanted, financial, code, detail in REFUSALS:
        if wanted in (None, kind) and financial in (None, row["financial"]):
            raise order_changes.refusal(code, detail, row)


def _view(transaction_id: str, reported_ms: int) -> Document:
    return {
        "received": True,
        "status": "AWAITING_CONFIRMATION",
        "transactionId": transaction_id,
        "reportedAt": instants.to_text(reported_ms),
    }
