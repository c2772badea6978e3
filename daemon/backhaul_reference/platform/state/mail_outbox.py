"""The mail outbox: queued mails, due mails and their results."""

from dataclasses import dataclass

from backhaul_reference.platform import formats
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.state.database import Listing, Row, Rows, Window
from backhaul_reference.platform.state.writer import Tx

RETRY_SECONDS = (5, 30, 300, 1800, 7200, 18_000, 36_000, 36_000)
DUE = """SELECT * FROM mail WHERE status = 'PENDING' AND next_ms <= ?
ORDER BY next_ms, seq LIMIT ?"""
RECORD = """UPDATE mail SET status = ?, attempts = attempts + 1, next_ms = ?,
error = ?, sent_ms = ? WHERE seq = ? AND status = 'PENDING'"""


@dataclass(frozen=True, slots=True)
class Sending:
    """How one attempt to send a mail ended."""

    seq: int
    attempts: int
    at_ms: int
    error: str | None = None
    hopeless: bool = False


def queue(
    tx: Tx,
    store_id: str,
    template: str,
    order_id: str | None = None,
    *,
    part: str | None = None,
) -> None:
    """Queue a mail; `part` names a shipment, report or subscription."""
    now_ms = tx.now_ms()
    values = {
        "id": tx.ids.new("mail"),
        "store_id": store_id,
        "template": template,
        "order_id": order_id,
        "part": part,
        "status": "PENDING",
        "next_ms": now_ms,
        "created_ms": now_ms,
    }
    tx.insert("mail", values)


def due(rows: Rows, now_ms: int, limit: int) -> list[Row]:
    return rows.all(DUE, (now_ms, limit))


def next_due_ms(rows: Rows) -> int | None:
    found: int | None = rows.value(
        "SELECT MIN(next_ms) FROM mail WHERE status = 'PENDING'"
    )
    return found


def record(tx: Tx, ended: list[Sending]) -> None:
    for one in ended:
        if one.error is None:
            tx.run(RECORD, ("SENT", None, None, one.at_ms, one.seq))
        elif one.hopeless or one.attempts >= len(RETRY_SECONDS):
            tx.run(RECORD, ("FAILED", None, one.error, None, one.seq))
        else:
            next_ms = one.at_ms + RETRY_SECONDS[one.attempts] * 1000
            tx.run(RECORD, ("PENDING", next_ms, one.error, None, one.seq))


def page(rows: Rows, window: Window) -> Listing:
    """All mails of all stores, newest first."""
    total = rows.value("SELECT COUNT(*) FROM mail")
    found = rows.all(
        "SELECT m.*, s.subdomain FROM mail m JOIN store s ON s.id = m.store_id"
        " ORDER BY m.seq DESC LIMIT ? OFFSET ?",
        (window.limit, window.offset),
    )
    return Listing(found, total)


def view(row: Row) -> Document:
    return {
        "id": row["id"],
        "store": row["subdomain"],
        "template": row["template"],
        "orderId": row["order_id"],
        "status": row["status"],
        "attempts": row["attempts"],
        "error": row["error"],
        "nextAttemptAt": formats.to_text_or_none(row["next_ms"]),
        "sentAt": formats.to_text_or_none(row["sent_ms"]),
        "createdAt": formats.to_text(row["created_ms"]),
    }
