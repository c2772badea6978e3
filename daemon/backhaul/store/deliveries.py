"""Deliveries: what the store's news owes to each connector that carries changes out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.core.lifecycle import Cause

Release: TypeAlias = Literal["placed", "confirmed", "paid"]
Begin: TypeAlias = Literal["now", "all"]


class Subscriber(Struct, frozen=True, kw_only=True):
    """An instance that is told news: of which store, of what, and from when on.

    `release_when` says when an order is handed out. With `begin` "now" nothing is told
    of what was there before the instance was first seen.
    """

    instance: str
    store: str
    topics: frozenset[str]
    begin: Begin = "now"
    release_when: Release = "placed"


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A delivery with the document as the mirror holds it this moment."""

    seq: int
    id: str
    store: str
    topic: str
    object_id: str
    occurred_at: str
    attempts: int
    failures: int
    looks: int
    document: dict[str, Any] = field(repr=False)


class Mark(Struct, frozen=True, kw_only=True):
    """What became of a delivery: how it moves, why, and when it is looked at again."""

    cause: Cause
    reason: str
    due_at: str | None = None
    reference: str | None = None
    failures: int = 0
    looks: int = 0


class Deliveries(Protocol):
    """One row per change and instance, with the life of a command."""

    async def subscribe(self, subscriber: Subscriber) -> None:
        """Remember the instance, from its first time on, and doubt what was sending.

        What was `sending` when the program died may have arrived. May raise Busy.
        """
        ...

    async def retire(self, instances: Sequence[str]) -> None:
        """Note that no connection but these waits for orders. May raise Busy."""
        ...

    async def follow(self, subscriber: Subscriber, slice_seconds: float) -> bool:
        """Make rows of the change feed deliveries; tell whether there is more."""
        ...

    async def any_open(self, instance: str) -> bool:
        """Tell whether anything is to be handed over, or in doubt."""
        ...

    async def claim(self, subscriber: Subscriber) -> Outgoing | None:
        """Move the next that may leave to `sending`, durably, and return it."""
        ...

    async def doubtful(self, instance: str) -> Outgoing | None:
        """Return the next in doubt that is due."""
        ...

    async def mark(self, instance: str, delivery: Outgoing, mark: Mark) -> bool:
        """Move a delivery on, durably; False where a person has decided meanwhile."""
        ...

    async def decide(
        self, seq: int, verb: str, who: str, reason: str
    ) -> dict[str, Any]:
        """Move a delivery as a person says: resend, applied, drop or park; return it.

        Raises BackhaulError where that cannot be done to it.
        """
        ...
