"""F1: a kill while a stock count is applied leaves one adjustment and correct stock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import to_text
from backhaul_sdk import StockLevel
from faults.counted import live
from faults.sweeping import STORE, program, stage
from faults.trials import LONG
from scenes import payloads
from scenes.databases import append_and_fold
from scenes.killed_programs import COUNTING, KillPoint, points_around
from scenes.reference_shop import open_shop
from scenes.stored import COMMANDS_AND_TARGETS, lists, rows_of

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from faults.sweeping import Stage

pytestmark = pytest.mark.faults

SIZES = [
    {"title": size, "sku": f"SHIRT-{size}", "price": "100.00", "stock": 10}
    for size in ("S", "M")
]
QUIRKS = ("no-idempotency", "no-note")
PUSH = {"check_after": ["0s", "20s", "60s"]}
STOPPING = "targets.stop:"
"""Only a platform that makes its own stock movements leads to this step."""
READS = {"due", "next_due", "readings", "other_variants", "stopped"}
"""Steps for which a kill before and a kill after leave the same state."""
NOT_MET = "targets.release:"
"""Happens only after a restore; test_hold_kills.py kills it."""
POINTS = [
    point
    for point in points_around(COUNTING)
    if (LONG or point.endswith(":before") or point.split(".")[1][:-6] not in READS)
    and not point.startswith(NOT_MET)
]


@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_while_counting_neither_loses_nor_doubles(
    point: str, tmp_path: Path
) -> None:
    strays = point.startswith(STOPPING)
    quirks = (*QUIRKS, "ignore-variant") if strays else QUIRKS
    async with (
        open_shop(tmp_path / "shop") as shop,
        stage(tmp_path / "backhaul.db", shop, quirks, PUSH) as on,
    ):
        shirt = await on.shop.product(variants=SIZES)
        async with program(on) as first:
            news = payloads.envelope("products/create", shirt)
            assert await append_and_fold(first.store, news) == []
        as_of = to_text(on.clock.now())
        sku = shirt["variants"][0]["sku"]
        record = StockLevel(key="count", sku=sku, quantity=7, as_of=as_of)
        mortality = KillPoint(point)
        await live(on, mortality, [record])
        assert mortality.dead.is_set(), f"it does not come to {point}"
        await live(on, KillPoint(), [record])
        found = rows_of(on.path, COMMANDS_AND_TARGETS, "kind", "state")
        assert found == [("target", "applied"), ("adjust", "applied")]
        assert await stock(on, shirt) == 7
        with lists(on.path) as reader:
            assert (STORE in reader.stopped_targets()) == strays


async def named(on: Stage, shirt: Any) -> Any:
    return (await on.shop.v1("GET", f"/products/{shirt['id']}")).data


async def stock(on: Stage, shirt: Any) -> int:
    return int((await named(on, shirt))["variants"][0]["stock"])
