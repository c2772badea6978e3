"""A restored database has a stock count, but not the adjustment that applied it.

Incoming goods have raised the stock again to the level before that adjustment.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from backhaul.core.clock import SystemClock
from backhaul.platform.transport import OutcomeUnknown, Transport
from backhaul.store import database_at
from backhaul.store.operations import AuditEntry
from backhaul.store.stock_targets import HeldFilter
from backhaul_sdk import StockAdjustment, StockLevel
from scenes.back_office import ReportsChanges, host_of
from scenes.databases import back_up
from scenes.reference_shop import Shop, open_shop
from scenes.stock_counts import ERP, STORE, StockSystem, now, working
from scenes.stored import rows_of
from scenes.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from backhaul.store import Place
    from scenes.databases import NewDatabase

MOVES = [10, 3, -3]
"""The expected history of the platform: the count is applied once."""


async def lost(*_: Any, **__: Any) -> NoReturn:
    raise OutcomeUnknown("no answer")


async def add_three(shop: Shop, product: Any) -> None:
    """Add three units at the platform."""
    which = {"productId": product["id"], "variantId": product["variants"][0]["id"]}
    found = which | {"adjustment": 3, "reason": "CORRECTION"}
    assert (await shop.v1("POST", "/inventory/adjust", found)).status == 200


async def moves(shop: Shop) -> list[int]:
    return [row["adjustment"] for row in (await shop.state())["history"]]


async def plan_superseded(system: StockSystem, state: str, copy: Place) -> str:
    """Back up when a count's adjustment is in `state`, then change the stock."""
    product = await system.add_product(10)
    target = await system.submit_count(product, 7)
    await until(
        lambda: system.adjustments(target) == [(state, -3)],
        f"its adjustment is {state}",
    )
    back_up(system.place, copy)
    await add_three(system.shop, product)
    return target


@pytest.mark.parametrize("state", ["planned", "uncertain"])
async def test_an_adjustment_superseded_before_a_restore_is_not_sent(
    state: str,
    database: Place,
    new_database: NewDatabase,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copy = new_database()
    async with open_shop(tmp_path / "shop") as shop:
        async with working(database, shop, {ERP: {}}) as system:
            with monkeypatch.context() as patch:
                if state == "planned":
                    system.pause_adjustments()
                else:
                    patch.setattr(Transport, "send", lost)
                target = await plan_superseded(system, state, copy)
            system.resume_adjustments()
            await system.await_state(target, "applied")
            assert system.adjustments(target) == [("superseded", -3), ("applied", -3)]
        async with working(copy, shop, {ERP: {}}, audited=True) as system:
            await system.await_state(target, "applied")
            assert system.adjustments(target) == [("superseded", -3)]
            assert "3 came since: 10 wanted; 10 there" in system.reason(target)
        assert await moves(shop) == MOVES


async def test_a_count_sent_again_is_not_computed_from_an_old_level(
    database: Place, new_database: NewDatabase, tmp_path: Path
) -> None:
    copy = new_database()
    async with open_shop(tmp_path / "shop") as shop:
        async with working(database, shop, {ERP: {}}) as system:
            product = await system.add_product(10)
            back_up(system.place, copy)
            sku = product["variants"][0]["sku"]
            count = StockLevel(key="c", sku=sku, quantity=7, as_of=now())
            await system.submit(count)
            await system.await_state(system.command_of("c"), "applied")
            await add_three(shop, product)
        async with working(copy, shop, {ERP: {}}, audited=True) as system:
            await system.submit(count)
            target = system.command_of("c")
            await system.await_state(target, "applied")
            assert system.adjustments(target) == []
            assert "3 came since: 10 wanted; 10 there" in system.reason(target)
        assert sorted(await moves(shop)) == sorted(MOVES)


@pytest.mark.parametrize("looks_as_before", [True, False])
async def test_a_difference_that_a_newer_count_corrected_is_not_corrected_again(
    looks_as_before: bool, database: Place, new_database: NewDatabase, tmp_path: Path
) -> None:
    """The restored database has no record of that count until it is submitted again."""
    copy = new_database()
    async with open_shop(tmp_path / "shop") as shop:
        async with working(database, shop, {ERP: {}}) as system:
            product = await system.add_product(10)
            system.pause_adjustments()
            first = await system.submit_count(product, 7)
            await until(
                lambda: system.adjustments(first) == [("planned", -3)], "it is planned"
            )
            back_up(system.place, copy)
            sku = product["variants"][0]["sku"]
            newer = StockLevel(key="newer", sku=sku, quantity=7, as_of=now())
            await system.submit(newer)
            second = system.command_of("newer")
            await until(
                lambda: system.adjustments(second) == [("planned", -3)], "it is planned"
            )
            system.resume_adjustments()
            await system.await_state(second, "applied")
            if looks_as_before:
                await add_three(shop, product)
            before = await moves(shop)
        async with working(copy, shop, {ERP: {}}, audited=True) as system:
            await until(lambda: "of a newer count" in system.reason(first), "it waits")
            assert system.adjustments(first) == [("superseded", -3)]
            await system.submit(newer)
            await system.await_state(second, "applied")
            await system.await_state(first, "superseded")
        assert await moves(shop) == before


async def test_goods_that_came_in_before_a_restore_are_no_newer_count(
    database: Place, new_database: NewDatabase, tmp_path: Path
) -> None:
    copy = new_database()
    async with open_shop(tmp_path / "shop") as shop:
        async with working(database, shop, {ERP: {}}) as system:
            product = await system.add_product(10)
            as_of = now()
            back_up(system.place, copy)
            sku = product["variants"][0]["sku"]
            came = StockAdjustment(key="came", sku=sku, delta=3, reason="RECEIVED")
            await system.submit(came)
            await system.await_state(system.command_of("came"), "applied")
        async with working(copy, shop, {ERP: {}}, audited=True) as system:
            target = await system.submit_count(product, 7, as_of)
            await system.await_state(target, "applied")
            assert system.adjustments(target) == [("applied", -3)]
            assert "3 came since: 10 wanted; 13 there" in system.reason(target)


async def lose_two_counts(
    system: StockSystem, copy: Place
) -> tuple[list[Any], list[str]]:
    """Count two products, back up, and apply newer counts after the backup."""
    products = [await system.add_product(10) for _ in range(2)]
    system.pause_adjustments()
    older = [await system.submit_count(product, 7) for product in products]
    for target in older:
        await until(partial(has_adjustments, system, target), "it is planned")
    back_up(system.place, copy)
    newer = [await system.submit_count(product, 6) for product in products]
    system.resume_adjustments()
    for target in newer:
        await system.await_state(target, "applied")
    return products, older


async def test_counts_that_a_copy_leaves_unexplained_are_held_together(
    database: Place, new_database: NewDatabase, tmp_path: Path
) -> None:
    copy = new_database()
    async with open_shop(tmp_path / "shop") as shop:
        async with working(database, shop, {ERP: {}}) as system:
            products, older = await lose_two_counts(system, copy)
        await check_held(copy, shop, products, older)


async def test_counts_that_a_restore_leaves_unexplained_are_held_together(
    tmp_path: Path,
) -> None:
    """The restore command handles files only; PostgreSQL has its own tools."""
    copy, restored = tmp_path / "copy" / "copy.db", tmp_path / "restored.db"
    async with open_shop(tmp_path / "shop") as shop:
        async with working(tmp_path / "backhaul.db", shop, {ERP: {}}) as system:
            products, older = await lose_two_counts(system, copy)
        database_at(restored).restore(copy, [STORE], SystemClock())
        await check_held(restored, shop, products, older)


async def check_held(
    restored: Place, shop: Shop, products: list[Any], older: list[str]
) -> None:
    """Start with the older counts of two products; let an operator release one."""
    before = await moves(shop)
    async with working(restored, shop, {ERP: {}}, audited=True) as system:
        for target in older:
            await until(partial(on_hold, system, target), "it is held")
        assert [await system.stock(product) for product in products] == [6, 6]
        assert await moves(shop) == before

        (held,) = (await system.store.alert_conditions.current([])).held_targets
        assert (held.store, held.number) == (STORE, 2)
        assert (await system.store.alert_conditions.current([])).parked == []
        assert await system.store.records.must_read_stock_list(ERP)

        fresh = await system.submit_count(products[0], 4)
        await system.await_state(fresh, "applied")
        assert system.state(older[0]) == "superseded"
        assert await system.stock(products[0]) == 4

        released = AuditEntry("kim", "stock release", "no newer count")
        assert await system.store.targets.release(HeldFilter(STORE), released) == 1
        system.sender.context.signals.command_changed.emit()
        await system.await_state(older[1], "applied")
        # 7 were counted, and 4 left since: no record explains the adjustment.
        assert await system.stock(products[1]) == 3


def has_adjustments(system: StockSystem, target: str) -> bool:
    return system.adjustments(target) == [("planned", -3)]


def on_hold(system: StockSystem, target: str) -> bool:
    return system.reason(target).startswith("on hold since the database was restored")


async def test_a_source_of_changes_submits_all_counts_once_and_ends_the_hold(
    database: Place, new_database: NewDatabase, tmp_path: Path
) -> None:
    copy = new_database()
    async with open_shop(tmp_path / "shop") as shop:
        async with working(database, shop, {ERP: {}}) as system:
            products, older = await lose_two_counts(system, copy)
        async with working(copy, shop, {ERP: {}}, audited=True) as system:
            source = ReportsChanges(
                [product["variants"][0]["sku"] for product in products], now
            )
            host = host_of(source, system.store)
            await host.once()
            for target in older:
                await until(partial(on_hold, system, target), "it is held")
            for _ in range(2):
                await host.once()
                system.sender.context.signals.command_changed.emit()
            for target in older:
                await system.await_state(target, "superseded")
            await until(lambda: len(fives(system)) == 2, "the new counts are applied")
            assert [await system.stock(product) for product in products] == [5, 5]
            assert source.restarted == 1
            assert (await system.store.alert_conditions.current([])).held_targets == []


def fives(system: StockSystem) -> list[Any]:
    """Return the applied counts of five units."""
    return rows_of(system.place, "stock_targets", "id", quantity=5, state="applied")
