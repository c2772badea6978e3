"""A platform that fails is left alone, by what is sent again under its key too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.circuit import FAILURES_TO_OPEN, PROBE_SECONDS
from backhaul.settings import Push
from support.push_scene import scene, working
from support.push_server import message

if TYPE_CHECKING:
    from pathlib import Path

PLANNED = FAILURES_TO_OPEN + 3


async def test_each_probe_lets_one_doubt_try(tmp_path: Path) -> None:
    push = Push(concurrency=PLANNED)
    async with scene(tmp_path / "b.db", push, keyed=True) as stage:
        stage.platform.says("/inventory/adjust", message(500))
        planned = [await stage.plan("adjust", f"prod_{n}") for n in range(PLANNED)]
        async with working(stage):
            for command in planned:
                await stage.reaches(command, "uncertain")
            await stage.quiet()
            assert stage.dispatcher.door.failing
            sent = len(stage.server.commands)
            for number in range(1, 4):
                await stage.clock.asleep(PROBE_SECONDS)
                await stage.pass_time(PROBE_SECONDS)
                await stage.arrive(sent + number)
            stage.platform.said.clear()
            while any(stage.state(command) != "applied" for command in planned):
                await stage.pass_time(PROBE_SECONDS)
                await stage.quiet()
