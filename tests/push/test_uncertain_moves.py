"""Stock counts and stock movements that may be effects of our uncertain commands."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core import stock_decision
from backhaul.core.clock import from_text, to_text
from backhaul.platform.transport import OutcomeUnknown, Transport
from backhaul.push.stock_targets import StockReader
from backhaul_sdk import Cancellation
from scenes.damaged_rows import overwrite
from scenes.stock_counts import EARLY_CHECKS, StockSystem, now, stock_system
from scenes.stored import rows_of, value_of, values_of
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from backhaul.core.stock import ProductStock
    from backhaul.store import Place

BLIND = ("no-history", "no-idempotency")
"""A platform where nothing proves whether an adjustment has landed."""

ENDED = {"applied", "parked"}
CAUTIOUS = EARLY_CHECKS | {"on_absent": "park"}


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the rounds of reading, as many as ever, follow on each other at once."""
    monkeypatch.setattr(stock_decision, "ROUNDS_SECONDS", (0.1, 0.2, 0.3))


@pytest.fixture
def lose(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lose, of the next command that is sent, the request or the answer to it."""
    real, lost = Transport.send, [""]

    async def send(self: Transport, path: str, body: bytes, *a: Any, **how: Any) -> Any:
        what, lost[0] = lost[0], ""
        if what == "late":
            lost[0] = "landing"
        if what == "landing":
            # The first request lands now, ahead of the one that is sent again.
            await real(self, path, body, "another key", **how)
        if what not in {"request", "late"}:
            answer = await real(self, path, body, *a, **how)
        if what in {"", "landing"}:
            return answer
        raise OutcomeUnknown(f"the {what} was lost")

    monkeypatch.setattr(Transport, "send", send)
    return partial(lost.__setitem__, 0)


@pytest.fixture
def cancel_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[StockSystem, Callable[[], object]], None]:
    """Let a cancellation land after the first look at the stock, before that counts."""
    real = StockReader.read_levels
    waiting: list[tuple[StockSystem, Callable[[], object]]] = []

    async def read_levels(self: StockReader, product_id: str) -> ProductStock:
        seen = await real(self, product_id)
        if waiting:
            at, landed = waiting.pop()
            at.sender.dispatcher.pause("cancel", None)
            await until(landed, "it is cancelled")
        return seen

    monkeypatch.setattr(StockReader, "read_levels", read_levels)
    return lambda at, landed: waiting.append((at, landed))


async def test_an_adjustment_that_may_have_landed_is_not_read_as_goods(
    database: Place, tmp_path: Path, lose: Callable[[str], None]
) -> None:
    """A count from after the move, whatever moved, needs no decision."""
    async with stock_system(database, tmp_path, BLIND) as at:
        lamp = await at.add_product(10)
        at.pause_adjustments()
        first = await at.submit_count(lamp, 15)
        await until(lambda: at.adjustments(first), "it has a step")
        before = now()
        lose("answer")
        at.resume_adjustments()
        await at.await_state(first, "parked")
        assert await at.stock(lamp) == 15
        second = await at.submit_count(lamp, 15, before)
        await at.await_state(second, "parked")
        step = value_of(at.place, "commands_and_targets", "id", kind="adjust")
        assert f"the move of +5 at {now()[:10]}" in at.reason(second)
        assert f"may be that of command {step[:8]}, which is parked" in at.reason(
            second
        )
        assert at.adjustments(second) == []
        third = await at.submit_count(lamp, 14)
        await at.await_state(third, "applied")
        assert await at.stock(lamp) == 14


@pytest.mark.parametrize(("units", "counted"), [(4, "after"), (5, "before")])
async def test_goods_beside_an_uncertain_adjustment_are_goods(
    units: int,
    counted: str,
    database: Place,
    tmp_path: Path,
    lose: Callable[[str], None],
) -> None:
    """They are other units, or it does not matter: both came after the count."""
    async with stock_system(database, tmp_path, BLIND) as at:
        lamp = await at.add_product(10)
        moments = {"before": now()}
        await asyncio.sleep(0.01)
        lose("request")
        asked = await at.submit_adjustment(lamp, 5)
        await until(lambda: at.state(asked) == "parked", "it is left to a person")
        moments["after"] = now()
        await goods_come(at, lamp, units)
        count = await at.submit_count(lamp, 12, moments[counted])
        await at.await_state(count, "applied")
        assert f"{units} came since" in at.reason(count)
        assert await at.stock(lamp) == 12 + units


async def test_goods_long_after_an_uncertain_adjustment_are_goods(
    database: Place, tmp_path: Path, lose: Callable[[str], None]
) -> None:
    async with stock_system(database, tmp_path, BLIND) as at:
        lamp = await at.add_product(10)
        lose("request")
        asked = await at.submit_adjustment(lamp, 5)
        await until(lambda: at.state(asked) == "parked", "it is left to a person")
        started_at = value_of(at.place, "attempts", "started_at")
        long_ago = later(started_at, seconds=-61 * 60)
        overwrite(at.place, "attempts", {"started_at": long_ago})
        counted_at = now()
        await goods_come(at, lamp, 5)
        count = await at.submit_count(lamp, 12, counted_at)
        await at.await_state(count, "applied")
        assert "5 came since" in at.reason(count)
        assert await at.stock(lamp) == 17


@pytest.mark.parametrize("verb", ["park", "settle --applied", "drop"])
async def test_an_adjustment_from_before_the_count_may_be_in_it(
    verb: str, database: Place, tmp_path: Path, lose: Callable[[str], None]
) -> None:
    async with stock_system(database, tmp_path, BLIND) as at:
        lamp = await at.add_product(10)
        at.pause_adjustments()
        broken = await at.submit_adjustment(lamp, -2)
        before = now()
        lose("answer")
        at.resume_adjustments()
        await until(lambda: at.state(broken) == "parked", "it is left to a person")
        if verb != "park":
            await at.decide(broken, verb)
        count = await at.submit_count(lamp, 8, before)
        await at.await_state(count, "parked")
        said = f"may be that of command {broken[:8]}, which is {at.state(broken)}"
        assert said in at.reason(count)
        assert await at.stock(lamp) == 8


async def test_an_adjustment_that_is_to_be_sent_again_may_have_landed(
    database: Place, tmp_path: Path, lose: Callable[[str], None]
) -> None:
    """It waits for its gate; what left meanwhile may be its first attempt."""
    async with stock_system(database, tmp_path, ("no-idempotency",)) as at:
        lamp = await at.add_product(10)
        lose("request")
        broken = await at.submit_adjustment(lamp, -2)
        before = now()
        await until(lambda: at.state(broken) == "uncertain", "it is in doubt")
        at.pause_adjustments()
        await until(lambda: at.state(broken) == "planned", "it is to be sent again")
        await goods_come(at, lamp, -2)
        count = await at.submit_count(lamp, 8, before)
        await at.await_state(count, "parked")
        said = f"may be that of command {broken[:8]}, which is planned"
        assert said in at.reason(count)
        assert await at.stock(lamp) == 8


async def test_an_adjustment_that_takes_effect_late_is_not_repeated(
    database: Place, tmp_path: Path, lose: Callable[[str], None]
) -> None:
    """Once its tag was seen in the history, the count can be let go on."""
    async with stock_system(database, tmp_path, ("no-idempotency",)) as at:
        lamp = await at.add_product(10)
        lose("late")
        target = await at.submit_count(lamp, 15)
        await at.await_state(target, "parked")
        assert "may be that of command" in at.reason(target)
        assert "which is superseded" in at.reason(target)
        await at.sender.auditor.audit_now()
        await at.decide(target, "resend")
        await at.await_state(target, "applied")
        assert "15 wanted; 15 there: nothing to do" in at.reason(target)
        assert at.adjustments(target) == [("applied", 5)]
        assert await at.stock(lamp) == 15


@pytest.mark.parametrize("verb", ["park", "drop"])
async def test_a_restock_that_may_be_our_own_is_not_read_as_goods(
    verb: str, database: Place, tmp_path: Path, lose: Callable[[str], None]
) -> None:
    """Once the order was read for it, the count can be let go on."""
    async with stock_system(
        database, tmp_path, ("no-idempotency",), push=CAUTIOUS
    ) as at:
        lamp = await at.add_product(10)
        order, cancel = await lost_cancellation(at, lamp, lose)
        before = now()
        if verb != "park":
            await at.decide(cancel, verb)
        await cancelled(at, lamp, order)
        count = await at.submit_count(lamp, 10, before)
        await at.await_state(count, "parked")
        said = f"may be that of command {cancel[:8]}, which is {at.state(cancel)}"
        assert "the move of +3 at " in at.reason(count)
        assert said in at.reason(count)
        await at.decide(cancel, "settle" if verb == "park" else "resend")
        at.sender.resolver.wake()
        await until(lambda: at.state(cancel) == "applied", "the order was read")
        await at.decide(count, "resend")
        await at.await_state(count, "applied")
        assert "10 wanted; 10 there: nothing to do" in at.reason(count)
        assert await at.stock(lamp) == 10


async def test_a_restock_of_a_cancellation_from_after_the_count_is_goods(
    database: Place, tmp_path: Path, lose: Callable[[str], None]
) -> None:
    """Whoever cancelled the order, they were not there when somebody counted."""
    async with stock_system(
        database, tmp_path, ("no-idempotency",), push=CAUTIOUS
    ) as at:
        lamp = await at.add_product(10)
        order = await sold(at, lamp)
        before = now()
        await asyncio.sleep(0.01)
        await lost_cancellation(at, lamp, lose, order)
        await cancelled(at, lamp, order)
        count = await at.submit_count(lamp, 6, before)
        await at.await_state(count, "applied")
        assert "3 came since" in at.reason(count)
        assert await at.stock(lamp) == 9


async def test_a_planned_restock_that_was_made_manually_is_not_goods(
    database: Place,
    tmp_path: Path,
) -> None:
    """The cancellation that still waits puts nothing back any more."""
    async with stock_system(database, tmp_path) as at:
        lamp = await at.add_product(10)
        at.sender.dispatcher.pause("cancel", now())
        order = await sold(at, lamp)
        await asked_to_cancel(at, order)
        before = now()
        await cancelled(at, lamp, order)
        count = await at.submit_count(lamp, 10, before)
        await at.await_state(count, "applied")
        assert await at.stock(lamp) == 10


@pytest.mark.parametrize("quirks", [(), ("no-history",)], ids=["history", "none"])
@pytest.mark.parametrize("news", ["late", "half lost"])
async def test_a_restock_that_lands_while_its_level_is_read_is_waited_for(
    news: str,
    quirks: tuple[str, ...],
    database: Place,
    tmp_path: Path,
    cancel_meanwhile: Callable[[StockSystem, Callable[[], object]], None],
) -> None:
    """A platform that compares no levels would take the step from the old one."""
    async with stock_system(database, tmp_path, ("no-store-endpoint", *quirks)) as at:
        lamp = await at.add_product(10)
        order = await sold(at, lamp)
        at.sender.dispatcher.pause("cancel", now())
        cancel = await asked_to_cancel(at, order)
        if news == "late":
            at.delayed = []
        else:
            at.dropped_topics.add("inventory/level_update")
        cancel_meanwhile(at, lambda: at.state(cancel) == "applied")
        # Later than the sale's second; the clock of whoever counts is a bit ahead.
        count = await at.submit_count(lamp, 10, later(now(), seconds=2))
        if quirks:
            await until(lambda: at.state(count) in ENDED, "it does not wait for ever")
        else:
            await at.await_state(count, "applied")
            assert "10 wanted; 10 there: nothing to do" in at.reason(count)
        assert at.adjustments(count) == []
        assert await at.stock(lamp) == 10


async def test_a_restock_whose_order_is_heard_of_before_its_answer_is_waited_for(
    database: Place,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cancel_meanwhile: Callable[[StockSystem, Callable[[], object]], None],
) -> None:
    real, may_answer = Transport.send, asyncio.Event()

    async def send(self: Transport, path: str, *a: Any, **how: Any) -> Any:
        answer = await real(self, path, *a, **how)
        if path.endswith("/cancel"):
            await may_answer.wait()
        return answer

    monkeypatch.setattr(Transport, "send", send)
    async with stock_system(database, tmp_path, ("no-store-endpoint",)) as at:
        lamp = await at.add_product(10)
        order = await sold(at, lamp)
        at.sender.dispatcher.pause("cancel", now())
        cancel = await asked_to_cancel(at, order)
        at.dropped_topics.add("inventory/level_update")
        cancel_meanwhile(at, lambda: is_cancelled(at))
        count = await at.submit_count(lamp, 10, later(now(), seconds=2))
        await until(lambda: at.reason(count) or at.state(count) in ENDED, "decided")
        assert at.reason(count) == f"cancel command {cancel[:8]} is in progress"
        may_answer.set()
        await at.await_state(count, "applied")
        assert at.adjustments(count) == []
        assert await at.stock(lamp) == 10


@pytest.mark.parametrize("restock", [True, False])
async def test_a_manual_cancellation_during_a_level_read_is_waited_for(
    restock: bool, database: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours still waits: it puts nothing back any more, and the level is the old one."""
    async with stock_system(database, tmp_path, ("no-store-endpoint",)) as at:
        lamp = await at.add_product(10)
        order = await sold(at, lamp)
        at.sender.dispatcher.pause("cancel", now())
        await asked_to_cancel(at, order)
        at.dropped_topics.add("inventory/level_update")
        real, todo = StockReader.read_levels, [restock]

        async def read_levels(self: StockReader, product_id: str) -> ProductStock:
            seen = await real(self, product_id)
            if todo:
                body = {"restock": todo.pop()}
                reply = await at.shop.v1("POST", f"/orders/{order}/cancel", body)
                assert reply.status == 200, reply.body
                await until(lambda: is_cancelled(at), "the order's news came")
            return seen

        monkeypatch.setattr(StockReader, "read_levels", read_levels)
        count = await at.submit_count(lamp, 10, later(now(), seconds=2))
        await at.await_state(count, "applied")
        assert at.adjustments(count) == ([] if restock else [("applied", 3)])
        assert await at.stock(lamp) == 10


def later(moment: str, seconds: float) -> str:
    return to_text(from_text(moment) + timedelta(seconds=seconds))


async def lost_cancellation(
    at: StockSystem, lamp: Any, lose: Callable[[str], None], order: str = ""
) -> tuple[str, str]:
    """Return an order and its cancellation, which was in doubt and is parked."""
    order = order or await sold(at, lamp)
    lose("request")
    cancel = await asked_to_cancel(at, order)
    await until(lambda: at.state(cancel) == "parked", "it is left to a person")
    return order, cancel


async def sold(at: StockSystem, lamp: Any) -> str:
    order = await at.sell(lamp, 3)
    await until(lambda: is_known(at, 7) and rows_of(at.place, "orders"), "it is known")
    return order


async def asked_to_cancel(at: StockSystem, order: str) -> str:
    key = f"cancel {order}"
    await at.submit(Cancellation(key=key, order=order, restock=True))
    return at.command_of(key)


async def cancelled(at: StockSystem, lamp: Any, order: str) -> None:
    """Cancel it on the platform, as the request that was late does, or somebody."""
    reply = await at.shop.v1("POST", f"/orders/{order}/cancel", {"restock": True})
    assert reply.status == 200, reply.body
    await until(lambda: is_cancelled(at, order) and is_known(at, 10), "it is known")


def is_cancelled(at: StockSystem, order: str = "") -> bool:
    """Return whether the mirror shows the order, or any, as cancelled."""
    wanted = {"id": order} if order else {}
    return any(values_of(at.place, "orders", "cancelled_at", **wanted))


def is_known(at: StockSystem, stock: int) -> bool:
    return stock in values_of(at.place, "inventory_levels", "stock")


async def goods_come(at: StockSystem, lamp: Any, units: int) -> None:
    variant = lamp["variants"][0]["id"]
    body = {"productId": lamp["id"], "variantId": variant, "adjustment": units}
    body["reason"] = "RESTOCK"
    before = await at.stock(lamp)
    reply = await at.shop.v1("POST", "/inventory/adjust", body)
    assert reply.status == 200, reply.body
    shown = {"variant_id": variant, "stock": before + units}
    await until(lambda: rows_of(at.place, "inventory_levels", **shown), "it is known")
