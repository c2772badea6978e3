"""Which of two versions of an object stays.

A webhook is a hint: deliveries repeat, overtake each other and mix with what was read
back. Every version is therefore compared with the one held, never counted on to come
in order (architecture, Life of an event).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """Orders versions of one object: the field order is the order of precedence.

    `updated_at` and `read_at` are RFC 3339 with milliseconds; `sequence` is 0 where the
    platform gives none; `delivered` is False for what was read back; `digest` is the
    SHA-256 of the canonical content and only makes the order total.
    """

    updated_at: str
    sequence: int
    delivered: bool
    read_at: str
    digest: bytes


class Judgement(Enum):
    """What becomes of an incoming version."""

    NEWER = "newer"
    SAME = "same"
    STALE = "stale"


def supersedes(held: Version | None, incoming: Version) -> bool:
    """Tell whether the incoming version is the one to hold, equal content or not.

    Content that comes again with a higher version must raise the version held, or an
    older one that comes later would win.
    """
    return held is None or incoming > held


def judge(held: Version | None, incoming: Version) -> Judgement:
    """Compare an incoming version with the one held (None: nothing is held)."""
    if held is None:
        return Judgement.NEWER
    if held.digest == incoming.digest:
        return Judgement.SAME
    return Judgement.NEWER if incoming > held else Judgement.STALE
