"""Stock targets of conformance tests: counted, decided, and held after a restore."""

# ruff: noqa: S101 - these are helpers of tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from backhaul.core.effect_proof import Move
from backhaul.core.stock import ADJUSTMENT_REASON, Policy, ProductStock
from backhaul.core.stock_decision import ROUNDS_SECONDS, StockReading
from backhaul.store.commands import TaggedAdjustment
from backhaul.store.matching import NewTarget
from backhaul.store.records import Matched, NewRecord
from backhaul.store.testing.command_scenes import claimed
from backhaul.store.testing.mirror_scenes import show_level, show_product

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul.core.stock_decision import Target
    from backhaul.store import Store
    from backhaul.store.command_records import ListedTarget
    from backhaul.store.matching import Command

Advance: TypeAlias = "Callable[[float], object]"
"""Sets the clock ahead by some seconds."""
EFFECT_AT = "2026-03-01T12:00:20.000Z"
MINUTE = 60.0


async def count(
    store: Store,
    quantity: int,
    second: int,
    *,
    variant: str = "var_1",
    product: str = "prod_1",
    name: str = "main",
) -> str:
    """Submit a count of a variant, made so many seconds after noon; return its id."""
    key = f"{name}-{variant}-{second}-{quantity}"
    as_of = f"2026-03-01T12:{second // 60:02}:{second % 60:02}.000Z"
    id_ = key.encode().hex()[-32:].rjust(32, "0")
    target = NewTarget(id_, product, variant, quantity, as_of)
    record = NewRecord(key, b"null", "", "", key)
    await store.records.accept("erp", name, [record], None, lambda *_: Matched(target))
    return id_


async def due(store: Store, name: str = "main") -> list[Target]:
    """Return the targets that are due."""
    return await store.targets.due(name, 9)


async def listed(store: Store) -> list[tuple[int, str]]:
    """Return the quantity and state of each target, the newest first."""
    found: list[ListedTarget] = await store.read(
        lambda reader: reader.stock_targets(None, None, 99)
    )
    return [(target.quantity, target.state) for target in found]


async def decide(store: Store, target: Target, level: int, since: str = "") -> str:
    """Decide about a target when the platform shows this level; return its state."""
    shown = ProductStock({"var_1": level}, is_proved=True, is_studied=True)
    reading = StockReading(shown, Policy(), since, "", names_level=True)
    state, _ = await store.targets.decide(target, reading)
    return state


async def restore(store: Store, number: int) -> None:
    """Let the stock history show an adjustment that this database does not know."""
    effect = f"adj_{number}"
    move = Move(effect, "prod_1", "var_1", -2, None, None, EFFECT_AT)
    found = [TaggedAdjustment(f"{number:032x}", effect, (move,))]
    await store.tags.record_tags("main", found, adopt=True)


async def lose_an_adjustment(store: Store, advance: Advance) -> None:
    """Show a level to which an adjustment led that this database does not know."""
    advance(MINUTE)
    await show_product(store)
    await show_level(
        store, 8, 20, adjustment="adj_9", delta=-2, reason=ADJUSTMENT_REASON
    )
    await restore(store, 9)


async def decided(store: Store, advance: Advance, level: int = 8) -> str:
    """Read the product as often as a decision takes; return the target's state."""
    state = ""
    for _ in range(len(ROUNDS_SECONDS) + 1):
        advance(max(ROUNDS_SECONDS))
        for target in await due(store):
            state = await decide(store, target, level)
    return state


async def hold(store: Store, advance: Advance) -> None:
    """Let a count be held."""
    await lose_an_adjustment(store, advance)
    await count(store, 7, 10)
    assert await decided(store, advance) == "held"


async def claimed_adjustment(store: Store) -> Command:
    """Claim the only adjustment that a target has planned."""
    (command,) = await claimed(store)
    assert command.kind == "adjust"
    return command
