"""Decides what to do about a stock target: adjust the stock, wait, or ask an operator.

The decision needs no I/O: its arguments are what was read at the platform, and the
snapshot of what the database knows about the variant at that moment.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from backhaul.core.clock import to_text
from backhaul.core.stock import compute, review_reason, understand

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from backhaul.core.stock import (
        Computation,
        Count,
        Policy,
        ProductStock,
        StockSnapshot,
    )

ROUNDS_SECONDS = (0.5, 2.0, 5.0)
"""Waits before stock is read again whose movements are not known."""
EFFECT_SECONDS = 5.0
"""How long a count waits for the effect of adjustments that it includes."""


class Target(Struct, frozen=True):
    """A stock count that Backhaul has not applied yet.

    `is_allowed` is True if an operator resent it, so that its size needs no review.
    `tries` counts the reads without a usable result since the last usable one.
    """

    id: str
    store: str
    product_id: str
    variant_id: str
    instance: str
    count: Count
    tries: int
    is_allowed: bool


class StockReading(Struct, frozen=True):
    """What was read at the platform for a target, and the policy of its connection.

    `since` is the time from which movements matter, `began_at` when the read began.
    `names_level` is True if the request of an adjustment names the level it expects.
    """

    product: ProductStock
    policy: Policy
    since: str
    began_at: str
    names_level: bool

    @property
    def studied_at(self) -> str | None:
        """When the read of the platform's history began; None if it was not read."""
        return self.began_at if self.product.is_studied else None


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


class Park(Struct, frozen=True):
    """Leave the target to an operator."""

    reason: str


class Hold(Struct, frozen=True):
    """Hold the target until a newer count replaces it or an operator releases it."""

    reason: str


def decide(
    target: Target, reading: StockReading, stock: StockSnapshot, now: datetime
) -> Adjust | Wait | Park | Hold:
    """Decide about a target from the snapshot of its variant."""
    seen, policy = reading.product, reading.policy
    if target.variant_id not in seen.levels:
        reason = "the platform does not show this variant of the product"
        return _not_understood(target, reason, stock, now)
    stock = replace(stock, is_proved=seen.is_proved, is_studied=seen.is_studied)
    understood = understand(target.count, stock)
    if isinstance(understood, str):
        return _not_understood(target, understood, stock, now)
    computation = compute(target.count, understood, policy)
    problem = review_reason(computation, policy, now)
    if problem and not target.is_allowed:
        return Park(f"{problem}; {computation.in_words()}")
    if computation.delta and computation.level + computation.delta < 0:
        reason = f"{computation.in_words()}; waits for pending adjustments"
        return Wait(reason, _later(now, EFFECT_SECONDS), counts=False)
    expected = computation.level if reading.names_level else None
    return Adjust(computation, expected, seen.levels)


def _not_understood(
    target: Target, reason: str, stock: StockSnapshot, now: datetime
) -> Wait | Park | Hold:
    """Read again; after the last round, leave the target to an operator.

    After a restore this may concern many targets at once, and newer counts may be
    missing in the database: these targets are held together.
    """
    if target.tries < len(ROUNDS_SECONDS):
        return Wait(reason, _later(now, ROUNDS_SECONDS[target.tries]), counts=True)
    reason = f"{reason}, after {len(ROUNDS_SECONDS)} more rounds of reading"
    if stock.is_pre_restore:
        return Hold(f"on hold since the database was restored: {reason}")
    return Park(reason)


def _later(now: datetime, seconds: float) -> str:
    return to_text(now + timedelta(seconds=seconds))
