"""Decides which version of an object wins, and how mirror rows differ (drift)."""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from backhaul.core.status_rank import progress

if TYPE_CHECKING:
    from collections.abc import Iterator


class Version(Struct, frozen=True):
    """One version of an object, and how it came to be known.

    `updated_at` is the platform's, `seen_at` ours: when a delivery arrived, or a read
    began; both RFC 3339 with milliseconds. `sequence` is 0 where the platform gives
    none; `delivered` is False for what was read back; `digest` is the SHA-256 of the
    canonical content. `standing` is how far the object has come in its life (see
    `core.standing`). `confirmed_at` is the start of the last confirming read that this
    version was held against; it equals `seen_at` for a confirming read itself.
    """

    updated_at: str
    sequence: int
    delivered: bool
    seen_at: str
    digest: bytes
    standing: int = 0
    confirmed_at: str = ""


class VersionComparison(Enum):
    """What becomes of an incoming version."""

    NEWER = "newer"
    SAME = "same"
    STALE = "stale"
    DOUBT = "doubt"


def compare_versions(held: Version | None, incoming: Version) -> VersionComparison:
    """Compare an incoming version with the one held (None: nothing is held)."""
    if held is None:
        return VersionComparison.NEWER
    if held.digest == incoming.digest:
        return VersionComparison.SAME
    wins = supersedes(held, incoming)
    if not (_settles(held, incoming) or _agrees(held, incoming, wins)):
        return VersionComparison.DOUBT
    return VersionComparison.NEWER if wins else VersionComparison.STALE


def supersedes(held: Version | None, incoming: Version) -> bool:
    """Tell whether the incoming version is the one to hold, equal content or not.

    Content that comes again with a higher version must raise the version held, or an
    older one that comes later would win.
    """
    if held is None or _overrules(incoming, held):
        return True
    return not _overrules(held, incoming) and _rank(incoming) > _rank(held)


def join(held: Version | None, incoming: Version) -> Version:
    """Return the version to hold of the two, held against the last read of either.

    A confirming read that does not win counts all the same: what was seen before it
    would win over what stays, were it forgotten.
    """
    if held is None:
        return incoming
    stays = incoming if supersedes(held, incoming) else held
    confirmed_at = max(held.confirmed_at, incoming.confirmed_at)
    return replace(stays, confirmed_at=confirmed_at)


def as_of(now: str, held: Version) -> Version:
    """Return what is held as the oldest of all, if it was seen later than now.

    The clock was set back since, so whatever comes now came after it. Without this no
    read could correct what is held until the clock has caught up.
    """
    if held.seen_at <= now and held.confirmed_at <= now:
        return held
    seen_at, confirmed_at = (
        at if at <= now else "" for at in (held.seen_at, held.confirmed_at)
    )
    return replace(held, seen_at=seen_at, confirmed_at=confirmed_at)


def _rank(version: Version) -> tuple[int, str, int, str, bool, bytes]:
    """Order versions: what got further in life first, then what is later."""
    return (
        version.standing,
        version.updated_at,
        version.sequence,
        *_moment(version),
        version.digest,
    )


def _moment(version: Version) -> tuple[str, bool]:
    """Order by when a version was seen; a read shows what a delivery of then caused."""
    return version.seen_at, not version.delivered


def _overrules(one: Version, other: Version) -> bool:
    """Tell whether a confirming read behind `one` began after `other` was seen."""
    if other.confirmed_at == one.confirmed_at == other.seen_at:
        return False
    return bool(one.confirmed_at) and other.seen_at <= one.confirmed_at


def _settles(held: Version, incoming: Version) -> bool:
    """Tell whether the incoming version is a read made to settle a doubt, and does."""
    is_confirming = incoming.confirmed_at == incoming.seen_at
    return is_confirming and _overrules(incoming, held)


def _agrees(held: Version, incoming: Version, wins: bool) -> bool:
    """Tell whether there is evidence, and all of it for the version that is to stay."""
    signs = set(_evidence(held, incoming))
    return signs == {wins}


def _evidence(held: Version, incoming: Version) -> Iterator[bool]:
    """Yield, for all that tells the two apart, whether it speaks for the incoming."""
    if held.updated_at != incoming.updated_at:
        yield incoming.updated_at > held.updated_at
    if held.sequence and incoming.sequence and held.sequence != incoming.sequence:
        yield incoming.sequence > held.sequence
    if not incoming.delivered and _moment(incoming) > _moment(held):
        yield True
    if not held.delivered and _moment(held) > _moment(incoming):
        yield False
    yield from progress(held.standing, incoming.standing)


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


def drift_of(
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
