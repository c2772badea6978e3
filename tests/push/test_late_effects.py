"""An adjustment takes effect late, after a stock count was applied without it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from backhaul.core.clock import from_text, to_text
from backhaul.platform.transport import OutcomeUnknown, Transport
from backhaul.push.stock_targets import StockReader
from scenes.damaged_rows import overwrite
from scenes.stock_counts import StockSystem, now, stock_system
from scenes.stored import COMMANDS_AND_TARGETS, command, value_of
from scenes.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from backhaul.core.stock import ProductStock
    from backhaul.store import Place

Land: TypeAlias = Callable[[], Awaitable[None]]
Play: TypeAlias = "Callable[[StockSystem, Any], Awaitable[tuple[str, str]]]"
QUIRKS = ("no-idempotency", "no-store-endpoint")
"""A platform that accepts a late adjustment with any stock."""


@pytest.fixture
def apply_late(monkeypatch: pytest.MonkeyPatch) -> Land:
    """Lose the first adjustment; return a function that delivers it."""
    real = Transport.send
    first: list[Callable[[], Awaitable[object]]] = []

    async def send(self: Transport, path: str, body: bytes, *a: Any, **how: Any) -> Any:
        if first or path != "/inventory/adjust":
            return await real(self, path, body, *a, **how)
        first.append(lambda: real(self, path, body, "another key", room_taken=True))
        raise OutcomeUnknown("the request was lost")

    async def apply_now() -> None:
        await first[0]()

    monkeypatch.setattr(Transport, "send", send)
    return apply_now


async def lost_adjustment(system: StockSystem, product: Any) -> tuple[str, str]:
    """Return a count of 15 and its adjustment of +5, which waits for its resend."""
    target = await system.submit_count(product, 15)
    await until(
        lambda: system.adjustments(target) == [("uncertain", 5)], "it is uncertain"
    )
    system.pause_adjustments()
    await until(
        lambda: system.adjustments(target) == [("planned", 5)], "it is not found"
    )
    return target, adjustment_of(system, target)


def adjustment_of(system: StockSystem, target: str) -> str:
    counted = command(system.place, target).target_of
    assert counted is not None
    return str(counted.correction)


async def superseded(system: StockSystem, product: Any) -> tuple[str, str]:
    """Supersede the count whose adjustment was lost by a newer count."""
    _, adjustment = await lost_adjustment(system, product)
    newer = await system.submit_count(product, 12)
    assert system.state(adjustment) == "superseded"
    system.resume_adjustments()
    return newer, adjustment


async def parked(system: StockSystem, product: Any) -> tuple[str, str]:
    _, adjustment = await lost_adjustment(system, product)
    await system.decide(adjustment, "park")
    system.resume_adjustments()
    return await system.submit_count(product, 12), adjustment


async def recounted(system: StockSystem, product: Any) -> tuple[str, str]:
    """Let an operator resend the same count, which gets a new adjustment."""
    target, adjustment = await lost_adjustment(system, product)
    await system.decide(adjustment, "park")
    await system.decide(adjustment, "discard")
    system.resume_adjustments()
    await system.decide(target, "resend")
    return target, adjustment


async def contained(system: StockSystem, product: Any) -> tuple[str, str]:
    """Submit a count that includes an uncertain adjustment."""
    asked = await system.submit_adjustment(product, 5)
    await until(lambda: system.state(asked) == "uncertain", "it is uncertain")
    await system.decide(asked, "park")
    return await system.submit_count(product, 12), asked


@pytest.mark.parametrize("play", [superseded, parked, recounted, contained])
async def test_an_effect_after_a_count_is_reported_once_and_kept(
    play: Play, database: Place, tmp_path: Path, apply_late: Land
) -> None:
    async with stock_system(database, tmp_path, QUIRKS) as system:
        product = await system.add_product(10)
        count, adjustment = await play(system, product)
        await system.await_state(count, "applied")
        wanted = await system.stock(product)
        await apply_late()
        assert await system.stock(product) == wanted + 5
        for _ in range(3):
            await system.sender.auditor.audit_now()
        await check_reported(system, adjustment, count)


async def check_reported(system: StockSystem, adjustment: str, count: str) -> None:
    assert system.state(adjustment) == "applied"
    (text,) = [line for line in system.log if line.startswith("command.doubled")]
    effect = system.column("effect_id", adjustment)
    assert (adjustment in text, effect in text) == (True, True)
    assert json.loads(system.column("evidence", adjustment))["doubled"] == [effect]
    assert f"(target {count[:8]}), which did not include it" in system.reason(
        adjustment
    )
    (alerted,) = (await system.store.alert_conditions.current([])).doubled
    assert (alerted.id, alerted.detail) == (adjustment, effect)


async def test_an_effect_that_an_operator_rechecked_is_reported_too(
    database: Place, tmp_path: Path, apply_late: Land
) -> None:
    async with stock_system(database, tmp_path, QUIRKS) as system:
        product = await system.add_product(10)
        count, adjustment = await parked(system, product)
        await system.await_state(count, "applied")
        await apply_late()
        await system.decide(adjustment, "resolve")
        system.sender.resolver.wake()
        await until(
            lambda: system.state(adjustment) == "applied", "the history was read"
        )
        await system.sender.auditor.audit_now()
        await check_reported(system, adjustment, count)


async def test_an_effect_that_a_count_read_as_goods_is_reported(
    database: Place, tmp_path: Path, apply_late: Land
) -> None:
    """So late, a movement is not matched to an adjustment any more."""
    async with stock_system(database, tmp_path, QUIRKS) as system:
        product = await system.add_product(10)
        _, adjustment = await lost_adjustment(system, product)
        started_at = from_text(value_of(system.place, "attempts", "started_at"))
        long_ago = to_text(started_at - timedelta(minutes=61))
        overwrite(system.place, "attempts", {"started_at": long_ago})
        counted_at = now()
        await asyncio.sleep(0.01)
        await apply_late()
        system.resume_adjustments()
        count = await system.submit_count(product, 12, counted_at)
        await system.await_state(count, "applied")
        assert "5 came since" in system.reason(count)
        await system.sender.auditor.audit_now()
        await check_reported(system, adjustment, count)


async def test_an_effect_that_the_count_included_is_not_too_much(
    database: Place, tmp_path: Path, apply_late: Land
) -> None:
    async with stock_system(database, tmp_path, QUIRKS) as system:
        product = await system.add_product(10)
        _, adjustment = await lost_adjustment(system, product)
        counted_at = now()
        await apply_late()
        await system.sender.auditor.audit_now()
        assert system.state(adjustment) == "applied"
        count = await system.submit_count(product, 12, counted_at)
        system.resume_adjustments()
        await system.await_state(count, "applied")
        await system.sender.auditor.audit_now()
        assert await system.stock(product) == 12
        assert not [line for line in system.log if line.startswith("command.doubled")]


async def test_a_count_with_an_unsent_adjustment_includes_the_late_effect(
    database: Place, tmp_path: Path, apply_late: Land
) -> None:
    async with stock_system(database, tmp_path, QUIRKS) as system:
        product = await system.add_product(10)
        await lost_adjustment(system, product)
        count = await system.submit_count(product, 12)
        await until(lambda: system.adjustments(count), "it has an adjustment")
        await apply_late()
        await system.sender.auditor.audit_now()
        system.resume_adjustments()
        await system.await_state(count, "applied")
        assert system.adjustments(count) == [("superseded", 2), ("applied", -3)]
        assert await system.stock(product) == 12
        await system.sender.auditor.audit_now()
        assert not [line for line in system.log if line.startswith("command.doubled")]


async def test_a_count_being_read_for_waits_for_the_change_notification(
    database: Place, tmp_path: Path, apply_late: Land, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The audit saw the effect, but the mirror still has the level from before."""
    async with stock_system(database, tmp_path, QUIRKS) as system:
        product = await system.add_product(10)
        _, adjustment = await lost_adjustment(system, product)
        sent_at = from_text(
            value_of(system.place, COMMANDS_AND_TARGETS, "sent_at", id=adjustment)
        )
        long_ago = to_text(sent_at - timedelta(minutes=10))
        overwrite(system.place, "commands", {"sent_at": long_ago}, id=adjustment)
        system.dropped_topics.add("inventory/level_update")
        real, todo = StockReader.read_levels, [apply_late]

        async def read_levels(self: StockReader, product_id: str) -> ProductStock:
            seen = await real(self, product_id)
            if todo:
                await todo.pop()()
                await system.sender.auditor.audit_now()
                assert system.state(adjustment) == "applied"
            return seen

        monkeypatch.setattr(StockReader, "read_levels", read_levels)
        system.resume_adjustments()
        count = await system.submit_count(product, 12)
        await system.await_state(count, "applied")
        assert system.adjustments(count) == [("applied", -3)]
        assert await system.stock(product) == 12


async def test_a_late_effect_is_not_reported_while_the_adjustment_is_under_way(
    database: Place, tmp_path: Path, apply_late: Land, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the platform refuses that adjustment, the count is recomputed with it."""
    async with stock_system(database, tmp_path, QUIRKS) as system:
        product = await system.add_product(10)
        _, adjustment = await lost_adjustment(system, product)
        may_answer, real = asyncio.Event(), Transport.send

        async def send(self: Transport, *a: Any, **how: Any) -> Any:
            answer = await real(self, *a, **how)
            await may_answer.wait()
            return answer

        monkeypatch.setattr(Transport, "send", send)
        count = await system.submit_count(product, 12)
        system.resume_adjustments()
        await until(
            lambda: system.adjustments(count) == [("sending", 2)], "it is under way"
        )
        await apply_late()
        await system.sender.auditor.audit_now()
        assert system.state(adjustment) == "applied"
        assert not [line for line in system.log if line.startswith("command.doubled")]
        may_answer.set()
        await system.await_state(count, "applied")
        await system.sender.auditor.audit_now()
        await check_reported(system, adjustment, count)


async def test_an_effect_while_the_adjustment_is_under_way_is_not_sent_again(
    database: Place, tmp_path: Path, apply_late: Land, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The platform refuses the adjustment, because the stock changed."""
    async with stock_system(database, tmp_path, ("no-idempotency",)) as system:
        product = await system.add_product(10)
        asked = await system.submit_adjustment(product, 5)
        await until(lambda: system.state(asked) == "uncertain", "it is uncertain")
        await system.decide(asked, "park")
        may_leave, real = asyncio.Event(), Transport.send

        async def send(self: Transport, *a: Any, **how: Any) -> Any:
            await may_leave.wait()
            return await real(self, *a, **how)

        monkeypatch.setattr(Transport, "send", send)
        count = await system.submit_count(product, 12)
        await until(
            lambda: system.adjustments(count) == [("sending", 2)], "it is under way"
        )
        await system.decide(asked, "resend")
        await apply_late()
        await system.sender.auditor.audit_now()
        may_leave.set()
        await system.await_state(count, "applied")
        await system.sender.auditor.audit_now()
        assert (system.state(asked), system.column("attempts", asked)) == ("applied", 1)
        assert system.adjustments(count) == [("superseded", 2), ("applied", -3)]
        assert await system.stock(product) == 12
        assert not [line for line in system.log if line.startswith("command.doubled")]
