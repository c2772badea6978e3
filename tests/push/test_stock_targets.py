"""Stock counts become adjustments of the platform's stock, also during sales."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul.platform.transport import Response, Transport
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
    """What was sold since it counted is taken off, whether it was heard of or not."""
    async with stock_system(database, tmp_path) as at:
        lamp = await at.add_product(10)
        target = await at.submit_count(lamp, 7)
        await at.await_state(target, "applied")
        assert await at.stock(lamp) == 7
        assert at.adjustments(target) == [("applied", -3)]
        assert "7 counted as of" in at.reason(target)
        assert "7 wanted; 10 there: -3" in at.reason(target)
        right = await at.submit_count(lamp, 7)
        await at.await_state(right, "applied")
        assert at.adjustments(right) == []
        assert "nothing to do" in at.reason(right)
        counted_at = now()
        await at.sell(lamp, 2)
        more = await at.submit_count(lamp, 20, counted_at)
        await at.await_state(more, "applied")
        assert await at.stock(lamp) == 18
        at.dropped_topics, counted_at = (
            {"inventory/level_update", "orders/create"},
            now(),
        )
        await at.sell(lamp, 3)
        last = await at.submit_count(lamp, 9, counted_at)
        await at.await_state(last, "applied")
        assert await at.stock(lamp) == 6


async def test_a_count_waits_for_the_order_of_a_cancellation_before_it(
    database: Place,
    tmp_path: Path,
) -> None:
    """What is to be put back was on the shelf when somebody counted."""
    async with stock_system(database, tmp_path) as at:
        lamp = await at.add_product(10)
        at.delayed = []
        await at.sell(lamp, 3)
        number = (await at.shop.state())["orders"][-1]["number"]
        await at.submit(Cancellation(key="1", order=str(number), restock=True))
        target = await at.submit_count(lamp, 10)
        await until(lambda: "waits for its order" in at.reason(target), "it waits")
        assert at.adjustments(target) == []
        await at.deliver_delayed()
        await until(lambda: rows_of(at.place, "orders"), "it is known")
        await at.store.records.match(at.matcher, 10)
        at.sender.context.signals.command_changed.emit()
        await at.await_state(at.command_of("1"), "applied")
        await at.await_state(target, "applied")
        assert await at.stock(lamp) == 10


async def test_a_damaged_adjustment_brings_its_count_to_an_operator(
    database: Place, tmp_path: Path
) -> None:
    async with stock_system(database, tmp_path) as at:
        lamp = await at.add_product(10)
        at.pause_adjustments()
        target = await at.submit_count(lamp, 7)
        await until(lambda: at.adjustments(target), "it has a step")
        payload = value_of(at.place, COMMANDS_AND_TARGETS, "payload", kind="adjust")
        damaged = {"payload": payload.replace("-3", "-9")}
        overwrite(at.place, "commands", damaged, kind="adjust")
        at.resume_adjustments()
        await at.await_state(target, "parked")
        assert "its adjustment is parked: the stored command is damaged" in at.reason(
            target
        )
        assert await at.stock(lamp) == 10


async def test_a_newer_count_replaces_a_waiting_one(
    database: Place, tmp_path: Path
) -> None:
    async with stock_system(database, tmp_path) as at:
        lamp = await at.add_product(10)
        before = now()
        at.pause_adjustments()
        first = await at.submit_count(lamp, 7)
        await until(lambda: at.adjustments(first), "the first has a step")
        second = await at.submit_count(lamp, 8)
        assert at.state(first) == "superseded"
        late = await at.submit_count(lamp, 3, before)
        assert at.state(late) == "superseded"
        at.resume_adjustments()
        await at.await_state(second, "applied")
        assert at.adjustments(first) == [("superseded", -3)]
        assert (at.adjustments(late), at.adjustments(second)) == ([], [("applied", -2)])
        assert await at.stock(lamp) == 8


async def test_an_operator_releases_a_large_adjustment_unless_it_is_outdated(
    database: Place,
    tmp_path: Path,
) -> None:
    async with stock_system(database, tmp_path, counts={ERP: {"max_step": 5}}) as at:
        lamp = await at.add_product(10)
        large = await at.submit_count(lamp, 100)
        await at.await_state(large, "parked")
        assert "larger than max_step = 5" in at.reason(large)
        assert "100 wanted; 10 there: +90" in at.reason(large)
        assert await at.stock(lamp) == 10
        await at.decide(large, "resend")
        await at.await_state(large, "applied")
        assert await at.stock(lamp) == 100
        larger = await at.submit_count(lamp, 200)
        await at.await_state(larger, "parked")
        newer = await at.submit_count(lamp, 99)
        await at.await_state(newer, "applied")
        await at.decide(larger, "resend")
        await at.await_state(larger, "superseded")
        assert await at.stock(lamp) == 99


async def test_a_resent_count_recomputes_its_discarded_adjustment(
    database: Place,
    tmp_path: Path,
) -> None:
    """The step that was dropped stays so: it was one from a level of long ago."""
    async with stock_system(database, tmp_path) as at:
        lamp = await at.add_product(10)
        at.pause_adjustments()
        target = await at.submit_count(lamp, 7)
        await until(lambda: at.adjustments(target), "it has a step")
        step = value_of(at.place, COMMANDS_AND_TARGETS, "id", kind="adjust")
        await at.decide(step, "park")
        await at.decide(step, "drop")
        assert at.state(target) == "rejected"
        await at.sell(lamp, 2)
        at.resume_adjustments()
        await at.decide(target, "resend")
        await at.await_state(target, "applied")
        assert at.adjustments(target) == [("rejected", -3), ("applied", -3)]
        assert await at.stock(lamp) == 5
        await at.decide(step, "resend")
        await at.await_state(step, "superseded")
        assert "calculated again" in at.reason(step)
        assert await at.stock(lamp) == 5


async def test_an_adjustment_planned_before_the_count_is_in_it(
    database: Place, tmp_path: Path
) -> None:
    """An adjustment waits; the count knows of it, and it must not count twice."""
    async with stock_system(database, tmp_path) as at:
        lamp = await at.add_product(10)
        at.pause_adjustments()
        damaged = await at.submit_adjustment(lamp, -2)
        target = await at.submit_count(lamp, 5)
        await until(lambda: at.adjustments(target), "the step is planned")
        assert at.adjustments(target) == [("planned", -3)]
        later = await at.submit_adjustment(lamp, 4)
        at.resume_adjustments()
        for command in (damaged, target, later):
            await at.await_state(command, "applied")
        assert at.adjustments(target)[-1] == ("applied", -3)
        assert await at.stock(lamp) == 9


async def test_a_record_that_waited_is_not_counted_twice(
    database: Place, tmp_path: Path
) -> None:
    """Its product became known only after a count that contains what it tells of."""
    async with stock_system(database, tmp_path) as at:
        late = StockAdjustment(key="late", sku="NOT-KNOWN-YET", delta=-2)
        await at.submit(late)
        lamp = await at.add_product(10, sku="NOT-KNOWN-YET")
        target = await at.submit_count(lamp, 7)
        await at.await_state(target, "applied")
        await at.store.records.match(at.matcher, 10)
        await until(lambda: at.command_of("late") != "None", "it is matched")
        at.sender.dispatcher.wake()
        await at.await_state(at.command_of("late"), "superseded")
        assert "already includes this change" in at.reason(at.command_of("late"))
        assert await at.stock(lamp) == 7


async def test_each_back_office_means_its_counts_in_its_way(
    database: Place, tmp_path: Path
) -> None:
    counts: dict[str, dict[str, object]] = {
        "fresh": {"stale_after": "1h"},
        "cautious": {"buffer": 3},
        "warehouse": {"quantity_means": "on_hand"},
    }
    async with stock_system(database, tmp_path, counts=counts) as at:
        lamp = await at.add_product(10)
        old = await at.submit_count(lamp, 7, OLD, by="fresh")
        await at.await_state(old, "parked")
        assert "stale source" in at.reason(old)
        kept_back = await at.submit_count(lamp, 8, by="cautious")
        await at.await_state(kept_back, "applied")
        assert await at.stock(lamp) == 5
        await at.sell(lamp, 2)
        shipped = await at.sell(lamp, 1)
        await at.shop.v1("POST", f"/orders/{shipped}/fulfill", {})
        done = {"fulfillment_status": "FULFILLED"}
        await until(lambda: rows_of(at.place, "orders", **done), "the parcel is known")
        on_hand = await at.submit_count(lamp, 9, by="warehouse")
        await at.await_state(on_hand, "applied")
        assert await at.stock(lamp) == 7
        assert "2 sold and not shipped then" in at.reason(on_hand)


async def test_an_adjustment_refused_as_outdated_is_recomputed(
    database: Place,
    tmp_path: Path,
) -> None:
    """A sale comes in between; the platform compares with the level that was read."""
    async with stock_system(database, tmp_path) as at:
        lamp = await at.add_product(10)
        at.pause_adjustments()
        target = await at.submit_count(lamp, 7)
        await until(lambda: at.adjustments(target), "the step is planned")
        await at.sell(lamp, 1)
        at.resume_adjustments()
        await at.await_state(target, "applied")
        assert at.adjustments(target) == [("superseded", -3), ("applied", -3)]
        assert await at.stock(lamp) == 6


async def test_an_adjustment_that_moves_others_stops_counts_until_resumed(
    database: Place,
    tmp_path: Path,
) -> None:
    async with stock_system(database, tmp_path, ("ignore-variant",)) as at:
        shirt = await at.add_product(variants=SIZES)
        target = await at.submit_count(shirt, 7)
        await at.await_state(target, "applied")
        await until(lambda: told(at, "target.stopped"), "a person hears of it")
        reason = await at.store.targets.stopped("main")
        assert reason is not None
        assert f"moved {shirt['variants'][1]['id']} of product" in reason
        other = await at.submit_count(shirt, 3, at=1)
        assert await at.target_worker.process_due() == 0
        assert (at.state(other), at.adjustments(other)) == ("planned", [])
        assert len(told(at, "target.stopped")) == 1
        await at.remove_quirks()
        await at.store.targets.stop("main", None)
        at.target_worker.wake()
        await at.await_state(other, "applied")
        assert await at.stock(shirt, at=1) == 3


def told(at: StockSystem, action: str) -> list[str]:
    return [line for line in at.log if line.startswith(f"{action}: ")]


async def test_a_dry_run_computes_and_sends_nothing(
    database: Place, tmp_path: Path
) -> None:
    async with stock_system(database, tmp_path, push={"dry_run": True}) as at:
        lamp = await at.add_product(10)
        target = await at.submit_count(lamp, 7)
        wanted = {"kind": "adjust", "reason": "dry run: not sent"}
        await until(
            lambda: rows_of(at.place, COMMANDS_AND_TARGETS, **wanted), "the rehearsal"
        )
        assert (at.state(target), at.adjustments(target)) == (
            "planned",
            [("planned", -3)],
        )
        assert "7 wanted; 10 there: -3" in at.reason(target)
        assert count(at.place, "attempts") == 0
        assert await at.stock(lamp) == 10


async def test_an_adjustment_that_is_always_refused_goes_to_an_operator(
    database: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A platform that compares with another stock than it shows refuses every step."""
    monkeypatch.setattr(adjustments, "BASE_SECONDS", 0.001)
    send, refused = Transport.send, Response(409, {}, b'{"code": "STOCK_CHANGED"}')

    async def refusing(self: Transport, path: str, *values: Any, **how: Any) -> Any:
        if path != "/inventory/adjust":
            return await send(self, path, *values, **how)
        self.budget.give_back(1)
        return refused

    async with stock_system(database, tmp_path) as at:
        lamp = await at.add_product(10)
        monkeypatch.setattr(Transport, "send", refusing)
        target = await at.submit_count(lamp, 7)
        await at.await_state(target, "parked")
        assert at.adjustments(target) == [("superseded", -3)] * adjustments.MOST_ROUNDS
        assert "the store refused its adjustment 10 times" in at.reason(target)
        assert "STOCK_CHANGED" in at.reason(target)
