"""Stock targets in the store: counts to apply, and the adjustments that apply them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.core.lifecycle import TargetState
    from backhaul.core.stock_decision import StockReading, Target, Wait
    from backhaul.store.operations import AuditEntry


class Reading(Struct, frozen=True):
    """A product to read back after an adjustment of `variant_id` by `delta`.

    `id` is that of the stock target, `as_of` the time of its count.
    """

    id: str
    store: str
    product_id: str
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


class HeldFilter(Struct, frozen=True):
    """Which held targets: of a store, a connection or a SKU; None is any."""

    store: str | None = None
    instance: str | None = None
    sku: str | None = None


class Targets(Protocol):
    """The stock targets of all stores. All methods may raise Busy."""

    async def due(self, store: str, limit: int) -> list[Target]:
        """Return targets that are due and whose product has no command under way."""
        ...

    async def next_due(self, store: str, after: str) -> str | None:
        """Return the first time after `after` at which a target or reading is due."""
        ...

    async def decide(
        self, target: Target, reading: StockReading
    ) -> tuple[TargetState, str]:
        """Decide about a target from what was read, and do it, in one transaction.

        Returns the target's state and its reason.
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

    async def release(self, wanted: HeldFilter, entry: AuditEntry) -> int:
        """Let held targets be calculated again; return their number.

        Each target gets the audit entry. A target that still cannot be explained is
        parked.
        """
        ...

    async def stopped(self, store: str) -> str | None:
        """Return why the store's targets are stopped, None if they are not."""
        ...

    async def stop(
        self, store: str, reason: str | None, entry: AuditEntry | None = None
    ) -> None:
        """Stop the store's targets, or resume them if the reason is None."""
        ...
