"""The event outbox: events and their deliveries, stored with the change."""

from collections.abc import Mapping
from typing import Any

from backhaul_reference.platform import formats, quirks
from backhaul_reference.platform.json_codec import encode
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
