"""A stock count whose level cannot be read or explained waits, and is logged."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from loguru import logger

from backhaul.connect.record_matching import Matcher, encode
from backhaul.core.clock import to_text
from backhaul.core.stock import ProductStock
from backhaul.core.stock_decision import ROUNDS_SECONDS
from backhaul.platform.transport import NotSent
from backhaul.push.stock_targets import RETRY_CAP_SECONDS, StockReader, TargetWorker
from backhaul.runtime.signals import StoreContext
from backhaul.store.records import NewRecord
from backhaul_sdk import StockLevel
from scenes import payloads
from scenes.clock import VirtualClock
from scenes.damaged_rows import overwrite
from scenes.databases import append_and_fold, started_store
from scenes.stored import COMMANDS_AND_TARGETS, rows_of, value_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from backhaul.store import Place


def stands(on: Scene) -> list[tuple[Any, ...]]:
    return rows_of(on.place, COMMANDS_AND_TARGETS, "state", "reason")


@dataclass(slots=True)
class Reader(StockReader):
    """Reads the platform's stock once it is connected; there is no history."""

    levels: dict[str, int] = field(default_factory=dict)
    cable: bool = True
    bug: bool = False
    asked: list[str] = field(default_factory=list)

    async def read_levels(self, product_id: str) -> ProductStock:
        self.asked.append(product_id)
        if not self.cable:
            raise NotSent("the cable is out")
        if self.bug:
            raise OverflowError("date value out of range")
        return ProductStock(self.levels)

    async def read_with_history(self, product_id: str, since: str) -> ProductStock:
        return await self.read_levels(f"{product_id} since {since[:10]}")


@dataclass(slots=True)
class Scene:
    """One waiting count of a mirrored product."""

    place: Place
    clock: VirtualClock
    reader: Reader
    target_worker: TargetWorker
    fenced: bool = False
    log: list[str] = field(default_factory=list)


@asynccontextmanager
async def counted(database: Place) -> AsyncIterator[Scene]:
    clock, reader = VirtualClock(), Reader()
    async with started_store(database, clock) as store:
        news = payloads.envelope("products/create", payloads.product())
        assert await append_and_fold(store, news) == []
        reader.levels |= rows_of(database, "inventory_levels", "variant_id", "stock")
        quantity, now = reader.levels["var_1"], to_text(clock.now())
        count = StockLevel(key="c", sku="LS-S", quantity=quantity, as_of=now)
        new = NewRecord(count.key, encode(count), "", "", count.key)
        matcher = Matcher(clock, 600.0)
        await store.records.accept("erp", "main", [new], None, matcher)
        target_worker = TargetWorker(
            StoreContext("main", clock, lambda: 0.5),
            store.targets,
            reader,
            {},
            lambda: False,
            lambda: made.fenced,
        )
        made = Scene(database, clock, reader, target_worker)
        sink = logger.add(
            lambda m: made.log.append(m.record["extra"].get("action", ""))
        )
        yield made
        logger.remove(sink)


async def test_an_unread_count_is_logged_once_and_retried_until_read(
    database: Place,
) -> None:
    async with counted(database) as on:
        on.reader.cable = False
        waits = ("planned", "the product cannot be read: the cable is out")
        for tries in range(1, 7):
            assert await on.target_worker.process_due() == 1
            assert await on.target_worker.process_due() == 0
            assert len(on.reader.asked) == tries
            assert on.log.count("target.unread") == (tries >= 3)
            assert stands(on) == [waits]
            await on.clock.advance(RETRY_CAP_SECONDS)
        on.reader.cable = True
        assert await on.target_worker.process_due() == 1
        ((state, reason),) = stands(on)
        assert (state, "nothing to do" in reason) == ("applied", True)


async def test_a_count_with_an_unexpected_error_stops_no_other(database: Place) -> None:
    async with counted(database) as on:
        on.reader.bug = True
        said = "cannot be processed: OverflowError: date value out of range"
        for _ in range(4):
            assert await on.target_worker.process_due() == 1
            assert await on.target_worker.process_due() == 0
            assert stands(on) == [("planned", said)]
            assert on.log.count("target.failed") == 1
            await on.clock.advance(RETRY_CAP_SECONDS)
        on.reader.bug = False
        assert await on.target_worker.process_due() == 1
        assert value_of(on.place, COMMANDS_AND_TARGETS, "state") == "applied"


@pytest.mark.parametrize(
    ("table", "column", "state"),
    [("stock_targets", "payload", "parked"), ("stock_targets", "quantity", "applied")],
)
async def test_a_damaged_count_never_becomes_an_adjustment(
    table: str, column: str, state: str, database: Place
) -> None:
    """The payload is authoritative, and protected by a digest."""
    async with counted(database) as on:
        payload = value_of(on.place, COMMANDS_AND_TARGETS, "payload")
        damaged = {"payload": payload.replace("quantity", "quantily"), "quantity": 15}
        overwrite(on.place, table, {column: damaged[column]})
        await on.target_worker.process_due()
        assert rows_of(on.place, COMMANDS_AND_TARGETS, "kind", "state") == [
            ("target", state)
        ]
        assert len(on.reader.asked) == (state == "applied")


async def test_an_unexplained_level_is_read_three_more_times(database: Place) -> None:
    async with counted(database) as on:
        on.reader.levels["var_1"] -= 4
        for wait_seconds in ROUNDS_SECONDS:
            assert await on.target_worker.process_due() == 1
            assert await on.target_worker.process_due() == 0
            ((state, reason),) = stands(on)
            assert (state, "the mirror" in reason) == ("planned", True)
            await on.clock.advance(wait_seconds)
        assert await on.target_worker.process_due() == 1
        ((state, reason),) = stands(on)
        assert state == "parked"
        assert "after 3 more rounds of reading" in reason
        studied = "prod_1 since 2026-03-01"
        assert on.reader.asked == ["prod_1", studied, studied, studied]
        assert rows_of(on.place, COMMANDS_AND_TARGETS, kind="adjust") == []


async def test_nothing_is_computed_before_the_history_is_read(database: Place) -> None:
    """After a restore it may contain adjustments that the database does not have."""
    async with counted(database) as on:
        on.fenced = True
        assert await on.target_worker.process_due() == 0
        assert (on.reader.asked, stands(on)) == (
            [],
            [("planned", "")],
        )
        on.fenced = False
        assert await on.target_worker.process_due() == 1
        assert value_of(on.place, COMMANDS_AND_TARGETS, "state") == "applied"
