"""Webhook subscriptions."""

from collections.abc import Iterable, Sequence
from typing import Any

from backhaul_reference import instants
from backhaul_reference.documents import Document, decode_stored, encode_text
from backhaul_reference.problems import Problem, not_found
from backhaul_reference.state import deliveries
from backhaul_reference.state.database import Row, Rows, marks
from backhaul_reference.state.paging import Clause, Listing, Window, listing
from backhaul_reference.state.writer import Tx

NOTHING_ELSE = """NOT EXISTS (SELECT 1 FROM subscription_topic
  WHERE subscription_id = subscription.id AND topic NOT IN ({}))"""


def add(
    tx: Tx, store_id: str, address: str, topics: Iterable[str], description: str | None
) -> Document:
    """Subscribe; the secret is in this answer and in no later one."""
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
) -> Document:
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
    deliveries.hold_inactive(tx)
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


def remove(tx: Tx, store_id: str, subscription_id: str) -> Document:
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


def view(rows: Rows, store_id: str, subscription_id: str) -> Document:
    return subscription_view(find(rows, store_id, subscription_id))


def page(rows: Rows, store_id: str, window: Window, topics: Sequence[str]) -> Listing:
    """Subscriptions that carry nothing but these topics."""
    within = Clause(NOTHING_ELSE.format(marks(topics)), topics)
    found = listing(rows, "subscription", store_id, {}, window, within=within)
    return Listing([subscription_view(row) for row in found.rows], found.total)


def every(rows: Rows, store_id: str) -> list[Document]:
    found = rows.all(
        "SELECT * FROM subscription WHERE store_id = ? ORDER BY created_ms, id",
        (store_id,),
    )
    return [subscription_view(row) for row in found]


def topics_of(row: Row) -> list[str]:
    topics: list[str] = decode_stored(row["topics"])
    return topics


def subscription_view(row: Row) -> Document:
    return {
        "id": row["id"],
        "address": row["address"],
        "topics": topics_of(row),
        "description": row["description"],
        "status": row["status"],
        "disabledReason": row["disabled_reason"],
        "consecutiveFailures": row["consecutive_failures"],
        "lastSuccessAt": instants.to_text_or_none(row["last_success_ms"]),
        "lastFailureAt": instants.to_text_or_none(row["last_failure_ms"]),
        "createdAt": instants.to_text(row["created_ms"]),
        "updatedAt": instants.to_text(row["updated_ms"]),
    }
