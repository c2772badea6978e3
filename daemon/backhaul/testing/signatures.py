"""Signatures as the platform makes them, for deliveries of a test's own."""

from __future__ import annotations

from backhaul.core import signature


def sign(body: bytes, secret: str) -> str:
    """Return Base64(HMAC-SHA256(body, secret)), the value of the signature header."""
    return signature.sign(body, secret.encode()).decode()


def signed_headers(body: bytes, secret: str, topic: str = "") -> dict[str, str]:
    """Return the headers of a delivery; `topic` where the body does not tell it."""
    headers = {signature.HEADER: sign(body, secret), "Content-Type": "application/json"}
    return headers | ({"X-Service-Topic": topic} if topic else {})
