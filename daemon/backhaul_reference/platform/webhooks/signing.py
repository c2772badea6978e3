"""Webhook signatures and the headers that carry them."""

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass

USER_AGENT = "backhaul-reference/1"
BARE_HEADERS = ("Content-Type", "User-Agent", "X-Service-Hmac-Sha256")
"""All that a delivery carries where nothing is added to the signature."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """The contents of one delivery request."""

    event_id: str
    delivery_id: str
    subscription_id: str
    subdomain: str
    topic: str
    triggered_at: str
    body: bytes


def service_signature(secret: str, body: bytes) -> str:
    """Base64 of the HMAC-SHA256 of the body, keyed with the whole secret's text."""
    digest = hmac.digest(secret.encode(), body, hashlib.sha256)
    return base64.b64encode(digest).decode()


def standard_signature(secret: str, event_id: str, timestamp: int, body: bytes) -> str:
    """Standard Webhooks: the key is what the secret's second half encodes."""
    signed = f"{event_id}.{timestamp}.".encode() + body
    digest = hmac.digest(_key(secret), signed, hashlib.sha256)
    return "v1," + base64.b64encode(digest).decode()


def _key(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        return secret.encode()


def headers(
    envelope: Envelope, secrets: list[str], attempt: int, now_ms: int
) -> dict[str, str]:
    """All headers of one attempt; the first secret is the current one."""
    timestamp = now_ms // 1000
    standard = [
        standard_signature(secret, envelope.event_id, timestamp, envelope.body)
        for secret in secrets
    ]
    return {
        "Content-Type": "application/json",
        "User-Agent": USER_AGENT,
        "X-Service-Hmac-Sha256": service_signature(secrets[0], envelope.body),
        "X-Service-Topic": envelope.topic,
        "X-Service-Event-Id": envelope.event_id,
        "X-Service-Delivery-Id": envelope.delivery_id,
        "X-Service-Attempt": str(attempt),
        "X-Service-Subscription-Id": envelope.subscription_id,
        "X-Service-Store": envelope.subdomain,
        "X-Service-Triggered-At": envelope.triggered_at,
        "X-Service-Api-Version": "v1",
        "webhook-id": envelope.event_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(standard),
    }
