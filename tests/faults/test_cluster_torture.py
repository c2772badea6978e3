"""Three daemons on three servers, to which everything happens while people work."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import SystemClock
from faults.cluster_events import Torture, chosen
from faults.cluster_floor import Floor, close
from faults.trials import SEED, chances, tell
from scenes.cluster import cluster

if TYPE_CHECKING:
    from pathlib import Path

    from faults.cluster_floor import Ledger

EVENTS = int(os.environ.get("EVENTS", "30"))
CLOCK = SystemClock()
FAULTS = {
    "http": [
        {"fault": "drop-after-commit", "method": "POST", "probability": 0.05},
        {"fault": "5xx", "method": "POST", "probability": 0.02},
        {"fault": "5xx", "method": "GET", "probability": 0.02},
        {"fault": "latency", "method": "*", "probability": 0.03, "seconds": 0.7},
        {"fault": "rate429", "method": "POST", "probability": 0.02},
    ],
    "webhooks": [
        {"fault": "duplicate", "probability": 0.1},
        {"fault": "reorder", "probability": 0.1},
        {"fault": "delay", "probability": 0.1, "seconds": 1.0},
    ],
}
"""What the platform does wrong all the while, and what it does not take back."""


async def tortured(
    folder: Path, daemons: int, events: list[str], seed: int = SEED
) -> tuple[Torture, Ledger]:
    """Let people work while this happens; return it with the books at the end."""
    async with cluster(folder, daemons, CLOCK) as running:
        floor = Floor(running, chances(seed), CLOCK)
        torture = Torture(running, chances(seed))
        armed = running.platform.control
        assert (
            armed("PUT", "/stores/demo/faults", {"seed": seed, **FAULTS}).status == 200
        )
        async with floor.at_work():
            await running.until_whole()
            await torture.run(events)
        assert armed("DELETE", "/stores/demo/faults").status < 300
        return torture, await close(floor)


def show(capsys: pytest.CaptureFixture[str], torture: Torture, ledger: Ledger) -> None:
    events = sum(torture.done.values())
    tell(capsys, len(ledger.faults()) + len(torture.refused), events, str(ledger))
    with capsys.disabled():
        sys.stdout.write(f"\n{torture.table()}\n")


@pytest.mark.faults
@pytest.mark.timeout(900)
async def test_two_daemons_through_failovers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The short form: webhooks and commands flow on through two lost primaries."""
    events = ["primary lost", "primary lost while a walsender is stalled"]
    torture, ledger = await tortured(tmp_path, 2, events)
    show(capsys, torture, ledger)
    assert ledger.faults() == [], "\n".join(ledger.faults())
    assert torture.refused == []


@pytest.mark.faults
@pytest.mark.long
@pytest.mark.timeout(4 * 3_600)
async def test_random_events_lose_and_double_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = chosen(EVENTS, chances())
    torture, ledger = await tortured(tmp_path, 3, events)
    show(capsys, torture, ledger)
    assert ledger.faults() == [], "\n".join([f"seed {SEED}", *ledger.faults()])
    assert torture.refused == [], f"seed {SEED}"
