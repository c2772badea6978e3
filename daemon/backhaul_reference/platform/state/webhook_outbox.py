"""The webhook outbox: events, their deliveries, attempts and recorded exchanges."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from backhaul_reference.platform import formats, models, quirks
from backhaul_reference.platform.json_codec import (
    Document,
    decode_stored,
    encode,
    encode_text,
)
from backhaul_reference.platform.problems import Problem, not_found
from backhaul_reference.platform.state import mail_outbox
from backhaul_reference.platform.state.database import (
    Listing,
    Row,
    Rows,
    Window,
    placeholders,
)
from backhaul_reference.platform.state.writer import Tx

TOPICS = (
    "orders/create",
    "orders/updated",
    "orders/fulfilled",
    "orders/cancelled",
    "products/create",
    "products/update",
    "products/delete",
    "inventory/level_update",
    "customers/create",
)
API_VERSION = "v1"

NEXT_SEQUENCE = """UPDATE counter SET sequence = sequence + 1 WHERE store_id = ?
RETURNING sequence"""
SUBSCRIBERS = """SELECT s.id, s.status FROM subscription_topic t
JOIN subscription s ON s.id = t.subscription_id WHERE t.store_id = ? AND t.topic = ?"""
QUIRKS = "SELECT quirks FROM store WHERE id = ?"
ADD_EVENT = """INSERT INTO event(id, store_id, sequence, topic, body, created_ms)
VALUES(?, ?, ?, ?, ?, ?)"""


def emit(tx: Tx, store_id: str, topic: str, data: Mapping[str, Any]) -> None:
    """Record the event and queue one delivery for each subscription."""
    event_seq = freeze(tx, store_id, topic, data)
    for subscriber in tx.all(SUBSCRIBERS, (store_id, topic)):
        queue_delivery(tx, event_seq, subscriber["id"], subscriber["status"])


def freeze(tx: Tx, store_id: str, topic: str, data: Mapping[str, Any]) -> int:
    """Write the event's bytes, which never change again; answers its row."""
    event_id = tx.ids.new("evt")
    created_ms = tx.now_ms()
    sequence = tx.value(NEXT_SEQUENCE, (store_id,))
    envelope = {
        "id": event_id,
        "topic": topic,
        "apiVersion": API_VERSION,
        "storeId": store_id,
        "createdAt": formats.to_text(created_ms),
        "sequence": sequence,
        "data": data,
    }
    words = quirks.stored(tx.value(QUIRKS, (store_id,)))
    body = encode(quirks.envelope(words, envelope) if words else envelope)
    params = (event_id, store_id, sequence, topic, body, created_ms)
    return tx.connection.execute(ADD_EVENT, params).lastrowid or 0


def queue_delivery(tx: Tx, event_seq: int, subscription_id: str, status: str) -> str:
    """One delivery: due at once, or held while its subscription is not active."""
    now_ms = tx.now_ms()
    active = status == "ACTIVE"
    values: dict[str, Any] = {
        "id": tx.ids.new("dlv"),
        "event_seq": event_seq,
        "subscription_id": subscription_id,
        "status": "PENDING" if active else "HELD",
        "next_ms": now_ms if active else None,
        "created_ms": now_ms,
    }
    tx.insert("delivery", values)
    delivery_id: str = values["id"]
    return delivery_id


BODY_BYTES = 4096
MOST_HEADERS = 40
VALUE_CHARACTERS = 500
REDACTED = "(redacted)"
SECRET = {"authorization", "cookie", "proxy-authenticate", "proxy-authorization"} | {
    "set-cookie",
    "www-authenticate",
}
Headers = list[list[str]]

OF_DELIVERY = """SELECT a.number, a.request_url, a.request_headers, a.response_headers,
  a.response_body, a.response_cut FROM delivery_attempt a
JOIN delivery d ON d.seq = a.delivery_seq
WHERE d.subscription_id = ? AND d.id = ? ORDER BY a.seq"""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its response; None for what was not sent or not received."""

    url: str | None = None
    sent: Headers | None = None
    answered: Headers | None = None
    body: bytes = b""
    cut: bool = False

    def columns(self) -> Document:
        return {
            "request_url": self.url,
            "request_headers": _stored(self.sent),
            "response_headers": _stored(self.answered),
            "response_body": self.body,
            "response_cut": self.cut,
        }


NOTHING = Exchange()


def _stored(headers: Headers | None) -> str | None:
    return None if headers is None else encode_text(headers)


def bounded(headers: Iterable[tuple[str, str]]) -> Headers:
    """Return the headers to store: limited in number and length, no credentials."""
    some = islice(headers, MOST_HEADERS)
    return [[_cut(name), _value(name, text)] for name, text in some]


def _value(name: str, text: str) -> str:
    return REDACTED if name.lower() in SECRET else _cut(text)


def _cut(text: str) -> str:
    if text.isascii() and len(text) <= VALUE_CHARACTERS:
        return str(text)  # aiohttp names headers by a kind of str of its own
    # A header may hold bytes that are no UTF-8.
    printable = text.encode("utf-8", "replace").decode()
    whole = len(printable) <= VALUE_CHARACTERS
    return printable if whole else printable[:VALUE_CHARACTERS] + "…"


def of_delivery(
    rows: Rows, subscription_id: str, delivery_id: str
) -> dict[int, Exchange]:
    """Return the exchanges of a delivery by attempt number; old ones may be missing."""
    found = rows.all(OF_DELIVERY, (subscription_id, delivery_id))
    return {
        row["number"]: Exchange(
            url=row["request_url"],
            sent=_read(row["request_headers"]),
            answered=_read(row["response_headers"]),
            body=row["response_body"] or b"",
            cut=bool(row["response_cut"]),
        )
        for row in found
    }


def _read(text: str | None) -> Headers | None:
    return None if text is None else decode_stored(text)


STATUSES = ("PENDING", "DELIVERED", "FAILED", "HELD")
DISABLE_AFTER_MS = 5 * 24 * 3600 * 1000
DISABLE_AFTER_FAILURES = 10

# One step into the index for each subscription: a backlog may be long.
DUE = """SELECT s.id AS subscription_id, (SELECT MIN(d.next_ms) FROM delivery d
  WHERE d.subscription_id = s.id AND d.status = 'PENDING' AND d.lease_ms IS NULL
) AS next_ms FROM subscription s WHERE s.status = 'ACTIVE'"""
CLAIM = """UPDATE delivery SET lease_ms = :now WHERE seq IN (
  SELECT seq FROM delivery WHERE status = 'PENDING' AND lease_ms IS NULL
    AND subscription_id = :subscription AND next_ms <= :now
    AND EXISTS (SELECT 1 FROM subscription WHERE id = :subscription
      AND status = 'ACTIVE')
  ORDER BY next_ms, seq LIMIT :limit)
RETURNING seq"""
CLAIMED = """SELECT d.seq, d.id, d.attempts, d.series_start, d.lease_ms,
  d.subscription_id, s.address, s.secret, s.previous_secret, s.previous_until_ms,
  e.id AS event_id, e.topic, e.body, e.created_ms, e.store_id, st.subdomain, st.quirks
FROM delivery d JOIN subscription s ON s.id = d.subscription_id
JOIN event e ON e.seq = d.event_seq JOIN store st ON st.id = e.store_id
WHERE d.seq IN ({}) ORDER BY d.seq"""
# Only the attempt that claimed a lease ends it: not another attempt, nor one of a
# delivery that had this number before a reset of the store.
END = """UPDATE delivery SET status = ?, attempts = ?, next_ms = ?, lease_ms = NULL
WHERE seq = ? AND id = ? AND lease_ms = ?"""
# A delivery in flight is held when its attempt ends.
HOLD = """UPDATE delivery SET status = 'HELD', next_ms = NULL
WHERE status = 'PENDING' AND lease_ms IS NULL
  AND subscription_id IN (SELECT id FROM subscription WHERE status <> 'ACTIVE')"""
LIST = """SELECT d.*, e.id AS event_id, e.topic FROM delivery d
JOIN event e ON e.seq = d.event_seq WHERE d.subscription_id = ?"""

SHOWN = "delivery_seq, number, at_ms, status_code, error, duration_ms"


@dataclass(frozen=True, slots=True)
class Attempt:
    """How one attempt ended, and what follows from it."""

    delivery_seq: int
    delivery_id: str
    lease_ms: int
    subscription_id: str
    number: int
    at_ms: int
    duration_ms: int
    status_code: int | None
    error: str | None
    delivered: bool
    next_ms: int | None
    gone: bool
    exchange: Exchange = NOTHING


def clear_leases(tx: Tx) -> None:
    """Release every lease at the start; deliveries in flight become due again."""
    tx.run("UPDATE delivery SET lease_ms = NULL WHERE lease_ms IS NOT NULL")
    hold_inactive(tx)


def due(rows: Rows) -> list[tuple[str, int]]:
    """Return each subscription with pending deliveries and its first due time."""
    found = [(row["subscription_id"], row["next_ms"]) for row in rows.all(DUE)]
    return [one for one in found if one[1] is not None]


def claim(tx: Tx, subscription_id: str, limit: int) -> list[Row]:
    """Take due deliveries of one subscription, oldest first."""
    params = {"now": tx.now_ms(), "subscription": subscription_id, "limit": limit}
    taken = [row["seq"] for row in tx.connection.execute(CLAIM, params).fetchall()]
    return tx.all(CLAIMED.format(placeholders(taken)), taken) if taken else []


def record(tx: Tx, attempts: Sequence[Attempt]) -> None:
    for attempt in attempts:
        _record_one(tx, attempt)
    hold_inactive(tx)


def _record_one(tx: Tx, attempt: Attempt) -> None:
    status = "DELIVERED" if attempt.delivered else "FAILED"
    if not attempt.delivered and attempt.next_ms is not None:
        status = "PENDING"
    lease = (attempt.delivery_seq, attempt.delivery_id, attempt.lease_ms)
    if not tx.run(END, (status, attempt.number, attempt.next_ms, *lease)):
        return  # deleted meanwhile, with its subscription or its store
    tx.insert(
        "delivery_attempt",
        {
            "delivery_seq": attempt.delivery_seq,
            "number": attempt.number,
            "at_ms": attempt.at_ms,
            "status_code": attempt.status_code,
            "error": attempt.error,
            "duration_ms": attempt.duration_ms,
            **attempt.exchange.columns(),
        },
    )
    if attempt.delivered:
        _succeeded(tx, attempt)
    else:
        _failed(tx, attempt)


def _succeeded(tx: Tx, attempt: Attempt) -> None:
    tx.run(
        "UPDATE subscription SET consecutive_failures = 0, failing_since_ms = NULL,"
        " last_success_ms = ? WHERE id = ?",
        (attempt.at_ms, attempt.subscription_id),
    )


def _failed(tx: Tx, attempt: Attempt) -> None:
    row = tx.one(
        "UPDATE subscription SET consecutive_failures = consecutive_failures + 1,"
        " failing_since_ms = COALESCE(failing_since_ms, :at), last_failure_ms = :at"
        " WHERE id = :id RETURNING consecutive_failures, failing_since_ms",
        {"at": attempt.at_ms, "id": attempt.subscription_id},
    )
    if row is None:
        return
    long = attempt.at_ms - row["failing_since_ms"] >= DISABLE_AFTER_MS
    if attempt.gone:
        disable(tx, attempt.subscription_id, "GONE")
    elif long and row["consecutive_failures"] >= DISABLE_AFTER_FAILURES:
        disable(tx, attempt.subscription_id, "FAILING")


def disable(tx: Tx, subscription_id: str, reason: str) -> None:
    """Stop sending."""
    row = tx.one(
        "UPDATE subscription SET status = 'DISABLED', disabled_reason = ?,"
        " updated_ms = ? WHERE id = ? AND status <> 'DISABLED' RETURNING store_id",
        (reason, tx.now_ms(), subscription_id),
    )
    if row is not None:
        mail_outbox.queue(tx, row["store_id"], "webhook_disabled", part=subscription_id)


def hold_inactive(tx: Tx) -> None:
    """Hold the pending deliveries of inactive subscriptions; none is lost."""
    tx.run(HOLD)


def redeliver(tx: Tx, subscription: Row, delivery_id: str) -> models.Delivery:
    """Begin a new series of attempts on the same delivery, same event, same bytes.

    While the subscription is paused it is held.
    """
    row = _find(tx, subscription["id"], delivery_id)
    if subscription["status"] == "DISABLED":
        raise Problem(409, "WEBHOOK_DISABLED", "the subscription is disabled")
    tx.run(
        "UPDATE delivery SET status = 'PENDING', series_start = attempts, next_ms = ?"
        " WHERE seq = ? AND lease_ms IS NULL",
        (tx.now_ms(), row["seq"]),
    )
    hold_inactive(tx)
    return view(tx, subscription["id"], delivery_id)


def _find(rows: Rows, subscription_id: str, delivery_id: str) -> Row:
    row = rows.one(LIST + " AND d.id = ?", (subscription_id, delivery_id))
    if row is None:
        raise not_found("DELIVERY", delivery_id)
    return row


def view(rows: Rows, subscription_id: str, delivery_id: str) -> models.Delivery:
    return _views(rows, [_find(rows, subscription_id, delivery_id)])[0]


def page(rows: Rows, subscription_id: str, window: Window) -> Listing:
    total = rows.value(
        "SELECT COUNT(*) FROM delivery WHERE subscription_id = ?", (subscription_id,)
    )
    found = rows.all(
        LIST + " ORDER BY d.seq DESC LIMIT ? OFFSET ?",
        (subscription_id, window.limit, window.offset),
    )
    return Listing(_views(rows, found), total)


def _views(rows: Rows, found: Sequence[Row]) -> list[models.Delivery]:
    seqs = [row["seq"] for row in found]
    attempts: dict[int, list[models.Attempt]] = {seq: [] for seq in seqs}
    for row in rows.all(
        f"SELECT {SHOWN} FROM delivery_attempt"  # noqa: S608  - a literal and placeholders
        f" WHERE delivery_seq IN ({placeholders(seqs)}) ORDER BY seq",
        seqs,
    ):
        attempts[row["delivery_seq"]].append(_attempt_view(row))
    return [_view(row, attempts[row["seq"]]) for row in found]


def _view(row: Row, attempts: list[models.Attempt]) -> models.Delivery:
    return {
        "id": row["id"],
        "eventId": row["event_id"],
        "topic": row["topic"],
        "status": row["status"],
        "attempts": attempts,
        "nextAttemptAt": formats.to_text_or_none(row["next_ms"]),
        "createdAt": formats.to_text(row["created_ms"]),
    }


def _attempt_view(row: Row) -> models.Attempt:
    return {
        "number": row["number"],
        "at": formats.to_text(row["at_ms"]),
        "statusCode": row["status_code"],
        "error": row["error"],
        "durationMs": row["duration_ms"],
    }


def counts(rows: Rows, store_id: str) -> dict[str, int]:
    found = rows.all(
        "SELECT d.status, COUNT(*) AS n FROM delivery d"
        " JOIN subscription s ON s.id = d.subscription_id"
        " WHERE s.store_id = ? GROUP BY d.status",
        (store_id,),
    )
    return dict.fromkeys(STATUSES, 0) | {row["status"]: row["n"] for row in found}
