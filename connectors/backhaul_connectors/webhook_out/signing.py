"""Signatures as the specification Standard Webhooks asks for them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import SecretStr

PREFIX = "whsec_"
KEY_BYTES = (24, 64)


def key_of(secret: SecretStr) -> bytes:
    """Return the key in a secret. Raises ValueError, which does not show it."""
    text = secret.get_secret_value().removeprefix(PREFIX)
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("a secret is whsec_ and Base64") from None
    fewest, most = KEY_BYTES
    if not fewest <= len(key) <= most:
        raise ValueError(f"a secret must hold {fewest} to {most} bytes in Base64")
    return key


def signatures(
    secrets: Sequence[SecretStr], message_id: str, timestamp: int, body: bytes
) -> str:
    """Return the header `webhook-signature`: a signature by each secret."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    digests = (
        hmac.new(key_of(secret), signed, hashlib.sha256).digest() for secret in secrets
    )
    return " ".join(f"v1,{base64.b64encode(each).decode()}" for each in digests)
