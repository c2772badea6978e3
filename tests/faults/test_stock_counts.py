"""Stock counts among sales, for every platform behavior: the stock ends correct."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from backhaul_sdk import StockLevel
from faults.trials import LONG
from scenes.databases import back_up
from scenes.reference_shop import open_shop
from scenes.stock_counts import ERP, StockSystem, now, stock_system, working
from scenes.stored import COMMANDS_AND_TARGETS, count, rows_of, values_of
from scenes.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.faults

SIZES = [
    {"title": size, "sku": f"SHIRT-{size}", "price": "100.00", "stock": 10}
    for size in ("S", "M")
]


def moves(system: StockSystem) -> list[Any]:
    return rows_of(system.place, "stock_ledger")


def states(system: StockSystem) -> set[str]:
    return set(values_of(system.place, COMMANDS_AND_TARGETS, "state"))


@pytest.mark.long
async def test_an_unexplained_difference_is_left_to_an_operator(tmp_path: Path) -> None:
    async with stock_system(
        tmp_path / "backhaul.db", tmp_path, ("no-history",)
    ) as system:
        product = await system.add_product(10)
        counted_at = now()
        system.dropped_topics = {"inventory/level_update"}
        variant = {"productId": product["id"], "adjustment": -4}
        await system.shop.v1("POST", "/inventory/adjust", variant)
        target = await system.submit_count(product, 9, counted_at)
        await system.await_state(target, "parked")
        assert await system.stock(product) == 6
        assert "no movement shows it, after 3 more rounds" in system.reason(target)


@pytest.mark.parametrize("gone", [{"inventory/level_update"}, set()])
async def test_without_a_history_the_order_shows_a_sale(
    gone: set[str], tmp_path: Path
) -> None:
    async with stock_system(
        tmp_path / "backhaul.db", tmp_path, ("no-history",)
    ) as system:
        product = await system.add_product(10)
        await system.sell(product)
        await until(lambda: moves(system), "the first sale is known")
        counted_at = now()
        system.dropped_topics = gone
        await system.sell(product, 3)
        target = await system.submit_count(product, 9, counted_at)
        await system.await_state(target, "applied")
        assert await system.stock(product) == 6


@pytest.mark.parametrize(
    "quirks",
    [
        ("no-history", "no-note", "no-store-endpoint", "no-idempotency"),
        ("no-levels", "bare-v1", "bare-webhooks", "plain-errors"),
        ("ack-202", "manual-reason", "pooled-stock", "coarse-time"),
    ],
    ids=" ".join,
)
async def test_counts_hold_under_every_reading(
    quirks: tuple[str, ...], tmp_path: Path
) -> None:
    async with stock_system(tmp_path / "backhaul.db", tmp_path, quirks) as system:
        product = await system.add_product(10)
        counted_at = now()
        await system.sell(product, 2)
        sold_at = now()
        target = await system.submit_count(product, 20, counted_at)
        await system.await_state(target, "applied")
        # with times in whole seconds, a sale of the same second would be subtracted
        await until(lambda: now()[:19] > sold_at[:19], "another second")
        again = await system.submit_count(product, 5)
        await system.await_state(again, "applied")
        assert await system.stock(product) == 5


async def test_a_platform_that_accepts_no_variants_is_left_to_an_operator(
    tmp_path: Path,
) -> None:
    async with stock_system(
        tmp_path / "backhaul.db", tmp_path, ("strict-body",)
    ) as system:
        shirt = await system.add_product(variants=SIZES)
        target = await system.submit_count(shirt, 7)
        await system.await_state(target, "parked")
        assert "/variantId is not a member" in system.reason(target)
        assert (await system.stock(shirt), await system.stock(shirt, at=1)) == (10, 10)


@pytest.mark.parametrize("seed", range(40 if LONG else 1))
async def test_counts_among_sales_come_out_right(seed: int, tmp_path: Path) -> None:
    """The final stock is the last count plus all later movements."""
    chance = Random(seed)  # noqa: S311 - a seed to be told
    async with stock_system(tmp_path / "backhaul.db", tmp_path) as system:
        product, counted, since = await system.add_product(50), 50, 0
        last = ""
        for _ in range(12):
            act = chance.choice(("count", "sell", "sell", "adjust", "hold", "release"))
            if act == "count":
                counted, since = chance.randrange(20, 60), 0
                last = await system.submit_count(product, counted)
            elif act == "sell":
                sold = chance.randrange(1, 3)
                await system.sell(product, sold)
                since -= sold
            elif act == "adjust":
                await system.submit_adjustment(product, 2)
                since += 2
            elif act == "hold" and system.delayed is None:
                system.delayed = []
            else:
                await system.deliver_delayed()
        await system.deliver_delayed()
        if last:
            await system.await_state(last, "applied")
        await until(lambda: states(system) <= {"applied", "superseded"}, "all is done")
        assert await system.stock(product) == counted + since, system.log


async def test_a_restored_database_applies_no_count_twice(tmp_path: Path) -> None:
    """The first copy is from before the adjustment was sent: reads come first.

    The other copy is from before the count, which is submitted again.
    """
    empty, planned = tmp_path / "empty.db", tmp_path / "planned.db"
    async with open_shop(tmp_path / "shop") as shop:
        async with working(tmp_path / "backhaul.db", shop, {ERP: {}}) as system:
            product = await system.add_product(10)
            back_up(system.place, empty)
            system.pause_adjustments()
            sku, counted_at = product["variants"][0]["sku"], now()
            level = StockLevel(key="c", sku=sku, quantity=7, as_of=counted_at)
            await system.submit(level)
            target = system.command_of("c")
            await until(lambda: system.adjustments(target), "the step is planned")
            back_up(system.place, planned)
            system.resume_adjustments()
            await system.await_state(target, "applied")
            await system.sell(product)
        for copy in (planned, empty):
            async with working(copy, shop, {ERP: {}}, audited=True) as system:
                await system.submit(level)
                assert system.command_of("c") == target
                await system.await_state(target, "applied")
                assert await system.stock(product) == 6
                assert count(system.place, "attempts") == 0
        history = (await shop.state())["history"]
        assert [row["adjustment"] for row in history] == [10, -3, -1]
