"""Counts that were calculated with a pending command that had no effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul_sdk import Cancellation
from scenes.stock_counts import StockSystem, now, stock_system
from scenes.stored import rows_of
from scenes.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from backhaul.store import Place


async def test_an_adjustment_is_recomputed_once_its_assumed_command_is_refused(
    database: Place,
    tmp_path: Path,
) -> None:
    """If an operator resends the command later, the applied count includes it."""
    async with stock_system(database, tmp_path) as system:
        product = await system.add_product(13)
        system.pause_adjustments()
        broken = await system.submit_adjustment(product, -20)
        target = await system.submit_count(product, 5)
        await until(lambda: system.adjustments(target), "its adjustment is planned")
        assert system.adjustments(target) == [("planned", 12)]
        system.resume_adjustments()
        await system.await_state(target, "applied")
        assert system.state(broken) == "parked"
        assert system.adjustments(target) == [("superseded", 12), ("applied", -8)]
        assert await system.stock(product) == 5
        await system.decide(broken, "resend")
        await system.await_state(broken, "superseded")
        assert "the count of 5" in system.reason(broken)
        assert await system.stock(product) == 5


async def test_a_cancellation_without_effect_is_no_longer_counted_on(
    database: Place,
    tmp_path: Path,
) -> None:
    async with stock_system(database, tmp_path) as system:
        product = await system.add_product(10)
        cancel = await planned_cancellation(system, product)
        system.pause_adjustments()
        target = await system.submit_count(product, 12)
        await until(lambda: system.adjustments(target), "its adjustment is planned")
        assert system.adjustments(target) == [("planned", 2)]
        await system.decide(cancel, "park")
        await system.decide(cancel, "discard")
        assert "includes it" not in system.reason(cancel)
        system.resume_adjustments()
        await system.await_state(target, "applied")
        assert system.adjustments(target) == [("superseded", 2), ("applied", 5)]
        assert await system.stock(product) == 12


async def test_a_command_that_an_applied_count_relied_on_says_so(
    database: Place,
    tmp_path: Path,
) -> None:
    """The count stays applied: an operator or the next count corrects the stock."""
    async with stock_system(database, tmp_path) as system:
        product = await system.add_product(10)
        cancel = await planned_cancellation(system, product)
        older = await system.submit_count(product, 10)
        await system.await_state(older, "applied")
        newest = await system.submit_count(product, 10)
        await system.await_state(newest, "applied")
        assert "7 there, +3 on its way: nothing to do" in system.reason(newest)
        await system.decide(cancel, "park")
        await system.decide(cancel, "discard")
        text = f"(target {newest[:8]}) includes it: without it the stock is wrong"
        assert text in system.reason(cancel)
        assert older[:8] not in system.reason(cancel)


async def planned_cancellation(system: StockSystem, product: object) -> str:
    """Sell three; return a delayed cancellation that would restock them."""
    system.sender.dispatcher.pause("cancel", now())
    await system.sell(product, 3)
    number = (await system.shop.state())["orders"][-1]["number"]
    await until(lambda: rows_of(system.place, "orders"), "the order is known")
    await system.submit(Cancellation(key="1", order=str(number), restock=True))
    return system.command_of("1")
