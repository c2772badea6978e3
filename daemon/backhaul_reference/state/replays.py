"""Beyond the first sending: new secrets, tests, replays, and what grows old."""

from collections.abc import Sequence

from backhaul_reference import instants
from backhaul_reference.documents import Document
from backhaul_reference.problems import Problem
from backhaul_reference.state import deliveries, events, idempotency, subscriptions
from backhaul_reference.state.database import Row, marks
from backhaul_reference.state.writer import Tx

ROTATION_MS = 24 * 3600 * 1000
KEEP_MS = 30 * 24 * 3600 * 1000
TEST_TOPIC = "webhooks/test"

CHOSEN = """SELECT seq FROM event WHERE store_id = ? AND created_ms >= ?
  AND topic IN ({})"""
AGAIN = """UPDATE delivery SET status = 'PENDING', series_start = attempts, next_ms = ?
WHERE subscription_id = ? AND status <> 'PENDING' AND lease_ms IS NULL
  AND event_seq IN ({})"""
NEVER_SENT = """{} AND NOT EXISTS (
  SELECT 1 FROM delivery WHERE event_seq = event.seq AND subscription_id = ?)
ORDER BY seq"""


def rotate_secret(tx: Tx, subscription: Row) -> Document:
    """A new secret at once; the old one signs beside it for a day."""
    _check_enabled(subscription)
    now_ms = tx.now_ms()
    secret = tx.ids.signing_secret()
    columns = {
        "secret": secret,
        "previous_secret": subscription["secret"],
        "previous_until_ms": now_ms + ROTATION_MS,
        "updated_ms": now_ms,
    }
    tx.update("subscription", subscription["id"], columns)
    shown = subscriptions.view(tx, subscription["store_id"], subscription["id"])
    return {**shown, "secret": secret}


def send_test(tx: Tx, subscription: Row) -> Document:
    """One event for this subscription alone, of a topic that tells of nothing."""
    _check_enabled(subscription)
    data = {"webhookId": subscription["id"], "test": True}
    event_seq = events.freeze(tx, subscription["store_id"], TEST_TOPIC, data)
    delivery_id = events.queue_delivery(
        tx, event_seq, subscription["id"], subscription["status"]
    )
    return deliveries.view(tx, subscription["id"], delivery_id)


def replay(tx: Tx, subscription: Row, since_ms: int, topics: Sequence[str]) -> Document:
    """Queue every event since then once more; same events, same bytes."""
    _check_enabled(subscription)
    chosen = CHOSEN.format(marks(topics))
    params = (subscription["store_id"], since_ms, *topics)
    never = tx.all(NEVER_SENT.format(chosen), (*params, subscription["id"]))
    queued = 0
    if subscription["status"] == "ACTIVE":
        again = (tx.now_ms(), subscription["id"], *params)
        queued = tx.run(AGAIN.format(chosen), again)
    for event in never:
        events.queue_delivery(
            tx, event["seq"], subscription["id"], subscription["status"]
        )
    return {
        "queued": queued + len(never),
        "since": instants.to_text(since_ms),
        "topics": list(topics),
    }


def _check_enabled(subscription: Row) -> None:
    if subscription["status"] == "DISABLED":
        raise Problem(409, "WEBHOOK_DISABLED", "the subscription is disabled")


def prune(tx: Tx) -> None:
    """Forget what is older than 30 days, except what is still to be sent, and kept
    answers after their day."""
    idempotency.prune(tx)
    oldest_ms = tx.now_ms() - KEEP_MS
    tx.run(
        "DELETE FROM delivery WHERE created_ms < ? AND status <> 'PENDING'",
        (oldest_ms,),
    )
    tx.run(
        "DELETE FROM event WHERE created_ms < ?"
        " AND NOT EXISTS (SELECT 1 FROM delivery WHERE event_seq = event.seq)",
        (oldest_ms,),
    )
