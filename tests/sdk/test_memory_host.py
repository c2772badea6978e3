"""The host of the contract tests takes records as the real one does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul_sdk import Bad, StockAdjustment
from backhaul_sdk.testing import MemoryHost
from scenes.back_office import Desk, host_of
from scenes.databases import started_store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from backhaul_sdk import Receipt, Record

BAD = Bad(key="k1", raw="LS-S;x", reason="x is no number")
MENDED = StockAdjustment(key="k1", sku="LS-S", delta=1)


async def states(emit: Callable[[Record | Bad], Awaitable[Receipt]]) -> list[str]:
    given: list[Record | Bad] = [BAD, MENDED, MENDED, BAD]
    return [(await emit(record)).state for record in given]


async def test_a_bad_row_that_was_mended_at_its_source_is_taken() -> None:
    host = MemoryHost()
    assert await states(host.emit) == [
        *("quarantined", "accepted", "duplicate", "duplicate"),
    ]
    assert (host.records, host.bad) == ({"k1": MENDED}, {})


async def test_the_real_host_takes_it_too(tmp_path: Path) -> None:
    async with started_store(tmp_path / "b.db") as store:
        real = await states(host_of(Desk(), store).emit)
    # It does not know the article yet.
    assert real == ["quarantined", "waiting", "duplicate", "duplicate"]
