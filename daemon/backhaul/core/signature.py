"""The platform's webhook signature: Base64(HMAC-SHA256(raw body, secret)).

Source: specification, Events, signature rules. The key is the UTF-8 bytes of the whole
displayed secret, `whsec_` included (platform contract 1.4).
"""

from __future__ import annotations

import base64
import hmac
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

HEADER = "X-Service-Hmac-Sha256"
DIGEST_BYTES = 32


def sign(body: bytes, secret: bytes) -> bytes:
    """Return the header's value (44 ASCII bytes) for the raw body."""
    return base64.b64encode(hmac.digest(secret, body, "sha256"))


def is_whole(presented: str) -> bool:
    """Return True if the header's value has the form of a signature, with any secret.

    A value that was cut or re-encoded on its way says nothing about the secret.
    """
    try:
        return len(base64.b64decode(presented, validate=True)) == DIGEST_BYTES
    except ValueError:
        return False


def verify(body: bytes, presented: str, secrets: Sequence[bytes]) -> int | None:
    """Return the index of the secret that signed, or None.

    Every secret is tried whatever the outcome, and garbage takes the same path as a
    wrong signature, so that time tells nothing.
    """
    candidate = presented.encode("utf-8", "replace")
    signer: int | None = None
    for index, secret in enumerate(secrets):
        if hmac.compare_digest(sign(body, secret), candidate):
            signer = index
    return signer
