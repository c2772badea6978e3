"""Send windows release only commands that were planned before they opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import to_text
from backhaul.core.lifecycle import KINDS
from backhaul.push.history_audit import CLOCK_SECONDS
from backhaul.push.send_windows import JOBS, SendWindows
from backhaul.settings import Push
from scenes.clock import VirtualClock
from scenes.pushing import Scene, scene, working, working_with_audit
from scenes.scripted_platform import message
from scenes.stock_history import HISTORY, history
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from backhaul.store import Place


@pytest.fixture
async def strict(database: Place) -> AsyncIterator[Scene]:
    async with scene(database, Push(eager=False)) as stage:
        yield stage


async def test_no_command_is_sent_before_its_send_window_opens(strict: Scene) -> None:
    planned = {kind: await strict.plan(kind, f"{kind}_1") for kind in KINDS}
    async with working(strict):
        await strict.pass_time(3_600)
        await strict.await_commands(0)
        for number, kind in enumerate(KINDS, start=1):
            strict.open_window(kind)
            await strict.await_state(planned[kind], "applied")
            await strict.await_commands(number)


async def test_a_command_planned_after_the_opening_waits_for_the_next(
    strict: Scene,
) -> None:
    before = await strict.plan("fulfill", "ord_1")
    async with working(strict):
        strict.open_window("fulfill")
        await strict.await_state(before, "applied")
        await strict.pass_time(1)
        after = await strict.plan("fulfill", "ord_2")
        await strict.pass_time(3_600)
        await strict.await_commands(1)
        strict.open_window("fulfill")
        await strict.await_state(after, "applied")


async def test_retry_does_not_wait_for_the_next_opening(strict: Scene) -> None:
    strict.platform.respond("/orders/ord_1/fulfill", message(429, Retry_After="60"))
    command = await strict.plan("fulfill", "ord_1")
    async with working(strict):
        strict.open_window("fulfill")
        await strict.await_commands(1)
        strict.platform.responses.clear()
        await strict.clock.await_sleeper(60.0)
        await strict.pass_time(61)
        await strict.await_state(command, "applied")


def test_eager_send_windows_are_always_open() -> None:
    clock = VirtualClock()
    gates = SendWindows(True, clock)
    assert list(gates.open_until()) == ["cancel", "fulfill", "adjust"]
    assert all(moment > "9998" for moment in gates.open_until().values())
    gates.open("adjust", to_text(clock.now()))
    assert gates.open_until()["adjust"] > "9998"


async def test_a_send_window_reaches_to_its_last_opening() -> None:
    clock = VirtualClock()
    gates = SendWindows(False, clock)
    assert gates.open_until() == {}
    gates.open("adjust", to_text(clock.now()))
    first = gates.open_until()["adjust"]
    await clock.advance(5)
    gates.open("cancel", to_text(clock.now()))
    gates.open("adjust", to_text(clock.now()))
    assert list(gates.open_until()) == ["cancel", "adjust"]
    assert gates.open_until()["adjust"] == to_text(clock.now()) > first


def test_every_kind_has_its_job() -> None:
    assert sorted(JOBS.values()) == sorted(KINDS)


@pytest.mark.parametrize("eager", [True, False])
def test_a_paused_send_window_releases_commands_of_its_next_opening(
    eager: bool,
) -> None:
    gates = SendWindows(eager, VirtualClock())
    gates.open("adjust", "2026-03-01")
    gates.pause("adjust", "2026-03-02")
    assert "adjust" not in gates.open_until(), "not even a retry leaves"
    gates.open("adjust", "2026-03-03")
    assert gates.open_until()["adjust"] == "2026-03-03"
    gates.pause("adjust", None)
    assert gates.open_until()["adjust"] >= "2026-03-03"


@pytest.mark.parametrize("eager", [True, False])
def test_an_uncertain_command_waits_while_its_job_is_paused_or_disabled(
    eager: bool,
) -> None:
    gates = SendWindows(eager, VirtualClock())
    assert gates.allows_resend("adjust", "2026-03-02")
    gates.pause("adjust", "2026-03-03")
    assert not gates.allows_resend("adjust", "2026-03-02")
    gates.open("adjust", "2026-03-04")
    assert gates.allows_resend("adjust", "2026-03-02")
    assert not gates.allows_resend("adjust", "2026-03-05")
    gates.pause("adjust", None)
    gates.set_enabled("adjust", enabled=False)
    assert gates.allows_resend("adjust", "2026-03-02"), "it was let out"
    assert not gates.allows_resend("adjust", "2026-03-05")
    gates.set_enabled("adjust", enabled=True)
    assert gates.allows_resend("adjust", "2026-03-05")


async def set_back(stage: Scene, seconds: float) -> None:
    """Set the clock back, and wait until the daemon adjusted its times."""
    await until(lambda: not stage.dispatcher.state()["stopped"], "the start is over")
    await stage.run_pending()
    stage.clock.set_back(seconds)
    await stage.pass_time(CLOCK_SECONDS)
    await until(lambda: stage.logged("audit.clock"), "it is noticed")
    await until(lambda: not stage.dispatcher.state()["stopped"], "the fence is down")


async def test_a_clock_set_back_keeps_no_command_behind_its_send_window(
    strict: Scene,
) -> None:
    strict.platform.respond(HISTORY, history())
    command = await strict.plan("fulfill", "ord_1")
    async with working_with_audit(strict):
        await set_back(strict, 86_400)
        strict.open_window("fulfill")
        await strict.await_state(command, "applied")


async def test_a_retry_waits_no_longer_for_a_clock_set_back(stage: Scene) -> None:
    throttled = message(429, Retry_After="200")
    stage.platform.respond(HISTORY, history())
    stage.platform.respond("/orders/ord_1/fulfill", throttled)
    command = await stage.plan("fulfill", "ord_1")
    async with working_with_audit(stage):
        await stage.await_commands(1)
        await until(lambda: stage.state(command) == "planned", "it waits")
        stage.platform.respond("/orders/ord_1/fulfill", message(500))
        stage.clock.set_back(300)
        await stage.pass_time(200)
        await until(lambda: stage.logged("audit.clock"), "it is noticed")
        for _ in range(10):
            await stage.pass_time(1)
            await stage.run_pending()
        assert len(stage.server.commands) > 1


def test_a_pause_from_before_the_clock_went_back_can_be_opened_by_an_operator() -> None:
    gates = SendWindows(eager=True, clock=VirtualClock())
    gates.pause("fulfill", "2026-03-02T12:00:00.000Z")
    gates.open("fulfill", "2026-03-01T12:00:00.000Z")
    assert gates.open_until()["fulfill"] == "2026-03-01T12:00:00.000Z"
    gates.pause("fulfill", "2026-03-01T12:00:01.000Z")
    assert "fulfill" not in gates.open_until()


def test_a_pause_closes_a_window_opened_before_the_clock_went_back() -> None:
    clock = VirtualClock()
    gates = SendWindows(eager=True, clock=clock)
    gates.open("fulfill", "2026-03-02T12:00:00.000Z")
    gates.pause("fulfill", to_text(clock.now()))
    assert "fulfill" not in gates.open_until()
