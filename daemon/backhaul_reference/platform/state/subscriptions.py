"""Webhook subscriptions: CRUD, secrets, tests, replays and pruning."""

from collections.abc import Iterable, Sequence
from typing import Any

from backhaul_reference.platform import formats, models
from backhaul_reference.platform.json_codec import Document, decode_stored, encode_text
from backhaul_reference.platform.problems import Problem, not_found
from backhaul_reference.platform.state import idempotency, webhook_outbox
from backhaul_reference.platform.state.database import (
    Clause,
    Listing,
    Row,
    Rows,
    Window,
    listing,
    placeholders,
)
from backhaul_reference.platform.state.writer import Tx

NOTHING_ELSE = """NOT EXISTS (SELECT 1 FROM subscription_topic
  WHERE subscription_id = subscription.id AND topic NOT IN ({}))"""


def add(
    tx: Tx, store_id: str, address: str, topics: Iterable[str], description: str | None
) -> Document:
    """Add a subscription; only this return value contains the secret."""
    now_ms = tx.now_ms()
    secret = tx.ids.signing_secret()
    values: dict[str, Any] = {
        "id": tx.ids.new("whk"),
        "store_id": store_id,
        "address": address,
        "topics": "[]",
        "description": description,
        "status": "ACTIVE",
        "secret": secret,
        "created_ms": now_ms,
        "updated_ms": now_ms,
    }
    tx.insert("subscription", values)
    _set_topics(tx, store_id, values["id"], topics)
    return {**view(tx, store_id, values["id"]), "secret": secret}


def change(
    tx: Tx, store_id: str, subscription_id: str, values: dict[str, Any]
) -> models.Webhook:
    row = find(tx, store_id, subscription_id)
    columns = {name: values[name] for name in values if name != "topics"}
    if columns.get("status") == "ACTIVE" and row["status"] == "DISABLED":
        columns |= {
            "disabled_reason": None,
            "consecutive_failures": 0,
            "failing_since_ms": None,
        }
    if columns.get("status") == "PAUSED" and row["status"] == "DISABLED":
        raise Problem(409, "WEBHOOK_DISABLED", "only ACTIVE leads out of DISABLED")
    columns["updated_ms"] = tx.now_ms()
    tx.update("subscription", subscription_id, columns)
    webhook_outbox.hold_inactive(tx)
    if "topics" in values:
        _set_topics(tx, store_id, subscription_id, values["topics"])
    return view(tx, store_id, subscription_id)


def _set_topics(
    tx: Tx, store_id: str, subscription_id: str, topics: Iterable[str]
) -> None:
    unique = list(dict.fromkeys(topics))
    tx.update("subscription", subscription_id, {"topics": encode_text(unique)})
    tx.run(
        "DELETE FROM subscription_topic WHERE subscription_id = ?", (subscription_id,)
    )
    tx.connection.executemany(
        "INSERT INTO subscription_topic(store_id, topic, subscription_id)"
        " VALUES(?, ?, ?)",
        [(store_id, topic, subscription_id) for topic in unique],
    )


def remove(tx: Tx, store_id: str, subscription_id: str) -> models.Deleted:
    find(tx, store_id, subscription_id)
    tx.run("DELETE FROM subscription WHERE id = ?", (subscription_id,))
    return {"id": subscription_id, "deleted": True}


def find(rows: Rows, store_id: str, subscription_id: str) -> Row:
    row = rows.one(
        "SELECT * FROM subscription WHERE id = ? AND store_id = ?",
        (subscription_id, store_id),
    )
    if row is None:
        raise not_found("WEBHOOK", subscription_id)
    return row


def view(rows: Rows, store_id: str, subscription_id: str) -> models.Webhook:
    return subscription_view(find(rows, store_id, subscription_id))


def page(rows: Rows, store_id: str, window: Window, topics: Sequence[str]) -> Listing:
    """List the subscriptions with no topics other than these."""
    within = Clause(NOTHING_ELSE.format(placeholders(topics)), topics)
    found = listing(rows, "subscription", store_id, {}, window, within=within)
    return Listing([subscription_view(row) for row in found.rows], found.total)


def every(rows: Rows, store_id: str) -> list[models.Webhook]:
    found = rows.all(
        "SELECT * FROM subscription WHERE store_id = ? ORDER BY created_ms, id",
        (store_id,),
    )
    return [subscription_view(row) for row in found]


def topics_of(row: Row) -> list[str]:
    topics: list[str] = decode_stored(row["topics"])
    return topics


def subscription_view(row: Row) -> models.Webhook:
    return {
        "id": row["id"],
        "address": row["address"],
        "topics": topics_of(row),
        "description": row["description"],
        "status": row["status"],
        "disabledReason": row["disabled_reason"],
        "consecutiveFailures": row["consecutive_failures"],
        "lastSuccessAt": formats.to_text_or_none(row["last_success_ms"]),
        "lastFailureAt": formats.to_text_or_none(row["last_failure_ms"]),
        "createdAt": formats.to_text(row["created_ms"]),
        "updatedAt": formats.to_text(row["updated_ms"]),
    }


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


def rotate_secret(tx: Tx, subscription: Row) -> models.WebhookWithSecret:
    """Create a new secret; the old one also signs for another day."""
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
    shown = view(tx, subscription["store_id"], subscription["id"])
    return {**shown, "secret": secret}


def send_test(tx: Tx, subscription: Row) -> models.Delivery:
    """Send a test event to this subscription only."""
    _check_enabled(subscription)
    data = {"webhookId": subscription["id"], "test": True}
    event_seq = webhook_outbox.freeze(tx, subscription["store_id"], TEST_TOPIC, data)
    delivery_id = webhook_outbox.queue_delivery(
        tx, event_seq, subscription["id"], subscription["status"]
    )
    return webhook_outbox.view(tx, subscription["id"], delivery_id)


def replay(
    tx: Tx, subscription: Row, since_ms: int, topics: Sequence[str]
) -> models.Replay:
    """Queue every event since a time again, with the same ids and bytes."""
    _check_enabled(subscription)
    chosen = CHOSEN.format(placeholders(topics))
    params = (subscription["store_id"], since_ms, *topics)
    never = tx.all(NEVER_SENT.format(chosen), (*params, subscription["id"]))
    queued = 0
    if subscription["status"] == "ACTIVE":
        again = (tx.now_ms(), subscription["id"], *params)
        queued = tx.run(AGAIN.format(chosen), again)
    for event in never:
        webhook_outbox.queue_delivery(
            tx, event["seq"], subscription["id"], subscription["status"]
        )
    return {
        "queued": queued + len(never),
        "since": formats.to_text(since_ms),
        "topics": list(topics),
    }


def _check_enabled(subscription: Row) -> None:
    if subscription["status"] == "DISABLED":
        raise Problem(409, "WEBHOOK_DISABLED", "the subscription is disabled")


def prune(tx: Tx) -> None:
    """Delete data older than 30 days except pending deliveries, and stored
    responses after a day."""
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
