"""F1: whatever the outcome of a count's adjustment, it takes effect once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import SystemClock, to_text
from backhaul_reference.platform.quirks import NONE, parse
from backhaul_sdk import StockLevel
from faults.capturing import set_quirks
from faults.counted import first_step, live, target_of
from faults.fates import KEYLESS, Case
from faults.sweeping import program, stage
from scenes import payloads
from scenes.databases import append_and_fold
from scenes.faulty_network import CommandFault
from scenes.killed_programs import KillPoint
from scenes.reference_shop import open_shop

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from faults.sweeping import Stage

pytestmark = pytest.mark.faults

STOCK, COUNTED, LESS = 10, 7, 3
READINGS = (
    (KEYLESS,),
    (),
    ("no-history", KEYLESS),
    ("no-note", KEYLESS),
    ("bare-v1", KEYLESS),
    ("coarse-time", "plain-errors", "ack-202", "manual-reason", KEYLESS),
)


def now() -> datetime:
    return SystemClock().now()


@pytest.mark.parametrize("quirks", READINGS, ids=lambda names: " ".join(names) or "-")
async def test_every_fate_of_an_adjustment_leaves_one_adjustment(
    quirks: tuple[str, ...], tmp_path: Path
) -> None:
    async with (
        open_shop(tmp_path / "shop") as shop,
        stage(tmp_path / "backhaul.db", shop, quirks, start=now()) as on,
    ):
        async with program(on) as first:
            await set_quirks(shop, NONE)
            for fate in CommandFault:
                size = {"title": "M", "price": "100.00", "sku": fate.name}
                lamp = await shop.product(variants=[size | {"stock": STOCK}])
                news = payloads.envelope("products/create", lamp)
                assert await append_and_fold(first.store, news) == []
            await set_quirks(shop, parse(quirks))
        # both clocks agree here, so the count is later than the products
        await on.clock.advance((now() - on.clock.now()).total_seconds())
        as_of = to_text(on.clock.now())
        counts = [
            StockLevel(key=fate.name, sku=fate.name, quantity=COUNTED, as_of=as_of)
            for fate in CommandFault
        ]
        await live(on, KillPoint(), counts, {fate.name: fate for fate in CommandFault})
        assert on.wire.faults == {}, "not every fate was met"
        assert await found(on) == expected(quirks)


def expected(quirks: tuple[str, ...]) -> dict[str, tuple[str, str, int]]:
    """Return by fate where step and target stand, and the stock.

    A step says which level it expects, so the platform refuses what lands after all
    looks: nothing is doubled where an adjustment without a count would be.
    """
    cases = {fate: Case(frozenset(quirks), "adjust", fate) for fate in CommandFault}
    return {
        fate.name: (case.state, case.state, STOCK - min(case.effects, 1) * LESS)
        for fate, case in cases.items()
    }


async def found(on: Stage) -> dict[str, tuple[str, str, int]]:
    states = on.states()
    shop = await on.shop.state()
    stock = {v["sku"]: v["stock"] for p in shop["products"] for v in p["variants"]}
    return {
        fate.name: (
            states[first_step(on, fate.name)],
            states[target_of(on, fate.name)],
            stock[fate.name],
        )
        for fate in CommandFault
    }
