"""Random faults of three daemons and three database servers lose and double nothing."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import SystemClock
from faults.cluster_events import Torture, chosen
from faults.cluster_floor import Floor, all_at_work, close
from faults.trials import SEED, chances, tell
from scenes.cluster import cluster

if TYPE_CHECKING:
    from pathlib import Path

    from faults.cluster_floor import Ledger
    from scenes.cluster import Cluster

EVENTS = int(os.environ.get("EVENTS", "30"))
STORES = int(os.environ.get("STORES", "3"))
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
"""The platform's faults during the run, and the ones that remain after it."""


async def tortured(
    folder: Path, daemons: int, stores: int, events: list[str], seed: int = SEED
) -> tuple[Torture, list[Ledger]]:
    """Let the back offices work during the faults; return both, with the ledgers."""
    async with cluster(folder, daemons, CLOCK, stores=stores) as running:
        floors = [
            Floor(running, each, chances(seed + number), CLOCK)
            for number, each in enumerate(running.stores)
        ]
        torture = Torture(running, floors, chances(seed))
        async with all_at_work(floors):
            # They read the articles first, for which a fault would end the test.
            arm(running, seed)
            await running.until_whole()
            await torture.run(events)
        disarm(running)
        return torture, await close(floors, torture.losses)


def arm(running: Cluster, seed: int) -> None:
    """Set the platform's faults for each store."""
    for number, store in enumerate(running.stores):
        faults = {"seed": seed + number, **FAULTS}
        path = f"/stores/{store.access.subdomain}/faults"
        assert running.platform.control("PUT", path, faults).status == 200


def disarm(running: Cluster) -> None:
    for store in running.stores:
        path = f"/stores/{store.access.subdomain}/faults"
        assert running.platform.control("DELETE", path).status < 300


def show(
    capsys: pytest.CaptureFixture[str], torture: Torture, ledgers: list[Ledger]
) -> list[str]:
    """Report the results; return all errors."""
    events = sum(torture.figures.done.values())
    found = [fault for ledger in ledgers for fault in ledger.faults()]
    found += [f"refused: {each}" for each in torture.refused]
    said = "".join(f"\n  {ledger}" for ledger in ledgers)
    tell(capsys, len(found), events, said)
    with capsys.disabled():
        sys.stdout.write(f"\n{torture.table()}\n")
    return found


@pytest.mark.faults
@pytest.mark.timeout(900)
async def test_two_daemons_through_failovers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The short form: webhooks and commands continue after two lost primaries."""
    events = ["primary lost", "primary lost while a walsender is stalled"]
    torture, ledgers = await tortured(tmp_path, 2, 2, events)
    assert show(capsys, torture, ledgers) == []


@pytest.mark.faults
@pytest.mark.long
@pytest.mark.timeout(4 * 3_600)
async def test_random_events_lose_and_double_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = chosen(EVENTS, chances())
    torture, ledgers = await tortured(tmp_path, 3, STORES, events)
    found = show(capsys, torture, ledgers)
    assert found == [], "\n".join([f"seed {SEED}", *found])
