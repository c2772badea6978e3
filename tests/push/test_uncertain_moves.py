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
"""A platform that gives no evidence whether an adjustment took effect."""

ENDED = {"applied", "parked"}
CAUTIOUS = EARLY_CHECKS | {"on_absent": "park"}


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeat reads without the usual delay."""
    monkeypatch.setattr(stock_decision, "ROUNDS_SECONDS", (0.1, 0.2, 0.3))


@pytest.fixture
def lose(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that loses the request or the response of the next command."""
    real, lost = Transport.send, [""]

    async def send(self: Transport, path: str, body: bytes, *a: Any, **how: Any) -> Any:
        what, lost[0] = lost[0], ""
        if what == "late":
            lost[0] = "landing"
        if what == "landing":
            # The first request arrives now, before the second one.
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
    """Let a cancellation take effect after the first read of the stock."""
    real = StockReader.read_levels
    waiting: list[tuple[StockSystem, Callable[[], object]]] = []

    async def read_levels(self: StockReader, product_id: str) -> ProductStock:
        seen = await real(self, product_id)
        if waiting:
            system, condition = waiting.pop()
            system.sender.dispatcher.pause("cancel", None)
            await until(condition, "it is cancelled")
        return seen

    monkeypatch.setattr(StockReader, "read_levels", read_levels)
    return lambda system, condition: waiting.append((system, condition))


async def test_an_adjustment_that_may_have_taken_effect_is_not_read_as_goods(
    database: Place, tmp_path: Path, lose: Callable[[str], None]
) -> None:
    """A count after the movement needs no decision, whatever its cause."""
    async with stock_system(database, tmp_path, BLIND) as system:
        product = await system.add_product(10)
        system.pause_adjustments()
        first = await system.submit_count(product, 15)
        await until(lambda: system.adjustments(first), "it has an adjustment")
        before = now()
        lose("answer")
        system.resume_adjustments()
        await system.await_state(first, "parked")
        assert await system.stock(product) == 15
        second = await system.submit_count(product, 15, before)
        await system.await_state(second, "parked")
        adjustment = value_of(system.place, "commands_and_targets", "id", kind="adjust")
        assert f"the move of +5 at {now()[:10]}" in system.reason(second)
        assert (
            f"may be that of command {adjustment[:8]}, which is parked"
            in system.reason(second)
        )
        assert system.adjustments(second) == []
        third = await system.submit_count(product, 14)
        await system.await_state(third, "applied")
        assert await system.stock(product) == 14


@pytest.mark.parametrize(("units", "counted"), [(4, "after"), (5, "before")])
async def test_goods_beside_an_uncertain_adjustment_are_goods(
    units: int,
    counted: str,
    database: Place,
    tmp_path: Path,
    lose: Callable[[str], None],
) -> None:
    """They are other units, or both changes came after the count."""
    async with stock_system(database, tmp_path, BLIND) as system:
        product = await system.add_product(10)
        moments = {"before": now()}
        await asyncio.sleep(0.01)
        lose("request")
        asked = await system.submit_adjustment(product, 5)
        await until(lambda: system.state(asked) == "parked", "it needs an operator")
        moments["after"] = now()
        await goods_come(system, product, units)
        count = await system.submit_count(product, 12, moments[counted])
        await system.await_state(count, "applied")
        assert f"{units} came since" in system.reason(count)
        assert await system.stock(product) == 12 + units


async def test_goods_long_after_an_uncertain_adjustment_are_goods(
    database: Place, tmp_path: Path, lose: Callable[[str], None]
) -> None:
    async with stock_system(database, tmp_path, BLIND) as system:
        product = await system.add_product(10)
        lose("request")
        asked = await system.submit_adjustment(product, 5)
        await until(lambda: system.state(asked) == "parked", "it needs an operator")
        started_at = value_of(system.place, "attempts", "started_at")
        long_ago = later(started_at, seconds=-61 * 60)
        overwrite(system.place, "attempts", {"started_at": long_ago})
        counted_at = now()
        await goods_come(system, product, 5)
        count = await system.submit_count(product, 12, counted_at)
        await system.await_state(count, "applied")
        assert "5 came since" in system.reason(count)
        assert await system.stock(product) == 17


@pytest.mark.parametrize("verb", ["park", "resolve --applied", "discard"])
async def test_an_adjustment_from_before_the_count_may_be_in_it(
    verb: str, database: Place, tmp_path: Path, lose: Callable[[str], None]
) -> None:
    async with stock_system(database, tmp_path, BLIND) as system:
        product = await system.add_product(10)
        system.pause_adjustments()
        broken = await system.submit_adjustment(product, -2)
        before = now()
        lose("answer")
        system.resume_adjustments()
        await until(lambda: system.state(broken) == "parked", "it needs an operator")
        if verb != "park":
            await system.decide(broken, verb)
        count = await system.submit_count(product, 8, before)
        await system.await_state(count, "parked")
        said = f"may be that of command {broken[:8]}, which is {system.state(broken)}"
        assert said in system.reason(count)
        assert await system.stock(product) == 8


async def test_an_adjustment_that_is_to_be_sent_again_may_have_taken_effect(
    database: Place, tmp_path: Path, lose: Callable[[str], None]
) -> None:
    """It waits for its send window; the movement may be its first attempt."""
    async with stock_system(database, tmp_path, ("no-idempotency",)) as system:
        product = await system.add_product(10)
        lose("request")
        broken = await system.submit_adjustment(product, -2)
        before = now()
        await until(lambda: system.state(broken) == "uncertain", "it is uncertain")
        system.pause_adjustments()
        await until(lambda: system.state(broken) == "planned", "it is to be sent again")
        await goods_come(system, product, -2)
        count = await system.submit_count(product, 8, before)
        await system.await_state(count, "parked")
        said = f"may be that of command {broken[:8]}, which is planned"
        assert said in system.reason(count)
        assert await system.stock(product) == 8


async def test_an_adjustment_that_takes_effect_late_is_not_repeated(
    database: Place, tmp_path: Path, lose: Callable[[str], None]
) -> None:
    """After its tag appeared in the history, the count can be resent."""
    async with stock_system(database, tmp_path, ("no-idempotency",)) as system:
        product = await system.add_product(10)
        lose("late")
        target = await system.submit_count(product, 15)
        await system.await_state(target, "parked")
        assert "may be that of command" in system.reason(target)
        assert "which is superseded" in system.reason(target)
        await system.sender.auditor.audit_now()
        await system.decide(target, "resend")
        await system.await_state(target, "applied")
        assert "15 wanted; 15 there: nothing to do" in system.reason(target)
        assert system.adjustments(target) == [("applied", 5)]
        assert await system.stock(product) == 15


@pytest.mark.parametrize("verb", ["park", "discard"])
async def test_a_restock_that_may_be_our_own_is_not_read_as_goods(
    verb: str, database: Place, tmp_path: Path, lose: Callable[[str], None]
) -> None:
    """After the order was read, the count can be resent."""
    async with stock_system(
        database, tmp_path, ("no-idempotency",), push=CAUTIOUS
    ) as system:
        product = await system.add_product(10)
        order, cancel = await lost_cancellation(system, product, lose)
        before = now()
        if verb != "park":
            await system.decide(cancel, verb)
        await cancelled(system, product, order)
        count = await system.submit_count(product, 10, before)
        await system.await_state(count, "parked")
        said = f"may be that of command {cancel[:8]}, which is {system.state(cancel)}"
        assert "the move of +3 at " in system.reason(count)
        assert said in system.reason(count)
        await system.decide(cancel, "resolve" if verb == "park" else "resend")
        system.sender.resolver.wake()
        await until(lambda: system.state(cancel) == "applied", "the order was read")
        await system.decide(count, "resend")
        await system.await_state(count, "applied")
        assert "10 wanted; 10 there: nothing to do" in system.reason(count)
        assert await system.stock(product) == 10


async def test_a_restock_of_a_cancellation_from_after_the_count_is_goods(
    database: Place, tmp_path: Path, lose: Callable[[str], None]
) -> None:
    """The restocked units were not on the shelf when they were counted."""
    async with stock_system(
        database, tmp_path, ("no-idempotency",), push=CAUTIOUS
    ) as system:
        product = await system.add_product(10)
        order = await sold(system, product)
        before = now()
        await asyncio.sleep(0.01)
        await lost_cancellation(system, product, lose, order)
        await cancelled(system, product, order)
        count = await system.submit_count(product, 6, before)
        await system.await_state(count, "applied")
        assert "3 came since" in system.reason(count)
        assert await system.stock(product) == 9


async def test_a_planned_restock_that_was_made_manually_is_not_goods(
    database: Place,
    tmp_path: Path,
) -> None:
    """The planned cancellation will not restock anything."""
    async with stock_system(database, tmp_path) as system:
        product = await system.add_product(10)
        system.sender.dispatcher.pause("cancel", now())
        order = await sold(system, product)
        await asked_to_cancel(system, order)
        before = now()
        await cancelled(system, product, order)
        count = await system.submit_count(product, 10, before)
        await system.await_state(count, "applied")
        assert await system.stock(product) == 10


@pytest.mark.parametrize("quirks", [(), ("no-history",)], ids=["history", "none"])
@pytest.mark.parametrize("news", ["late", "half lost"])
async def test_a_restock_that_takes_effect_while_its_level_is_read_is_waited_for(
    news: str,
    quirks: tuple[str, ...],
    database: Place,
    tmp_path: Path,
    cancel_meanwhile: Callable[[StockSystem, Callable[[], object]], None],
) -> None:
    """A platform that does not compare levels would accept the wrong adjustment."""
    async with stock_system(
        database, tmp_path, ("no-store-endpoint", *quirks)
    ) as system:
        product = await system.add_product(10)
        order = await sold(system, product)
        system.sender.dispatcher.pause("cancel", now())
        cancel = await asked_to_cancel(system, order)
        if news == "late":
            system.delayed = []
        else:
            system.dropped_topics.add("inventory/level_update")
        cancel_meanwhile(system, lambda: system.state(cancel) == "applied")
        # After the second of the sale; the counting clock is slightly ahead.
        count = await system.submit_count(product, 10, later(now(), seconds=2))
        if quirks:
            await until(
                lambda: system.state(count) in ENDED, "it does not wait for ever"
            )
        else:
            await system.await_state(count, "applied")
            assert "10 wanted; 10 there: nothing to do" in system.reason(count)
        assert system.adjustments(count) == []
        assert await system.stock(product) == 10


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
    async with stock_system(database, tmp_path, ("no-store-endpoint",)) as system:
        product = await system.add_product(10)
        order = await sold(system, product)
        system.sender.dispatcher.pause("cancel", now())
        cancel = await asked_to_cancel(system, order)
        system.dropped_topics.add("inventory/level_update")
        cancel_meanwhile(system, lambda: is_cancelled(system))
        count = await system.submit_count(product, 10, later(now(), seconds=2))
        await until(
            lambda: system.reason(count) or system.state(count) in ENDED, "decided"
        )
        assert system.reason(count) == f"cancel command {cancel[:8]} is in progress"
        may_answer.set()
        await system.await_state(count, "applied")
        assert system.adjustments(count) == []
        assert await system.stock(product) == 10


@pytest.mark.parametrize("restock", [True, False])
async def test_a_manual_cancellation_during_a_level_read_is_waited_for(
    restock: bool, database: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our planned cancellation will not restock anything; the level is outdated."""
    async with stock_system(database, tmp_path, ("no-store-endpoint",)) as system:
        product = await system.add_product(10)
        order = await sold(system, product)
        system.sender.dispatcher.pause("cancel", now())
        await asked_to_cancel(system, order)
        system.dropped_topics.add("inventory/level_update")
        real, todo = StockReader.read_levels, [restock]

        async def read_levels(self: StockReader, product_id: str) -> ProductStock:
            seen = await real(self, product_id)
            if todo:
                body = {"restock": todo.pop()}
                reply = await system.shop.v1("POST", f"/orders/{order}/cancel", body)
                assert reply.status == 200, reply.body
                await until(lambda: is_cancelled(system), "the order's news came")
            return seen

        monkeypatch.setattr(StockReader, "read_levels", read_levels)
        count = await system.submit_count(product, 10, later(now(), seconds=2))
        await system.await_state(count, "applied")
        assert system.adjustments(count) == ([] if restock else [("applied", 3)])
        assert await system.stock(product) == 10


def later(moment: str, seconds: float) -> str:
    return to_text(from_text(moment) + timedelta(seconds=seconds))


async def lost_cancellation(
    system: StockSystem, product: Any, lose: Callable[[str], None], order: str = ""
) -> tuple[str, str]:
    """Return an order and its cancellation, which was uncertain and is parked."""
    order = order or await sold(system, product)
    lose("request")
    cancel = await asked_to_cancel(system, order)
    await until(lambda: system.state(cancel) == "parked", "it needs an operator")
    return order, cancel


async def sold(system: StockSystem, product: Any) -> str:
    order = await system.sell(product, 3)
    await until(
        lambda: is_known(system, 7) and rows_of(system.place, "orders"), "it is known"
    )
    return order


async def asked_to_cancel(system: StockSystem, order: str) -> str:
    key = f"cancel {order}"
    await system.submit(Cancellation(key=key, order=order, restock=True))
    return system.command_of(key)


async def cancelled(system: StockSystem, product: Any, order: str) -> None:
    """Cancel the order on the platform, as the late request or a merchant does."""
    reply = await system.shop.v1("POST", f"/orders/{order}/cancel", {"restock": True})
    assert reply.status == 200, reply.body
    await until(
        lambda: is_cancelled(system, order) and is_known(system, 10), "it is known"
    )


def is_cancelled(system: StockSystem, order: str = "") -> bool:
    """Return True if the mirror shows the order (or any order) as cancelled."""
    wanted = {"id": order} if order else {}
    return any(values_of(system.place, "orders", "cancelled_at", **wanted))


def is_known(system: StockSystem, stock: int) -> bool:
    return stock in values_of(system.place, "inventory_levels", "stock")


async def goods_come(system: StockSystem, product: Any, units: int) -> None:
    variant = product["variants"][0]["id"]
    body = {"productId": product["id"], "variantId": variant, "adjustment": units}
    body["reason"] = "RESTOCK"
    before = await system.stock(product)
    reply = await system.shop.v1("POST", "/inventory/adjust", body)
    assert reply.status == 200, reply.body
    shown = {"variant_id": variant, "stock": before + units}
    await until(
        lambda: rows_of(system.place, "inventory_levels", **shown), "it is known"
    )
