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
"""A platform that takes the late step whatever there is by then."""


@pytest.fixture
def land(monkeypatch: pytest.MonkeyPatch) -> Land:
    """Let the first adjustment get lost; return what makes it land."""
    real = Transport.send
    first: list[Callable[[], Awaitable[object]]] = []

    async def send(self: Transport, path: str, body: bytes, *a: Any, **how: Any) -> Any:
        if first or path != "/inventory/adjust":
            return await real(self, path, body, *a, **how)
        first.append(lambda: real(self, path, body, "another key", room_taken=True))
        raise OutcomeUnknown("the request was lost")

    async def land_now() -> None:
        await first[0]()

    monkeypatch.setattr(Transport, "send", send)
    return land_now


async def given_up(at: StockSystem, lamp: Any) -> tuple[str, str]:
    """Return a count of 15 and its step of +5, which is to be sent again."""
    target = await at.submit_count(lamp, 15)
    await until(lambda: at.adjustments(target) == [("uncertain", 5)], "it is in doubt")
    at.pause_adjustments()
    await until(lambda: at.adjustments(target) == [("planned", 5)], "it is not found")
    return target, step_of(at, target)


def step_of(at: StockSystem, target: str) -> str:
    counted = command(at.place, target).target_of
    assert counted is not None
    return str(counted.correction)


async def superseded(at: StockSystem, lamp: Any) -> tuple[str, str]:
    """A newer count takes the place of the one whose step was lost."""
    _, step = await given_up(at, lamp)
    newer = await at.submit_count(lamp, 12)
    assert at.state(step) == "superseded"
    at.resume_adjustments()
    return newer, step


async def parked(at: StockSystem, lamp: Any) -> tuple[str, str]:
    _, step = await given_up(at, lamp)
    await at.decide(step, "park")
    at.resume_adjustments()
    return await at.submit_count(lamp, 12), step


async def counted_anew(at: StockSystem, lamp: Any) -> tuple[str, str]:
    """The same count is let go on by a person, with a step of its own."""
    target, step = await given_up(at, lamp)
    await at.decide(step, "park")
    await at.decide(step, "drop")
    at.resume_adjustments()
    await at.decide(target, "resend")
    return target, step


async def contained(at: StockSystem, lamp: Any) -> tuple[str, str]:
    """The count knows of what was asked for, whether or not the platform does."""
    asked = await at.submit_adjustment(lamp, 5)
    await until(lambda: at.state(asked) == "uncertain", "it is in doubt")
    await at.decide(asked, "park")
    return await at.submit_count(lamp, 12), asked


@pytest.mark.parametrize("play", [superseded, parked, counted_anew, contained])
async def test_an_effect_after_a_count_is_reported_once_and_kept(
    play: Play, database: Place, tmp_path: Path, land: Land
) -> None:
    async with stock_system(database, tmp_path, QUIRKS) as at:
        lamp = await at.add_product(10)
        count, step = await play(at, lamp)
        await at.await_state(count, "applied")
        wanted = await at.stock(lamp)
        await land()
        assert await at.stock(lamp) == wanted + 5
        for _ in range(3):
            await at.sender.auditor.audit_now()
        await is_told(at, step, count)


async def is_told(at: StockSystem, step: str, count: str) -> None:
    assert at.state(step) == "applied"
    (told,) = [line for line in at.log if line.startswith("command.doubled")]
    effect = at.column("effect_id", step)
    assert (step in told, effect in told) == (True, True)
    assert json.loads(at.column("evidence", step))["doubled"] == [effect]
    assert f"(target {count[:8]}), which did not include it" in at.reason(step)
    (alerted,) = (await at.store.alert_conditions.current([])).doubled
    assert (alerted.id, alerted.detail) == (step, effect)


async def test_an_effect_that_an_operator_rechecked_is_reported_too(
    database: Place, tmp_path: Path, land: Land
) -> None:
    async with stock_system(database, tmp_path, QUIRKS) as at:
        lamp = await at.add_product(10)
        count, step = await parked(at, lamp)
        await at.await_state(count, "applied")
        await land()
        await at.decide(step, "settle")
        at.sender.resolver.wake()
        await until(lambda: at.state(step) == "applied", "the history was read")
        await at.sender.auditor.audit_now()
        await is_told(at, step, count)


async def test_an_effect_that_a_count_read_as_goods_is_reported(
    database: Place, tmp_path: Path, land: Land
) -> None:
    """So long after it was sent nobody asks whether a move is that of a step."""
    async with stock_system(database, tmp_path, QUIRKS) as at:
        lamp = await at.add_product(10)
        _, step = await given_up(at, lamp)
        started_at = from_text(value_of(at.place, "attempts", "started_at"))
        long_ago = to_text(started_at - timedelta(minutes=61))
        overwrite(at.place, "attempts", {"started_at": long_ago})
        counted_at = now()
        await asyncio.sleep(0.01)
        await land()
        at.resume_adjustments()
        count = await at.submit_count(lamp, 12, counted_at)
        await at.await_state(count, "applied")
        assert "5 came since" in at.reason(count)
        await at.sender.auditor.audit_now()
        await is_told(at, step, count)


async def test_an_effect_that_the_count_included_is_not_too_much(
    database: Place, tmp_path: Path, land: Land
) -> None:
    async with stock_system(database, tmp_path, QUIRKS) as at:
        lamp = await at.add_product(10)
        _, step = await given_up(at, lamp)
        counted_at = now()
        await land()
        await at.sender.auditor.audit_now()
        assert at.state(step) == "applied"
        count = await at.submit_count(lamp, 12, counted_at)
        at.resume_adjustments()
        await at.await_state(count, "applied")
        await at.sender.auditor.audit_now()
        assert await at.stock(lamp) == 12
        assert not [line for line in at.log if line.startswith("command.doubled")]


async def test_a_count_with_an_unsent_adjustment_includes_the_late_effect(
    database: Place, tmp_path: Path, land: Land
) -> None:
    async with stock_system(database, tmp_path, QUIRKS) as at:
        lamp = await at.add_product(10)
        await given_up(at, lamp)
        count = await at.submit_count(lamp, 12)
        await until(lambda: at.adjustments(count), "it has a step")
        await land()
        await at.sender.auditor.audit_now()
        at.resume_adjustments()
        await at.await_state(count, "applied")
        assert at.adjustments(count) == [("superseded", 2), ("applied", -3)]
        assert await at.stock(lamp) == 12
        await at.sender.auditor.audit_now()
        assert not [line for line in at.log if line.startswith("command.doubled")]


async def test_a_count_being_read_for_waits_for_the_change_notification(
    database: Place, tmp_path: Path, land: Land, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The audit knows of it, and the level that was read before is the mirror's."""
    async with stock_system(database, tmp_path, QUIRKS) as at:
        lamp = await at.add_product(10)
        _, step = await given_up(at, lamp)
        sent_at = from_text(
            value_of(at.place, COMMANDS_AND_TARGETS, "sent_at", id=step)
        )
        long_ago = to_text(sent_at - timedelta(minutes=10))
        overwrite(at.place, "commands", {"sent_at": long_ago}, id=step)
        at.dropped_topics.add("inventory/level_update")
        real, todo = StockReader.read_levels, [land]

        async def read_levels(self: StockReader, product_id: str) -> ProductStock:
            seen = await real(self, product_id)
            if todo:
                await todo.pop()()
                await at.sender.auditor.audit_now()
                assert at.state(step) == "applied"
            return seen

        monkeypatch.setattr(StockReader, "read_levels", read_levels)
        at.resume_adjustments()
        count = await at.submit_count(lamp, 12)
        await at.await_state(count, "applied")
        assert at.adjustments(count) == [("applied", -3)]
        assert await at.stock(lamp) == 12


async def test_a_late_effect_is_not_reported_while_the_adjustment_is_under_way(
    database: Place, tmp_path: Path, land: Land, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The platform may refuse that step, and the count is reckoned with it then."""
    async with stock_system(database, tmp_path, QUIRKS) as at:
        lamp = await at.add_product(10)
        _, step = await given_up(at, lamp)
        may_answer, real = asyncio.Event(), Transport.send

        async def send(self: Transport, *a: Any, **how: Any) -> Any:
            answer = await real(self, *a, **how)
            await may_answer.wait()
            return answer

        monkeypatch.setattr(Transport, "send", send)
        count = await at.submit_count(lamp, 12)
        at.resume_adjustments()
        await until(
            lambda: at.adjustments(count) == [("sending", 2)], "it is under way"
        )
        await land()
        await at.sender.auditor.audit_now()
        assert at.state(step) == "applied"
        assert not [line for line in at.log if line.startswith("command.doubled")]
        may_answer.set()
        await at.await_state(count, "applied")
        await at.sender.auditor.audit_now()
        await is_told(at, step, count)


async def test_an_effect_while_the_adjustment_is_under_way_is_not_sent_again(
    database: Place, tmp_path: Path, land: Land, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step is refused, as the stock is another one: its lane is free at once."""
    async with stock_system(database, tmp_path, ("no-idempotency",)) as at:
        lamp = await at.add_product(10)
        asked = await at.submit_adjustment(lamp, 5)
        await until(lambda: at.state(asked) == "uncertain", "it is in doubt")
        await at.decide(asked, "park")
        may_leave, real = asyncio.Event(), Transport.send

        async def send(self: Transport, *a: Any, **how: Any) -> Any:
            await may_leave.wait()
            return await real(self, *a, **how)

        monkeypatch.setattr(Transport, "send", send)
        count = await at.submit_count(lamp, 12)
        await until(
            lambda: at.adjustments(count) == [("sending", 2)], "it is under way"
        )
        await at.decide(asked, "resend")
        await land()
        await at.sender.auditor.audit_now()
        may_leave.set()
        await at.await_state(count, "applied")
        await at.sender.auditor.audit_now()
        assert (at.state(asked), at.column("attempts", asked)) == ("applied", 1)
        assert at.adjustments(count) == [("superseded", 2), ("applied", -3)]
        assert await at.stock(lamp) == 12
        assert not [line for line in at.log if line.startswith("command.doubled")]
