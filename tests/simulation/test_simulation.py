"""A few seeds of the simulation; `make simulate` runs many, and the planted bugs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulation.bugs import BUGS, Bug

TESTS = Path(__file__).parents[1]


def simulate(**environment: str) -> subprocess.CompletedProcess[str]:
    """Run in a process of its own, as the dead stay in theirs until it ends."""
    return subprocess.run(
        [sys.executable, "-m", "simulation"],
        env=os.environ | {"PYTHONPATH": str(TESTS), "PLANTED": "no"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_nothing_is_lost_or_doubled_in_a_few_worlds() -> None:
    done = simulate(SEEDS="3", WORKERS="1")
    assert done.returncode == 0, done.stdout
    assert "0/3 seeds failed" in done.stdout
    assert "never retrieved" not in done.stderr


def test_a_seed_is_the_same_world_every_time() -> None:
    one, other = simulate(SEED="3"), simulate(SEED="3")
    assert one.stdout.splitlines()[-1].startswith("seed 3: trace ")
    assert one.stdout.splitlines() == other.stdout.splitlines()


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_each_bug_can_be_planted(bug: Bug) -> None:
    source = Path(TESTS.parent, bug.file).read_text()
    assert bug.planted_in(source) != source
