"""How a row of the mirror can differ from the platform's."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backhaul.core.fold import Version


class Drift(StrEnum):
    """What is wrong with a row of the mirror."""

    MISSED = "missed"
    """The platform has it and the mirror does not."""
    STALE = "stale"
    """The mirror holds other content, and nothing newer."""
    DELETED = "deleted"
    """The mirror holds what the platform has no longer."""
    ALIEN = "foreign"
    """The mirror holds what the platform never deletes and yet does not know."""


def compare(
    held: Version | None, updated_at: str, digest: bytes, read_at: str = ""
) -> Drift | None:
    """Compare a row that was read with what the mirror holds; None: nothing to do.

    What the mirror holds may be newer than what was read: news came in meanwhile. Not
    so where it was known before the read began at `read_at`: the platform says less
    than it did, or the time of a row is only roughly known.
    """
    if held is None:
        return Drift.MISSED
    if held.digest == digest:
        return None
    known_before = max(held.seen_at, held.confirmed_at) < read_at
    if held.updated_at > updated_at and not known_before:
        return None
    return Drift.STALE
