"""F2 and F3: kill -9 repeatedly at any moment, under a steady load."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from faults.killing import DENSE, READINGS, STEADY, Outcome, play_with_kills
from faults.trials import SEED, tell
from scenes.loop_guard import on_purpose

if TYPE_CHECKING:
    from faults.killing import Siege

KILLS_A_ROUND = 20
STEADILY = 200
DENSELY = int(os.environ.get("KILLS", "3000"))
"""The number for a release; takes an hour and a half on two idle cores."""
SIDE_BY_SIDE = 2
CONCURRENCY = 8
"""The most commands in flight, which a kill makes uncertain."""


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[round((len(values) - 1) * share)]


def words(outcomes: list[Outcome]) -> str:
    """Return a text about the load, and the time to continue after a kill."""
    taken = [one for each in outcomes for one in each.lives.recovery_seconds]
    seconds = sum(each.lives.seconds for each in outcomes)
    webhooks = sum(each.webhooks for each in outcomes) / seconds
    effects = sum(each.result.report.commands for each in outcomes) / seconds
    parked = sum(each.parked for each in outcomes)
    return (
        f"kills; ready again in {percentile(taken, 0.5):.1f} s, p99"
        f" {percentile(taken, 0.99):.1f} s; {webhooks:.0f} webhooks/s,"
        f" {effects:.0f} effects/s, {parked} parked"
    )


async def play(
    kills: int, siege: Siege, side_by_side: int, caplog: pytest.LogCaptureFixture
) -> list[Outcome]:
    """Return the result of each round. Failed rounds keep their folder."""
    # every poll of readiness would be logged: millions of lines
    for chatty in ("httpcore", "httpx"):
        caplog.set_level("WARNING", chatty)
    # not tmp_path, which is deleted after a few sessions, because failures are rare
    folder = Path(tempfile.mkdtemp(prefix="backhaul-kills-"))
    outcomes: list[Outcome] = []
    room = asyncio.Semaphore(side_by_side)

    async def one(number: int) -> None:
        few, seed = min(KILLS_A_ROUND, kills - number), SEED + number
        quirks = READINGS[number // KILLS_A_ROUND % len(READINGS)]
        async with room:
            outcome = await play_with_kills(
                folder / str(seed), "daemon", few, seed, siege, quirks
            )
        outcomes.append(outcome)
        if is_sound(outcome):
            with on_purpose():
                shutil.rmtree(outcome.folder)

    async with asyncio.TaskGroup() as group:
        for number in range(0, kills, KILLS_A_ROUND):
            group.create_task(one(number))
    if all(map(is_sound, outcomes)):
        with on_purpose():
            shutil.rmtree(folder)
    return outcomes


def is_sound(outcome: Outcome) -> bool:
    return outcome.passes and outcome.parked <= CONCURRENCY * outcome.kills


def judge(
    outcomes: list[Outcome], kills: int, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = [outcome for outcome in outcomes if not is_sound(outcome)]
    tell(capsys, len(failed), kills, words(outcomes))
    assert failed == [], "\n".join(map(str, failed))


@pytest.mark.faults
@pytest.mark.long
@pytest.mark.timeout(600 + 15 * STEADILY)
async def test_no_kill_of_many_loses_or_doubles(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    outcomes = await play(STEADILY, STEADY, 1, caplog)
    judge(outcomes, STEADILY, capsys)


@pytest.mark.faults
@pytest.mark.long
@pytest.mark.timeout(600 + 10 * DENSELY)
async def test_no_kill_that_a_release_is_worth_loses_or_doubles(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    outcomes = await play(DENSELY, DENSE, SIDE_BY_SIDE, caplog)
    judge(outcomes, DENSELY, capsys)
