"""What a delivery is about: topic, store, order, and the resource inside.

The platform may wrap the resource (`{id, topic, …, data}`) or send it bare; the topic
comes from the envelope, else the header, else the URL path (platform contract 1.4).
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from backhaul.core import strict_json

TOPICS = (
    *("orders/create", "orders/updated", "orders/fulfilled", "orders/cancelled"),
    *("products/create", "products/update", "products/delete"),
    *("inventory/level_update", "customers/create"),
)
"""The nine topics of the specification."""


class Envelope(Struct, frozen=True):
    """A delivery, opened. `sequence` is 0 where the platform gives none."""

    topic: str
    event_id: str | None
    store_id: str | None
    sequence: int
    created_at: str | None
    data: dict[str, Any]


def topic_of(value: object) -> str:
    """Return a topic as the specification writes it; empty where there is none.

    Platforms differ in case, and proxies leave blanks around it.
    """
    return value.strip().lower() if isinstance(value, str) else ""


def open_envelope(body: bytes, outside_topic: str) -> Envelope:
    """Read a delivery's body. Raises Unusable when it is no JSON object.

    A document that holds `data` is an envelope, unless it is an object of its own: that
    has a time of its own. Without a topic in it the one from outside counts. An
    envelope whose `data` is no object holds nothing: its own id names the event.
    """
    document = strict_json.decode_object(body)
    topic = topic_of(document.get("topic"))
    if "data" in document and (topic or "updatedAt" not in document):
        data = document["data"]
        return Envelope(
            topic=topic or topic_of(outside_topic),
            event_id=_text(document.get("id")),
            store_id=_text(document.get("storeId")),
            sequence=_sequence(document.get("sequence")),
            created_at=_text(document.get("createdAt")),
            data=data if isinstance(data, dict) else {},
        )
    return Envelope(topic_of(outside_topic), None, None, 0, None, document)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _sequence(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 2**63 else 0
