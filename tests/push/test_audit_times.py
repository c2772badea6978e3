"""When the platform's history is read: at a start, and whenever a job says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.push.auditing import CLOCK_SECONDS
from support.push_history import HISTORY
from support.push_scene import audited
from support.waiting import until

if TYPE_CHECKING:
    from support.push_scene import Scene


async def test_nothing_is_read_because_time_passes(stage: Scene) -> None:
    """Between two audits it is only seen whether the clock went back."""
    door = stage.dispatcher.door
    async with audited(stage):
        await until(lambda: not door.reasons(), "the fence is down")
        read = len(stage.server.of("GET", HISTORY))
        for _ in range(3):
            await stage.clock.asleep(CLOCK_SECONDS)
            await stage.pass_time(CLOCK_SECONDS)
            await stage.quiet()
        assert len(stage.server.of("GET", HISTORY)) == read
