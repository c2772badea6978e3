"""Stock counts with a future time, or from a clock that was ahead."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import SystemClock, to_text
from scenes.stock_counts import StockSystem, stock_system

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime
    from pathlib import Path

    from backhaul.store import Place

LONGEST_WAIT = 900.0


@pytest.fixture
def clock_offset(monkeypatch: pytest.MonkeyPatch) -> list[timedelta]:
    """Return a list whose only item sets how far the machine's clock is ahead."""
    real, by = SystemClock.now, [timedelta(days=1)]

    def now(clock: SystemClock) -> datetime:
        return real(clock) + by[0]

    monkeypatch.setattr(SystemClock, "now", now)
    return by


def future_time(hours: int) -> str:
    """Return a time in the future; from 24 hours on, counts are refused at once."""
    return to_text(SystemClock().now() + timedelta(hours=hours))


async def test_a_count_with_a_future_time_blocks_no_other(
    database: Place,
    tmp_path: Path,
) -> None:
    async with stock_system(database, tmp_path) as system:
        product = await system.add_product(10)
        strange = await system.submit_count(product, 7, future_time(20))
        await system.await_state(strange, "parked")
        good = await system.submit_count(product, 4)
        await system.await_state(good, "applied")
        assert await system.stock(product) == 4


async def test_the_last_of_several_counts_to_come_counts(
    database: Place, tmp_path: Path
) -> None:
    async with stock_system(database, tmp_path) as system:
        product = await system.add_product(10)
        first = await system.submit_count(product, 7, future_time(20))
        await system.await_state(first, "parked")
        last = await system.submit_count(product, 6, future_time(19))
        await system.await_state(last, "parked")
        await system.decide(first, "resend")
        await system.await_state(first, "superseded")


async def handle_clock_set_back(system: StockSystem) -> None:
    """Do what a running daemon does when the clock was set back."""
    await system.store.tags.shift(
        "main", timedelta(days=1).total_seconds(), LONGEST_WAIT
    )


async def handle_start(system: StockSystem) -> None:
    """Do what the daemon does at its start."""
    await system.store.tags.catch_up("main", LONGEST_WAIT)


@pytest.mark.parametrize("repair", [handle_clock_set_back, handle_start])
async def test_counts_go_on_once_a_clock_that_was_ahead_is_set_right(
    repair: Callable[[StockSystem], Awaitable[None]],
    database: Place,
    tmp_path: Path,
    clock_offset: list[timedelta],
) -> None:
    async with stock_system(database, tmp_path) as system:
        product = await system.add_product(10)
        first = await system.submit_count(product, 7)
        await system.await_state(first, "applied")
        clock_offset[0] = timedelta()
        await repair(system)
        later = await system.submit_count(product, 6)
        await system.await_state(later, "applied")
        broken = await system.submit_adjustment(product, -1)
        await system.await_state(broken, "applied")
        assert await system.stock(product) == 5
