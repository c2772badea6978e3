"""Stock counts become adjustments of the platform's stock, also during sales."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul.platform.responses import Response
from backhaul.platform.transport import Transport
from backhaul.store.sql.stock_targets import adjustments
from backhaul_sdk import Cancellation, StockAdjustment
from scenes.damaged_rows import overwrite
from scenes.stock_counts import ERP, StockSystem, now, stock_system
from scenes.stored import COMMANDS_AND_TARGETS, count, rows_of, value_of
from scenes.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from backhaul.store import Place

OLD = "2026-01-01T00:00:00Z"
SIZES = [
    {"title": size, "sku": f"SHIRT-{size}", "price": "100.00", "stock": 10}
    for size in ("S", "M")
]


async def test_a_count_becomes_one_adjustment_of_the_current_level(
    database: Place, tmp_path: Path
) -> None:
    """Sales since the count are subtracted, whether their webhooks arrived or not."""
    async with stock_system(database, tmp_path) as system:
        product = await system.add_product(10)
        target = await system.submit_count(product, 7)
        await system.await_state(target, "applied")
        assert await system.stock(product) == 7
        assert system.adjustments(target) == [("applied", -3)]
        assert "7 counted as of" in system.reason(target)
        assert "7 wanted; 10 there: -3" in system.reason(target)
        right = await system.submit_count(product, 7)
        await system.await_state(right, "applied")
        assert system.adjustments(right) == []
        assert "nothing to do" in system.reason(right)
        counted_at = now()
        await system.sell(product, 2)
        more = await system.submit_count(product, 20, counted_at)
        await system.await_state(more, "applied")
        assert await system.stock(product) == 18
        system.dropped_topics, counted_at = (
            {"inventory/level_update", "orders/create"},
            now(),
        )
        await system.sell(product, 3)
        last = await system.submit_count(product, 9, counted_at)
        await system.await_state(last, "applied")
        assert await system.stock(product) == 6


async def test_a_count_waits_for_the_order_of_a_cancellation_before_it(
    database: Place,
    tmp_path: Path,
) -> None:
    """The units of the cancelled order were on the shelf during the count."""
    async with stock_system(database, tmp_path) as system:
        product = await system.add_product(10)
        system.delayed = []
        await system.sell(product, 3)
        number = (await system.shop.state())["orders"][-1]["number"]
        await system.submit(Cancellation(key="1", order=str(number), restock=True))
        target = await system.submit_count(product, 10)
        await until(lambda: "waits for its order" in system.reason(target), "it waits")
        assert system.adjustments(target) == []
        await system.deliver_delayed()
        await until(lambda: rows_of(system.place, "orders"), "it is known")
        await system.store.records.match(system.matcher, 10)
        system.sender.context.signals.command_changed.emit()
        await system.await_state(system.command_of("1"), "applied")
        await system.await_state(target, "applied")
        assert await system.stock(product) == 10


async def test_a_damaged_adjustment_brings_its_count_to_an_operator(
    database: Place, tmp_path: Path
) -> None:
    async with stock_system(database, tmp_path) as system:
        product = await system.add_product(10)
        system.pause_adjustments()
        target = await system.submit_count(product, 7)
        await until(lambda: system.adjustments(target), "it has an adjustment")
        payload = value_of(system.place, COMMANDS_AND_TARGETS, "payload", kind="adjust")
        damaged = {"payload": payload.replace("-3", "-9")}
        overwrite(system.place, "commands", damaged, kind="adjust")
        system.resume_adjustments()
        await system.await_state(target, "parked")
        assert (
            "its adjustment is parked: the stored command is damaged"
            in system.reason(target)
        )
        assert await system.stock(product) == 10


async def test_a_newer_count_replaces_a_waiting_one(
    database: Place, tmp_path: Path
) -> None:
    async with stock_system(database, tmp_path) as system:
        product = await system.add_product(10)
        before = now()
        system.pause_adjustments()
        first = await system.submit_count(product, 7)
        await until(lambda: system.adjustments(first), "the first has an adjustment")
        second = await system.submit_count(product, 8)
        assert system.state(first) == "superseded"
        late = await system.submit_count(product, 3, before)
        assert system.state(late) == "superseded"
        system.resume_adjustments()
        await system.await_state(second, "applied")
        assert system.adjustments(first) == [("superseded", -3)]
        assert (system.adjustments(late), system.adjustments(second)) == (
            [],
            [("applied", -2)],
        )
        assert await system.stock(product) == 8


async def test_an_operator_releases_a_large_adjustment_unless_it_is_outdated(
    database: Place,
    tmp_path: Path,
) -> None:
    async with stock_system(
        database, tmp_path, counts={ERP: {"max_step": 5}}
    ) as system:
        product = await system.add_product(10)
        large = await system.submit_count(product, 100)
        await system.await_state(large, "parked")
        assert "larger than max_step = 5" in system.reason(large)
        assert "100 wanted; 10 there: +90" in system.reason(large)
        assert await system.stock(product) == 10
        await system.decide(large, "resend")
        await system.await_state(large, "applied")
        assert await system.stock(product) == 100
        larger = await system.submit_count(product, 200)
        await system.await_state(larger, "parked")
        newer = await system.submit_count(product, 99)
        await system.await_state(newer, "applied")
        await system.decide(larger, "resend")
        await system.await_state(larger, "superseded")
        assert await system.stock(product) == 99


async def test_a_resent_count_recomputes_its_discarded_adjustment(
    database: Place,
    tmp_path: Path,
) -> None:
    """The discarded adjustment stays discarded: its level is outdated."""
    async with stock_system(database, tmp_path) as system:
        product = await system.add_product(10)
        system.pause_adjustments()
        target = await system.submit_count(product, 7)
        await until(lambda: system.adjustments(target), "it has an adjustment")
        adjustment = value_of(system.place, COMMANDS_AND_TARGETS, "id", kind="adjust")
        await system.decide(adjustment, "park")
        await system.decide(adjustment, "discard")
        assert system.state(target) == "rejected"
        await system.sell(product, 2)
        system.resume_adjustments()
        await system.decide(target, "resend")
        await system.await_state(target, "applied")
        assert system.adjustments(target) == [("rejected", -3), ("applied", -3)]
        assert await system.stock(product) == 5
        await system.decide(adjustment, "resend")
        await system.await_state(adjustment, "superseded")
        assert "calculated again" in system.reason(adjustment)
        assert await system.stock(product) == 5


async def test_an_adjustment_planned_before_the_count_is_in_it(
    database: Place, tmp_path: Path
) -> None:
    """The count includes the planned adjustment, which must not count twice."""
    async with stock_system(database, tmp_path) as system:
        product = await system.add_product(10)
        system.pause_adjustments()
        damaged = await system.submit_adjustment(product, -2)
        target = await system.submit_count(product, 5)
        await until(lambda: system.adjustments(target), "the adjustment is planned")
        assert system.adjustments(target) == [("planned", -3)]
        later = await system.submit_adjustment(product, 4)
        system.resume_adjustments()
        for command in (damaged, target, later):
            await system.await_state(command, "applied")
        assert system.adjustments(target)[-1] == ("applied", -3)
        assert await system.stock(product) == 9


async def test_a_record_that_waited_is_not_counted_twice(
    database: Place, tmp_path: Path
) -> None:
    """Its product was mirrored only after a count that includes the record."""
    async with stock_system(database, tmp_path) as system:
        late = StockAdjustment(key="late", sku="NOT-KNOWN-YET", delta=-2)
        await system.submit(late)
        product = await system.add_product(10, sku="NOT-KNOWN-YET")
        target = await system.submit_count(product, 7)
        await system.await_state(target, "applied")
        await system.store.records.match(system.matcher, 10)
        await until(lambda: system.command_of("late") != "None", "it is matched")
        system.sender.dispatcher.wake()
        await system.await_state(system.command_of("late"), "superseded")
        assert "already includes this change" in system.reason(
            system.command_of("late")
        )
        assert await system.stock(product) == 7


async def test_each_back_office_means_its_counts_in_its_way(
    database: Place, tmp_path: Path
) -> None:
    counts: dict[str, dict[str, object]] = {
        "fresh": {"stale_after": "1h"},
        "cautious": {"buffer": 3},
        "warehouse": {"quantity_means": "on_hand"},
    }
    async with stock_system(database, tmp_path, counts=counts) as system:
        product = await system.add_product(10)
        old = await system.submit_count(product, 7, OLD, by="fresh")
        await system.await_state(old, "parked")
        assert "stale source" in system.reason(old)
        kept_back = await system.submit_count(product, 8, by="cautious")
        await system.await_state(kept_back, "applied")
        assert await system.stock(product) == 5
        await system.sell(product, 2)
        shipped = await system.sell(product, 1)
        await system.shop.v1("POST", f"/orders/{shipped}/fulfill", {})
        done = {"fulfillment_status": "FULFILLED"}
        await until(
            lambda: rows_of(system.place, "orders", **done), "the parcel is known"
        )
        on_hand = await system.submit_count(product, 9, by="warehouse")
        await system.await_state(on_hand, "applied")
        assert await system.stock(product) == 7
        assert "2 sold and not shipped then" in system.reason(on_hand)


async def test_an_adjustment_refused_as_outdated_is_recomputed(
    database: Place,
    tmp_path: Path,
) -> None:
    """A sale changed the stock; the platform compares it with the level we read."""
    async with stock_system(database, tmp_path) as system:
        product = await system.add_product(10)
        system.pause_adjustments()
        target = await system.submit_count(product, 7)
        await until(lambda: system.adjustments(target), "the adjustment is planned")
        await system.sell(product, 1)
        system.resume_adjustments()
        await system.await_state(target, "applied")
        assert system.adjustments(target) == [("superseded", -3), ("applied", -3)]
        assert await system.stock(product) == 6


async def test_an_adjustment_that_moves_others_stops_counts_until_resumed(
    database: Place,
    tmp_path: Path,
) -> None:
    async with stock_system(database, tmp_path, ("ignore-variant",)) as system:
        shirt = await system.add_product(variants=SIZES)
        target = await system.submit_count(shirt, 7)
        await system.await_state(target, "applied")
        await until(
            lambda: logged(system, "target.stopped"), "the operator is informed"
        )
        reason = await system.store.targets.stopped("main")
        assert reason is not None
        assert f"moved {shirt['variants'][1]['id']} of product" in reason
        other = await system.submit_count(shirt, 3, at=1)
        assert await system.target_worker.process_due() == 0
        assert (system.state(other), system.adjustments(other)) == ("planned", [])
        assert len(logged(system, "target.stopped")) == 1
        await system.remove_quirks()
        await system.store.targets.stop("main", None)
        system.target_worker.wake()
        await system.await_state(other, "applied")
        assert await system.stock(shirt, at=1) == 3


def logged(system: StockSystem, action: str) -> list[str]:
    return [line for line in system.log if line.startswith(f"{action}: ")]


async def test_a_dry_run_computes_and_sends_nothing(
    database: Place, tmp_path: Path
) -> None:
    async with stock_system(database, tmp_path, push={"dry_run": True}) as system:
        product = await system.add_product(10)
        target = await system.submit_count(product, 7)
        wanted = {"kind": "adjust", "reason": "dry run: not sent"}
        await until(
            lambda: rows_of(system.place, COMMANDS_AND_TARGETS, **wanted),
            "the dry run",
        )
        assert (system.state(target), system.adjustments(target)) == (
            "planned",
            [("planned", -3)],
        )
        assert "7 wanted; 10 there: -3" in system.reason(target)
        assert count(system.place, "attempts") == 0
        assert await system.stock(product) == 10


async def test_an_adjustment_that_is_always_refused_goes_to_an_operator(
    database: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The platform compares with another stock than it shows."""
    monkeypatch.setattr(adjustments, "BASE_SECONDS", 0.001)
    send, refused = Transport.send, Response(409, {}, b'{"code": "STOCK_CHANGED"}')

    async def refusing(self: Transport, path: str, *values: Any, **how: Any) -> Any:
        if path != "/inventory/adjust":
            return await send(self, path, *values, **how)
        self.budget.give_back(1)
        return refused

    async with stock_system(database, tmp_path) as system:
        product = await system.add_product(10)
        monkeypatch.setattr(Transport, "send", refusing)
        target = await system.submit_count(product, 7)
        await system.await_state(target, "parked")
        assert (
            system.adjustments(target) == [("superseded", -3)] * adjustments.MOST_ROUNDS
        )
        assert "the store refused its adjustment 10 times" in system.reason(target)
        assert "STOCK_CHANGED" in system.reason(target)
