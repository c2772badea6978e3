"""Deliveries: one change notification for one connection, with its state."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.core.lifecycle import Cause, State

Release: TypeAlias = Literal["placed", "confirmed", "paid"]
Begin: TypeAlias = Literal["now", "all"]


class Subscriber(Struct, frozen=True, kw_only=True):
    """A connection that receives change notifications of a store, on some topics.

    `release_when` is when it receives a new order. With `begin` "now" it receives
    nothing about objects that were there before the connection was first seen. With
    `dry_run` its deliveries wait.
    """

    instance: str
    store: str
    topics: frozenset[str]
    begin: Begin = "now"
    release_when: Release = "placed"
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A delivery, with the document as the mirror holds it now."""

    seq: int
    id: str
    store: str
    topic: str
    object_id: str
    occurred_at: str
    attempts: int
    failures: int
    checks: int
    document: dict[str, Any] = field(repr=False)


class DeliveryOutcome(Struct, frozen=True, kw_only=True):
    """The result of an attempt or a check, and when the delivery is due again."""

    cause: Cause
    reason: str
    due_at: str | None = None
    reference: str | None = None
    failures: int = 0
    checks: int = 0


class Deliveries(Protocol):
    """One row for each change and connection, with the states of a command.

    All methods may raise Busy.
    """

    async def subscribe(self, subscriber: Subscriber) -> None:
        """Register a connection, and mark interrupted deliveries uncertain.

        A delivery that was `sending` when the program stopped may have arrived.
        """
        ...

    async def retire(self, instances: Sequence[str]) -> None:
        """Record that only these connections receive orders."""
        ...

    async def fan_out(self, subscriber: Subscriber, slice_seconds: float) -> bool:
        """Turn rows of the change feed into deliveries; return True if there is more.

        Takes about `slice_seconds`.
        """
        ...

    async def has_open(self, instance: str) -> bool:
        """Return True if a delivery is planned, sending or uncertain."""
        ...

    async def claim(self, subscriber: Subscriber) -> Outgoing | None:
        """Move the next delivery that is due to `sending`, durably; return it."""
        ...

    async def traceparent_of(self, delivery: Outgoing) -> str | None:
        """Return the span that appended the event of the delivery's change, if any."""
        ...

    async def next_uncertain(self, instance: str) -> Outgoing | None:
        """Return the next uncertain delivery whose check is due."""
        ...

    async def record_outcome(
        self, instance: str, delivery: Outgoing, outcome: DeliveryOutcome
    ) -> bool:
        """Move a delivery to its next state, durably.

        Returns False if an operator decided about it meanwhile.
        """
        ...

    async def decide(self, seq: int, verb: str, who: str, reason: str) -> State:
        """Carry out an operator's decision; return the new state of the delivery.

        `verb` is `resend`, `applied`, `drop` or `park`. Raises BackhaulError if the
        state of the delivery does not allow it.
        """
        ...
