"""Scheduled sending: a gate lets out what was planned before it opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import to_text
from backhaul.core.lifecycle import KINDS
from backhaul.push.gates import JOBS, Gates
from backhaul.settings import Push
from support.clock import VirtualClock
from support.push_scene import Scene, scene, working
from support.push_server import message

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def strict(tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(tmp_path / "backhaul.db", Push(eager=False)) as stage:
        yield stage


async def test_nothing_leaves_before_its_gate_opens(strict: Scene) -> None:
    planned = {kind: await strict.plan(kind, f"{kind}_1") for kind in KINDS}
    async with working(strict):
        await strict.pass_time(3_600)
        await strict.arrive(0)
        for number, kind in enumerate(KINDS, start=1):
            strict.open(kind)
            await strict.reaches(planned[kind], "applied")
            await strict.arrive(number)


async def test_what_is_planned_after_the_opening_waits_for_the_next(
    strict: Scene,
) -> None:
    before = await strict.plan("fulfill", "ord_1")
    async with working(strict):
        strict.open("fulfill")
        await strict.reaches(before, "applied")
        await strict.pass_time(1)
        after = await strict.plan("fulfill", "ord_2")
        await strict.pass_time(3_600)
        await strict.arrive(1)
        strict.open("fulfill")
        await strict.reaches(after, "applied")


async def test_retry_does_not_wait_for_the_next_opening(strict: Scene) -> None:
    strict.platform.says("/orders/ord_1/fulfill", message(429, Retry_After="60"))
    command = await strict.plan("fulfill", "ord_1")
    async with working(strict):
        strict.open("fulfill")
        await strict.arrive(1)
        strict.platform.said.clear()
        await strict.clock.asleep(60.0)
        await strict.pass_time(61)
        await strict.reaches(command, "applied")


def test_eager_gates_stand_open_for_all_times() -> None:
    clock = VirtualClock()
    gates = Gates(True, clock)
    assert list(gates.passable()) == ["cancel", "fulfill", "adjust"]
    assert all(moment > "9998" for moment in gates.passable().values())
    gates.open("adjust", to_text(clock.now()))
    assert gates.passable()["adjust"] > "9998"


async def test_gate_is_as_open_as_its_last_opening() -> None:
    clock = VirtualClock()
    gates = Gates(False, clock)
    assert gates.passable() == {}
    gates.open("adjust", to_text(clock.now()))
    first = gates.passable()["adjust"]
    await clock.advance(5)
    gates.open("cancel", to_text(clock.now()))
    gates.open("adjust", to_text(clock.now()))
    assert list(gates.passable()) == ["cancel", "adjust"]
    assert gates.passable()["adjust"] == to_text(clock.now()) > first


def test_every_kind_has_its_job() -> None:
    assert sorted(JOBS.values()) == sorted(KINDS)


@pytest.mark.parametrize("eager", [True, False])
def test_a_paused_gate_lets_out_what_it_is_opened_for(eager: bool) -> None:
    gates = Gates(eager, VirtualClock())
    gates.open("adjust", "2026-03-01")
    gates.pause("adjust", "2026-03-02")
    assert "adjust" not in gates.passable(), "not even a retry leaves"
    gates.open("adjust", "2026-03-03")
    assert gates.passable()["adjust"] == "2026-03-03"
    gates.pause("adjust", None)
    assert gates.passable()["adjust"] >= "2026-03-03"
