"""Decides which version of an object wins, and how mirror rows differ (drift).

Statuses count first: `order_standing` ranks those of an order.
"""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from backhaul.core.resources import status_word

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from backhaul.core.resources import Order


class Version(Struct, frozen=True, gc=False):
    """One version of an object, and how it came to be known.

    `updated_at` is the platform's time. `seen_at` is ours: when a delivery arrived, or
    a read began. Both are RFC 3339 with milliseconds. `sequence` is 0 if the platform
    gives none; `delivered` is False for a read; `digest` is the SHA-256 of the
    canonical content. `standing` ranks the object's statuses.
    `confirmed_at` is the start of the last confirming read that was compared with this
    version; for a confirming read itself it equals `seen_at`.
    """

    updated_at: str
    sequence: int
    delivered: bool
    seen_at: str
    digest: bytes
    standing: int = 0
    confirmed_at: str = ""


class VersionComparison(Enum):
    """How an incoming version compares with the current one."""

    NEWER = "newer"
    SAME = "same"
    STALE = "stale"
    CONFLICT = "conflict"


def compare_versions(
    current: Version | None, incoming: Version, *, wins: bool | None = None
) -> VersionComparison:
    """Compare an incoming version with the current one, None if there is none.

    `wins` is the result of `supersedes`, if the caller has it already.
    """
    if current is None:
        return VersionComparison.NEWER
    if current.digest == incoming.digest:
        return VersionComparison.SAME
    if wins is None:
        wins = supersedes(current, incoming)
    if not (_is_confirming_read(current, incoming) or _agrees(current, incoming, wins)):
        return VersionComparison.CONFLICT
    return VersionComparison.NEWER if wins else VersionComparison.STALE


def supersedes(current: Version | None, incoming: Version) -> bool:
    """Return True if the incoming version replaces the current one.

    Equal content with a higher version replaces it too, or an older version that
    arrives later would win.
    """
    if current is None or _overrules(incoming, current):
        return True
    return not _overrules(current, incoming) and _rank(incoming) > _rank(current)


def join(
    current: Version | None, incoming: Version, *, wins: bool | None = None
) -> Version:
    """Return the version to keep, with the later confirming read of the two.

    A confirming read that does not win still counts. Without it, an older version could
    win over the one that is kept. `wins` is the result of `supersedes`, if the caller
    has it already.
    """
    if current is None:
        return incoming
    if wins is None:
        wins = supersedes(current, incoming)
    stays, other = (incoming, current) if wins else (current, incoming)
    if other.confirmed_at <= stays.confirmed_at:
        return stays
    return replace(stays, confirmed_at=other.confirmed_at)


def as_of(now: str, current: Version) -> Version:
    """Return the current version as the oldest of all if it was seen after `now`.

    The clock was set back since, so everything that arrives now is newer. Otherwise no
    read could correct the mirror until the clock has caught up.
    """
    if current.seen_at <= now and current.confirmed_at <= now:
        return current
    seen_at, confirmed_at = (
        at if at <= now else "" for at in (current.seen_at, current.confirmed_at)
    )
    return replace(current, seen_at=seen_at, confirmed_at=confirmed_at)


def _rank(version: Version) -> tuple[int, str, int, str, bool, bytes]:
    """Return the sort key of a version: first its standing, then its times."""
    return (
        version.standing,
        version.updated_at,
        version.sequence,
        *_moment(version),
        version.digest,
    )


def _moment(version: Version) -> tuple[str, bool]:
    """Sort by when a version was seen; a read is later than a delivery of that time."""
    return version.seen_at, not version.delivered


def _overrules(one: Version, other: Version) -> bool:
    """Return True if a confirming read behind `one` began after `other` was seen."""
    if other.confirmed_at == one.confirmed_at == other.seen_at:
        return False
    return bool(one.confirmed_at) and other.seen_at <= one.confirmed_at


def _is_confirming_read(current: Version, incoming: Version) -> bool:
    """Return True if the incoming version is a read that resolves a conflict."""
    is_confirming = incoming.confirmed_at == incoming.seen_at
    return is_confirming and _overrules(incoming, current)


def _agrees(current: Version, incoming: Version, wins: bool) -> bool:
    """Return True if there is evidence, and all of it supports the winner."""
    signs = set(_evidence(current, incoming))
    return signs == {wins}


def _evidence(current: Version, incoming: Version) -> Iterator[bool]:
    """Yield for each difference whether it supports the incoming version."""
    if current.updated_at != incoming.updated_at:
        yield incoming.updated_at > current.updated_at
    if current.sequence and incoming.sequence and current.sequence != incoming.sequence:
        yield incoming.sequence > current.sequence
    if not incoming.delivered and _moment(incoming) > _moment(current):
        yield True
    if not current.delivered and _moment(current) > _moment(incoming):
        yield False
    yield from progress(current.standing, incoming.standing)


FINANCIAL: Mapping[str, int] = {
    "PENDING": 0,
    "PAID": 1,
    "PARTIALLY_REFUNDED": 2,
    "VOIDED": 3,
    "REFUNDED": 3,
}
FULFILLMENT: Mapping[str, int] = {
    "UNFULFILLED": 0,
    "PARTIALLY_FULFILLED": 1,
    "FULFILLED": 2,
    "RESTOCKED": 3,
}
# `status` follows from the others and may go back by itself (a refund before the order
# was confirmed): only its CANCELLED counts.

_PLACES = (6, 4, 2, 0)
"""Two bits each: gone, cancelled, financial, fulfillment."""
GONE = 1 << 6


def order_standing(order: Order) -> int:
    """Return the rank of an order's statuses."""
    cancelled = order.status == "CANCELLED" or order.cancelled_at is not None
    return (
        cancelled << 4
        | FINANCIAL.get(status_word(order.financial_status), 0) << 2
        | FULFILLMENT.get(order.fulfillment_status, 0)
    )


def progress(before: int, after: int) -> Iterator[bool]:
    """Yield, for each part of the standing that differs, whether it went forward."""
    if before == after:
        return
    for place in _PLACES:
        was, is_now = before >> place & 3, after >> place & 3
        if was != is_now:
            yield is_now > was


class Drift(StrEnum):
    """How a row of the mirror differs from the platform."""

    MISSED = "missed"
    """The platform has it and the mirror does not."""
    STALE = "stale"
    """The mirror has other content, and nothing newer."""
    DELETED = "deleted"
    """The mirror has an object that the platform no longer has."""
    ALIEN = "foreign"
    """The mirror has an object that the platform does not know and never deletes."""

    @property
    def meaning(self) -> str:
        """The difference in words."""
        return {
            Drift.MISSED: "found only on the platform",
            Drift.STALE: "found with other content in the mirror",
            Drift.DELETED: "found only in the mirror; the platform deleted it",
            Drift.ALIEN: "found only in the mirror; the platform does not know it, as a"
            " sample of `backhaul trigger`",
        }[self]


def drift_of(
    current: Version | None, updated_at: str, digest: bytes, read_at: str = ""
) -> Drift | None:
    """Compare a row that was read with the mirror; return None if they agree.

    The mirror may be newer than the read, because an event arrived meanwhile. It is not
    if its version was known before the read began at `read_at`: then the platform
    shows less than before, or the time of the row is only roughly known.
    """
    if current is None:
        return Drift.MISSED
    if current.digest == digest:
        return None
    known_before = max(current.seen_at, current.confirmed_at) < read_at
    if current.updated_at > updated_at and not known_before:
        return None
    return Drift.STALE
