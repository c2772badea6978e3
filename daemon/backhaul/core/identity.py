"""Digests: command ids, tags, idempotency keys, and checksums of rows."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


TAG_PREFIX = "bh:"
_TAG = re.compile(r"bh:([0-9a-f]{32})")


def command_id(store: str, instance: str, record_key: str, kind: str) -> str:
    """Return the id of a command: 32 hex digits that depend only on its cause.

    The parts are length-prefixed, so that no two causes run into one text.
    """
    parts = (store, instance, record_key, kind)
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return sha256(text.encode()).hexdigest()[:32]


def step_id(store: str, instance: str, target: str, number: int) -> str:
    """Return the id of the adjustment number `number` of a stock target."""
    return command_id(store, instance, target, f"adjust:{number}")


def tag(command: str) -> str:
    """Return the reference tag, sent as `note`, that marks our own adjustments."""
    return TAG_PREFIX + command


def tagged(note: str | None) -> str | None:
    """Return the command whose tag a note is; None for any other note."""
    found = _TAG.fullmatch(note or "")
    return found[1] if found else None


def cancellation(order_id: str, cancelled_at: str) -> str:
    """Return an id for a cancellation; the platform gives it none."""
    return f"{order_id}@{cancelled_at}"


def idempotency_key(command: str) -> str:
    """Return the Idempotency-Key: the same for every attempt at one command."""
    return f"backhaul-{command}"


def fingerprint(secret: str) -> str:
    """Return a short fingerprint that does not reveal the API key."""
    return sha256(b"backhaul-key:" + secret.encode()).hexdigest()[:12]


def address_digest(store: str, email: str) -> bytes:
    """Return a digest that recognizes an e-mail address without storing it."""
    return sha256(f"{store}\0{email.strip().casefold()}".encode()).digest()


def digest_of(parts: Iterable[str | bytes]) -> bytes:
    """Return a digest over values, each with its length."""
    found = sha256()
    for part in parts:
        value = part.encode() if isinstance(part, str) else part
        found.update(b"%d:" % len(value))
        found.update(value)
    return found.digest()


def is_intact(kept: bytes | None, parts: Iterable[str | bytes]) -> bool:
    """Return True if values match the digest that was stored with them.

    The digest is None for rows of an older version, or rewritten on purpose.
    """
    return kept is None or kept == bytes(digest_of(parts))
