"""Stock targets in the store: counts to apply, and the adjustments that apply them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from backhaul.core.lifecycle import State
    from backhaul.core.stock import Computation, Count, StockSnapshot
    from backhaul.store.commands import Transition
    from backhaul.store.matching import Command
    from backhaul.store.operations import AuditEntry


class Target(Struct, frozen=True):
    """A stock count that Backhaul has not applied yet.

    `is_allowed` is True if an operator resent it, so that its size needs no review.
    `tries` counts the reads without a usable result since the last usable one.
    """

    command: Command
    variant_id: str
    count: Count
    tries: int
    is_allowed: bool


class Adjust(Struct, frozen=True):
    """Plan the adjustment. `expects` is the level that the request names, if any.

    `levels` are those of all variants of the product, as they were read.
    """

    computation: Computation
    expects: int | None
    levels: Mapping[str, int]


class Wait(Struct, frozen=True):
    """Try again at `due_at`. `counts` is True if such waits are limited in number."""

    reason: str
    due_at: str
    counts: bool


Decide: TypeAlias = "Callable[[StockSnapshot], Adjust | Wait | Transition]"


class Reading(Struct, frozen=True):
    """A product to read back after an adjustment of `variant_id` by `delta`.

    `as_of` is the time of the stock count.
    """

    target: Command
    variant_id: str
    delta: int
    tries: int
    as_of: str


class OtherVariants(Struct, frozen=True):
    """The levels expected of a product's other variants after an adjustment.

    A variant has several expected levels if its stock moved and the order of the move
    and the read is unknown. `shown_by` are the other variants that the platform names
    as moved by the adjustment.
    """

    expected: dict[str, frozenset[int]]
    shown_by: Sequence[str]


class Targets(Protocol):
    """The stock targets of all stores. All methods may raise Busy."""

    async def due(self, store: str, limit: int) -> list[Target]:
        """Return targets that are due and whose product has no command under way."""
        ...

    async def next_due(self, store: str, after: str) -> str | None:
        """Return the first time after `after` at which a target or reading is due."""
        ...

    async def decide(
        self,
        target: Target,
        level: int,
        since: str,
        studied_at: str | None,
        decide: Decide,
    ) -> tuple[State, str]:
        """Load the snapshot of the variant and do what `decide` returns, atomically.

        `level` is the level that the platform showed. The snapshot has the movements
        from `since` on. `studied_at` is when the read of the platform's history began,
        None if the history was not read. Returns the target's state and its reason.
        """
        ...

    async def wait(self, target: Target, wait: Wait) -> None:
        """Postpone a target."""
        ...

    async def readings(self, store: str, limit: int) -> list[Reading]:
        """Return the adjustments whose product is to be read back now."""
        ...

    async def other_variants(self, reading: Reading) -> OtherVariants:
        """Return the expected levels of the product's other variants."""
        ...

    async def read_back(self, reading: Reading, due_at: str | None) -> None:
        """Record that a product was read back; `due_at` if it must be read again."""
        ...

    async def stopped(self, store: str) -> str | None:
        """Return why the store's targets are stopped, None if they are not."""
        ...

    async def stop(
        self, store: str, reason: str | None, entry: AuditEntry | None = None
    ) -> None:
        """Stop the store's targets, or resume them if the reason is None."""
        ...
