"""The platform applies a command long after its final check (virtual time)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scenes.pushing import Scene, applied_response, scene, working_with_audit
from scenes.scripted_platform import message
from scenes.stock_history import HISTORY, history, move
from scenes.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from scenes.scripted_platform import Connection, Request

LAST_LOOK = 600
PERIOD = 300
"""The default seconds between two runs of the job `audit`."""
END = 1_500
STEP = 60


@pytest.mark.faults
@pytest.mark.parametrize("delay", [5, 60, 119, 300, 599, 750, 900])
async def test_every_doubled_effect_is_reported_within_a_period(
    delay: int, tmp_path: Path
) -> None:
    """F17: nothing is doubled before the last check; later doublings are reported."""
    async with scene(tmp_path / "b.db") as stage:
        landed_at = await _play(stage, delay)
    doubled = delay > LAST_LOOK
    assert len(stage.server.commands) == (2 if doubled else 1)
    assert len(stage.logged("command.doubled")) == doubled
    if doubled:
        assert landed_at <= delay + PERIOD + STEP


async def _play(stage: Scene, delay: int) -> int:
    """Let the first attempt take effect after `delay`; return the report's time."""
    again: list[bool] = []

    async def taken(request: Request, connection: Connection) -> None:
        again.append(True)
        await connection.send(applied_response(request))

    stage.platform.respond("/inventory/adjust", message(500), taken)
    stage.platform.respond(HISTORY, history())
    command = await stage.plan("adjust", "prod_1")
    second = move(LAST_LOOK, command, adjustmentId="adj_1")
    first = move(delay, command, adjustmentId="adj_late")
    told_at = END
    async with working_with_audit(stage):
        await until(lambda: stage.column("looks", command) == 1, "the first look")
        for seconds in range(STEP, END, STEP):
            shown = [first] if seconds >= delay else []
            shown += [second] if again else []
            shown.sort(key=lambda row: str(row["createdAt"]), reverse=True)
            stage.platform.respond(HISTORY, history(*shown))
            if seconds % PERIOD == 0:
                stage.auditor.wake()
            await stage.pass_time(STEP)
            await stage.run_pending()
            await stage.run_pending()
            if stage.logged("command.doubled"):
                told_at = min(told_at, seconds)
        await stage.await_state(command, "applied")
    return told_at
