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
    """What a person lets go on after all is in the count that was made true."""
    async with stock_system(database, tmp_path) as at:
        lamp = await at.add_product(13)
        at.pause_adjustments()
        broken = await at.submit_adjustment(lamp, -20)
        target = await at.submit_count(lamp, 5)
        await until(lambda: at.adjustments(target), "its step is planned")
        assert at.adjustments(target) == [("planned", 12)]
        at.resume_adjustments()
        await at.await_state(target, "applied")
        assert at.state(broken) == "parked"
        assert at.adjustments(target) == [("superseded", 12), ("applied", -8)]
        assert await at.stock(lamp) == 5
        await at.decide(broken, "resend")
        await at.await_state(broken, "superseded")
        assert "the count of 5" in at.reason(broken)
        assert await at.stock(lamp) == 5


async def test_a_cancellation_without_effect_is_no_longer_counted_on(
    database: Place,
    tmp_path: Path,
) -> None:
    async with stock_system(database, tmp_path) as at:
        lamp = await at.add_product(10)
        cancel = await planned_cancellation(at, lamp)
        at.pause_adjustments()
        target = await at.submit_count(lamp, 12)
        await until(lambda: at.adjustments(target), "its step is planned")
        assert at.adjustments(target) == [("planned", 2)]
        await at.decide(cancel, "park")
        await at.decide(cancel, "drop")
        assert "includes it" not in at.reason(cancel)
        at.resume_adjustments()
        await at.await_state(target, "applied")
        assert at.adjustments(target) == [("superseded", 2), ("applied", 5)]
        assert await at.stock(lamp) == 12


async def test_a_command_that_an_applied_count_relied_on_says_so(
    database: Place,
    tmp_path: Path,
) -> None:
    """What is applied stays so: a person, or the next count, sets the stock right."""
    async with stock_system(database, tmp_path) as at:
        lamp = await at.add_product(10)
        cancel = await planned_cancellation(at, lamp)
        older = await at.submit_count(lamp, 10)
        await at.await_state(older, "applied")
        newest = await at.submit_count(lamp, 10)
        await at.await_state(newest, "applied")
        assert "7 there, +3 on its way: nothing to do" in at.reason(newest)
        await at.decide(cancel, "park")
        await at.decide(cancel, "drop")
        told = f"(target {newest[:8]}) includes it: without it the stock is wrong"
        assert told in at.reason(cancel)
        assert older[:8] not in at.reason(cancel)


async def planned_cancellation(at: StockSystem, lamp: object) -> str:
    """Sell three; return a cancellation that would put them back, and is held up."""
    at.sender.dispatcher.pause("cancel", now())
    await at.sell(lamp, 3)
    number = (await at.shop.state())["orders"][-1]["number"]
    await until(lambda: rows_of(at.place, "orders"), "the order is known")
    await at.submit(Cancellation(key="1", order=str(number), restock=True))
    return at.command_of("1")
