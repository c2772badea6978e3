"""What stock targets ask of a store: counts that wait, what is known, their steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from backhaul.core.lifecycle import State
    from backhaul.core.stock import Computation, Count, StockSnapshot
    from backhaul.store.commands import Settlement
    from backhaul.store.matching import Command
    from backhaul.store.operations import AuditEntry


class Target(Struct, frozen=True):
    """A count that waits to be made true; `is_allowed` where a person said so.

    `tries` are the readings in vain since it could be understood last.
    """

    command: Command
    variant_id: str
    count: Count
    tries: int
    is_allowed: bool


class Adjust(Struct, frozen=True):
    """Plan the step; `expects` is the level the platform is to compare with."""

    computation: Computation
    expects: int | None
    levels: Mapping[str, int]


class Wait(Struct, frozen=True):
    """Look again later; `counts` where too many such rests lead to a person."""

    reason: str
    due_at: str
    counts: bool


Decide: TypeAlias = "Callable[[StockSnapshot], Adjust | Wait | Settlement]"


class Reading(Struct, frozen=True):
    """What is to be read back: the product after a step of `delta` on `variant_id`.

    `as_of` is when it was counted.
    """

    target: Command
    variant_id: str
    delta: int
    tries: int
    as_of: str


class OtherVariants(Struct, frozen=True):
    """What the other variants should be at, and those that the step itself names.

    A variant has several such levels where it is not known what moved after its level
    was read, and what before.
    """

    expected: dict[str, frozenset[int]]
    shown_by: Sequence[str]


class Targets(Protocol):
    """The stock targets of the outbox."""

    async def due(self, store: str, limit: int) -> list[Target]:
        """Return targets to be worked on now: nothing of their product is under way."""
        ...

    async def next_due(self, store: str, after: str) -> str | None:
        """Return when, after that moment, the next target or reading comes due."""
        ...

    async def decide(
        self,
        target: Target,
        level: int,
        since: str,
        studied_at: str | None,
        decide: Decide,
    ) -> tuple[State, str]:
        """Gather what is known of the variant, and do what `decide` says, in one step.

        `level` was read of the platform, by a study that began at `studied_at` or, with
        None, by a look; movements from `since` on matter. Returns where the target
        stands now, and why.
        """
        ...

    async def wait(self, target: Target, rest: Wait) -> None:
        """Let a target wait that cannot be worked on."""
        ...

    async def readings(self, store: str, limit: int) -> list[Reading]:
        """Return the steps whose product is to be read back now."""
        ...

    async def other_variants(self, reading: Reading) -> OtherVariants:
        """Return what is known of the other variants of the product."""
        ...

    async def read_back(self, reading: Reading, due_at: str | None) -> None:
        """Note that a product was read back; `due_at` where it is to be again."""
        ...

    async def stopped(self, store: str) -> str | None:
        """Return why the store's targets are stopped."""
        ...

    async def stop(
        self, store: str, reason: str | None, entry: AuditEntry | None = None
    ) -> None:
        """Stop the store's targets until a person resumes them (None), with an audit entry."""
        ...
