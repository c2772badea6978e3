"""Tells a row that is as it was written from one that a failing disk has changed.

A database's own check finds torn pages; a flipped bit inside a value it does not see.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def digest_of(parts: Iterable[str | bytes]) -> bytes:
    """Return a digest over values, each with its length."""
    found = sha256()
    for part in parts:
        value = part.encode() if isinstance(part, str) else part
        found.update(b"%d:" % len(value))
        found.update(value)
    return found.digest()


def is_intact(kept: bytes | None, parts: Iterable[str | bytes]) -> bool:
    """Hold values against the digest that was kept with them.

    None was kept by an older version, or where the value was rewritten on purpose.
    """
    return kept is None or kept == bytes(digest_of(parts))
