"""Webhook signature (HMAC-SHA256) and envelope: topic, store, order, resource."""

from __future__ import annotations

import base64
import hmac
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backhaul.core import strict_json

if TYPE_CHECKING:
    from collections.abc import Sequence


HEADER = "X-Service-Hmac-Sha256"
DIGEST_BYTES = 32


def sign(body: bytes, secret: bytes) -> bytes:
    """Return the header's value (44 ASCII bytes) for the raw body."""
    return base64.b64encode(hmac.digest(secret, body, "sha256"))


def is_well_formed(presented: str) -> bool:
    """Return True if the header's value has the form of a signature, with any secret.

    A value that was cut or re-encoded on the way says nothing about the secret.
    """
    try:
        return len(base64.b64decode(presented, validate=True)) == DIGEST_BYTES
    except ValueError:
        return False


def verify(body: bytes, presented: str, secrets: Sequence[bytes]) -> int | None:
    """Return the index of the secret that signed, or None.

    Every secret is tried, and a malformed signature takes the same path as a wrong one,
    so that the time taken reveals nothing.
    """
    candidate = presented.encode("utf-8", "replace")
    signer: int | None = None
    for index, secret in enumerate(secrets):
        if hmac.compare_digest(sign(body, secret), candidate):
            signer = index
    return signer


TOPICS = (
    *("orders/create", "orders/updated", "orders/fulfilled", "orders/cancelled"),
    *("products/create", "products/update", "products/delete"),
    *("inventory/level_update", "customers/create"),
)
"""The nine topics of the specification."""


class Envelope(Struct, frozen=True, gc=False):
    """A parsed delivery. `sequence` is 0 if the platform gives none."""

    topic: str
    event_id: str | None
    store_id: str | None
    sequence: int
    created_at: str | None
    data: dict[str, Any]

    def without_data(self) -> Envelope:
        """Return the envelope alone."""
        return Envelope(
            self.topic,
            self.event_id,
            self.store_id,
            self.sequence,
            self.created_at,
            {},
        )


def topic_of(value: object) -> str:
    """Return a topic as the specification writes it; "" if there is none.

    Platforms differ in case, and proxies leave blanks around it.
    """
    return value.strip().lower() if isinstance(value, str) else ""


def open_envelope(body: bytes, outside_topic: str) -> Envelope:
    """Parse a delivery's body. Raises Unusable if it is not a JSON object.

    A document with `data` is an envelope, unless it has `updatedAt` and no topic: then
    it is an object. Without a topic in the body, `outside_topic` counts. If `data` is
    not an object, the envelope is empty and its own id names the event.
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
