"""kill -9 of either program: nothing is lost, nothing takes effect twice."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from faults.killing import READINGS, play_with_kills

KILLS_PER_RUN = 4
RUNS = 50 if os.environ.get("FAULTS") == "long" else 5
CONCURRENCY = 8
"""The most commands in flight, which a kill makes uncertain."""


@pytest.mark.faults
@pytest.mark.parametrize("victim", ["daemon", "reference"])
@pytest.mark.parametrize("seed", range(1, RUNS + 1))
async def test_after_kills_the_ledger_balances(
    victim: str, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    await check(victim, seed, capsys)


@pytest.mark.faults
@pytest.mark.parametrize("victim", ["daemon", "receiver"])
@pytest.mark.parametrize("seed", range(1, RUNS // 2 + 1))
async def test_after_kills_of_receiver_processes_the_ledger_balances(
    victim: str, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    await check(victim, seed, capsys, receivers=2)


async def check(
    victim: str, seed: int, capsys: pytest.CaptureFixture[str], receivers: int = 0
) -> None:
    """Kill at random moments of one run, and compare both sides."""
    # not tmp_path, which is deleted after a few sessions, because failures are rare
    folder = Path(tempfile.mkdtemp(prefix=f"backhaul-{victim}-{seed}-"))
    try:
        # without idempotency keys shoppers would order twice at a killed store
        quirks = READINGS[seed % len(READINGS)] if victim == "daemon" else ()
        outcome = await play_with_kills(
            folder / "run",
            victim,
            KILLS_PER_RUN,
            seed,
            quirks=quirks,
            receivers=receivers,
        )
    except BaseException as error:
        error.add_note(f"seed {seed}, everything is in {folder}")
        raise
    with capsys.disabled():
        sys.stdout.write(f" {victim}, seed {seed}: {outcome.kills} kills, ")
        sys.stdout.write(f"{outcome.parked} parked ")
    assert outcome.passes, str(outcome)
    assert outcome.parked <= CONCURRENCY * outcome.kills, str(outcome)
    shutil.rmtree(folder)
