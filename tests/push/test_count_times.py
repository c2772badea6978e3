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
def ahead(monkeypatch: pytest.MonkeyPatch) -> list[timedelta]:
    """How far the machine's clock is ahead, and can be set."""
    real, by = SystemClock.now, [timedelta(days=1)]

    def now(clock: SystemClock) -> datetime:
        return real(clock) + by[0]

    monkeypatch.setattr(SystemClock, "now", now)
    return by


def to_come(hours: int) -> str:
    """Return a time that many hours ahead; from 24 on a count is refused at once."""
    return to_text(SystemClock().now() + timedelta(hours=hours))


async def test_a_count_with_a_future_time_blocks_no_other(
    database: Place,
    tmp_path: Path,
) -> None:
    async with stock_system(database, tmp_path) as at:
        lamp = await at.add_product(10)
        strange = await at.submit_count(lamp, 7, to_come(20))
        await at.await_state(strange, "parked")
        good = await at.submit_count(lamp, 4)
        await at.await_state(good, "applied")
        assert await at.stock(lamp) == 4


async def test_the_last_of_several_counts_to_come_counts(
    database: Place, tmp_path: Path
) -> None:
    async with stock_system(database, tmp_path) as at:
        lamp = await at.add_product(10)
        first = await at.submit_count(lamp, 7, to_come(20))
        await at.await_state(first, "parked")
        last = await at.submit_count(lamp, 6, to_come(19))
        await at.await_state(last, "parked")
        await at.decide(first, "resend")
        await at.await_state(first, "superseded")


async def noticed(at: StockSystem) -> None:
    """Do what is done once a running daemon sees that the clock went back."""
    await at.store.tags.shift("main", timedelta(days=1).total_seconds(), LONGEST_WAIT)


async def started(at: StockSystem) -> None:
    """Do what is done at a start."""
    await at.store.tags.catch_up("main", LONGEST_WAIT)


@pytest.mark.parametrize("repair", [noticed, started])
async def test_counts_go_on_once_a_clock_that_was_ahead_is_set_right(
    repair: Callable[[StockSystem], Awaitable[None]],
    database: Place,
    tmp_path: Path,
    ahead: list[timedelta],
) -> None:
    async with stock_system(database, tmp_path) as at:
        lamp = await at.add_product(10)
        first = await at.submit_count(lamp, 7)
        await at.await_state(first, "applied")
        ahead[0] = timedelta()
        await repair(at)
        later = await at.submit_count(lamp, 6)
        await at.await_state(later, "applied")
        broken = await at.submit_adjustment(lamp, -1)
        await at.await_state(broken, "applied")
        assert await at.stock(lamp) == 5
