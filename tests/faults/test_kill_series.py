"""F2 and F3: kill -9 again and again at any moment, under a steady load."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from faults.killing import STEADY, Outcome, play_with_kills
from faults.trials import SEED, tell

KILLS_A_ROUND = 20
SERIES = [int(os.environ["KILLS"])] if "KILLS" in os.environ else [200, 3_000]
"""Some, and as many as a release is worth, which takes four hours: KILLS says how many.
"""
RECOVERY_SECONDS = 5.0
CONCURRENCY = 8
"""Commands that the daemon has under way at most, so that a kill leaves in doubt."""


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[round((len(values) - 1) * share)]


def words(outcomes: list[Outcome]) -> str:
    """Say how much was going on, and how soon it went on after a kill."""
    taken = [one for each in outcomes for one in each.lives.recovery_seconds]
    seconds = sum(each.lives.seconds for each in outcomes)
    webhooks = sum(each.webhooks for each in outcomes) / seconds
    effects = sum(each.result.ledger.commands for each in outcomes) / seconds
    parked = sum(each.parked for each in outcomes)
    return (
        f"kills; ready again in {percentile(taken, 0.5):.1f} s, p99"
        f" {percentile(taken, 0.99):.1f} s; {webhooks:.0f} webhooks/s,"
        f" {effects:.0f} effects/s, {parked} parked"
    )


@pytest.mark.faults
@pytest.mark.timed
@pytest.mark.long
@pytest.mark.timeout(60 + 15 * max(SERIES))
@pytest.mark.parametrize("series", SERIES)
async def test_no_kill_of_many_loses_or_doubles(
    series: int, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    # Every look whether it is ready would be kept: millions of lines.
    for chatty in ("httpcore", "httpx"):
        caplog.set_level("WARNING", chatty)
    # Not tmp_path: that one goes after a few more sessions, and a failure is rare.
    folder = Path(tempfile.mkdtemp(prefix="backhaul-kills-"))
    outcomes: list[Outcome] = []
    for number in range(0, series, KILLS_A_ROUND):
        kills, seed = min(KILLS_A_ROUND, series - number), SEED + number
        outcome = await play_with_kills(
            folder / str(seed), "daemon", kills, seed, STEADY
        )
        outcomes.append(outcome)
        if is_sound(outcome):
            shutil.rmtree(outcome.folder)
    failed = [outcome for outcome in outcomes if not is_sound(outcome)]
    tell(capsys, len(failed), series, words(outcomes))
    assert failed == [], "\n".join(map(str, failed))
    taken = [one for each in outcomes for one in each.lives.recovery_seconds]
    assert percentile(taken, 0.99) < RECOVERY_SECONDS
    shutil.rmtree(folder)


def is_sound(outcome: Outcome) -> bool:
    return outcome.passes and outcome.parked <= CONCURRENCY * outcome.kills
