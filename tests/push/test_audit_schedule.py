"""The stock history is audited at a start and when a job runs, and at no other time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.push.history_audit import CLOCK_SECONDS
from scenes import payloads
from scenes.pushing import working_with_audit
from scenes.stock_history import HISTORY, history, move
from scenes.waiting import until

if TYPE_CHECKING:
    from scenes.pushing import Scene


async def test_the_passing_of_time_starts_no_audit(stage: Scene) -> None:
    """Between two audits the auditor only checks whether the clock was set back."""
    door = stage.dispatcher.switch
    async with working_with_audit(stage):
        await until(lambda: not door.reasons(), "the fence is down")
        read = len(stage.server.of("GET", HISTORY))
        for _ in range(3):
            await stage.clock.await_sleeper(CLOCK_SECONDS)
            await stage.pass_time(CLOCK_SECONDS)
            await stage.run_pending()
        assert len(stage.server.of("GET", HISTORY)) == read


@pytest.mark.parametrize(
    "dated",
    ["2027-03-01T12:00:00.000Z", "0001-01-01T00:00:00.000Z"],
    ids=["a year ahead", "the zero time of a program"],
)
async def test_a_row_with_a_stray_time_hides_nothing_behind_it(
    dated: str, stage: Scene
) -> None:
    stray = move(9, "0", note=None, createdAt=dated)
    command = await stage.plan("adjust", "prod_1")
    async with working_with_audit(stage):
        await stage.await_state(command, "applied")
        for landings in ([], [move(2, command)]):
            shown = sorted(
                [stray, *landings, move(1, command)],
                key=lambda row: str(row["createdAt"]),
                reverse=True,
            )
            stage.platform.respond(HISTORY, history(*shown))
            stage.reports.clear()
            stage.auditor.wake()
            await until(lambda: stage.reports, "an audit")
    assert stage.logged("command.doubled") != []
    assert await stage.store.kv.get("audited:main") == payloads.instant(2)


async def test_a_history_of_zero_times_is_read_again_and_again(stage: Scene) -> None:
    row = move(1, "0", note=None, createdAt="0001-01-01T00:00:00Z")
    stage.platform.respond(HISTORY, history(row))
    for _ in range(2):
        await stage.auditor.audit_now(starting=True)
