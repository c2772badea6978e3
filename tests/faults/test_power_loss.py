"""After a power loss, all acknowledged webhooks and all recorded attempts are there.

SIGKILL does not show this: the system still has what a process has written. Here, data
that was not synced is lost, kept or torn, as a disk may do.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import SystemClock
from backhaul.store import database_at
from backhaul.store.commands import Sendable
from backhaul.store.sqlite.database import SqliteStore
from backhaul.store.sqlite.opening import open_store
from faults.power import Power, images
from scenes.commands import plan
from scenes.databases import fold_all
from scenes.payloads import arrival, envelope, order
from scenes.stored import ALL, bodies, lists

if TYPE_CHECKING:
    from pathlib import Path

    from backhaul.store.matching import Command, MatchReader
    from faults.power import Disk

SEED = int(os.environ.get("SEED", "1"))
IMAGES = 5_000 if os.environ.get("FAULTS") == "long" else 500
SECONDS_AN_IMAGE = 0.6
"""Several times the duration on a busy machine."""
WAVES, WAVE = 25, 12
OPEN = {"fulfill": "9999"}


async def work(path: Path, synchronous: str) -> Disk:
    """Append webhooks, fold them, and mark commands as being sent."""
    open_store(path, SystemClock())
    power = Power(path, synchronous)
    store = SqliteStore(path, SystemClock(), power.connect)
    store.start()
    try:
        for wave in range(WAVES):
            bodies = [
                envelope("orders/create", order(f"ord_{wave}_{n}", note="x" * 1_500))
                for n in range(WAVE)
            ]
            for body, future in [(b, store.inbox.append(arrival(b))) for b in bodies]:
                await future
                power.disk.tell(("kept", body))
            await fold_all(store)
            await plan(store, "fulfill", f"ord_{wave}_0")
            for command, _ in await store.commands.claim("main", OPEN, 5, prepare):
                power.disk.tell(("sending", command.id))
    finally:
        await store.stop()
        power.off()
    return power.disk


def prepare(command: Command, _: MatchReader) -> Sendable:
    return Sendable(command.id.encode(), "key")


def failures(disk: Disk, folder: Path, number: int, seed: int) -> list[str]:
    """Simulate power loss at random moments; return the errors of the images."""
    rng = random.Random(seed)  # noqa: S311 - chooses moments, guards nothing
    cuts = [rng.randrange(len(disk.ops)) for _ in range(number)]
    found: list[str] = []
    for cut, (told, files) in zip(sorted(cuts), images(disk, cuts, rng), strict=True):
        for name, content in files.items():
            (folder / name).write_bytes(content)
        wrong = damage(folder / "backhaul.db", told)
        found += [f"seed {seed}, cut at {cut}: {wrong}"] if wrong else []
        for file in folder.glob("backhaul.db*"):
            file.unlink()
    return found


def damage(path: Path, told: list[object]) -> str:
    """Return the acknowledged data that the file lacks, or its damage."""
    if faults := database_at(path).faults(deep=True):
        return "; ".join(faults)
    with lists(path) as reader:
        sending = reader.open_commands("sending", ALL)
    kept = {("kept", body) for body in bodies(path)}
    lost = set(told) - kept - {("sending", command.id) for command in sending}
    return f"{len(lost)} lost" if lost else ""


@pytest.fixture
def disks(tmp_path: Path) -> Path:
    folder = tmp_path / "disks"
    folder.mkdir()
    return folder


@pytest.mark.faults
@pytest.mark.timeout(300 + SECONDS_AN_IMAGE * IMAGES)
async def test_no_acknowledged_write_is_lost_in_a_power_loss(
    tmp_path: Path, disks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = await work(tmp_path / "backhaul.db", synchronous="")
    wrong = await asyncio.to_thread(failures, disk, disks, IMAGES, SEED)
    with capsys.disabled():
        bound = f"below {3 / IMAGES:.2%} at 95 %" if not wrong else ""
        sys.stdout.write(f" seed {SEED}: {len(wrong)}/{IMAGES} images, {bound} ")
    assert wrong == []


@pytest.mark.faults
async def test_the_disk_notices_a_store_that_does_not_sync(
    tmp_path: Path, disks: Path
) -> None:
    """This tests the test: with `synchronous=NORMAL` most images lack data."""
    disk = await work(tmp_path / "backhaul.db", synchronous="NORMAL")
    wrong = await asyncio.to_thread(failures, disk, disks, 100, SEED)
    assert len(wrong) > 50
