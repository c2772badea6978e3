"""After a power loss, all acknowledged webhooks and all recorded attempts are there.

SIGKILL does not show this: the system still has what a process has written. Here, data
that was not synced is lost, kept or torn, as a disk may do.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest

from backhaul.app.receiver_files import LeftFiles, ReceiverFile, damaged
from backhaul.core.clock import SystemClock
from backhaul.store import INBOX_FILE, database_at
from backhaul.store.commands import Sendable
from backhaul.store.sqlite.database import (
    SqliteSpool,
    SqliteStore,
    _oldest,
    open_inbox_file,
)
from backhaul.store.sqlite.opening import open_store
from faults.power import Power, images
from scenes.commands import plan
from scenes.databases import fold_all, started_store
from scenes.payloads import arrival, envelope, order
from scenes.stored import ALL, bodies, lists

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from backhaul.store.inbox import Arrival, Spool
    from backhaul.store.matching import Command, MatchReader
    from faults.power import Disk

SEED = int(os.environ.get("SEED", "1"))
IMAGES = 5_000 if os.environ.get("FAULTS") == "long" else 500
SECONDS_AN_IMAGE = 0.6
"""Several times the duration on a busy machine."""
WAVES, WAVE = 25, 12
CLOCK = SystemClock()
OPEN = {"fulfill": "9999"}


async def work(path: Path, synchronous: str) -> Disk:
    """Append webhooks, fold them, and mark commands as being sent."""
    open_store(path, CLOCK)
    power = Power(path, synchronous=synchronous)
    store = SqliteStore(path, CLOCK, power.connect)
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


class OnWriter:
    """Reads a spool through its writer: the disk gives a file one connection."""

    def __init__(self, spool: SqliteSpool) -> None:
        self._spool = spool
        self.stop = spool.stop

    async def oldest(self, after: int) -> list[tuple[int, Arrival]]:
        return await self._spool._engine.write(partial(_oldest, after=after))


async def work_of_receiver(
    path: Path, synchronous: str = "", *, is_early: bool = False
) -> Disk:
    """Append webhooks to the file of a process, and move them as the daemon does.

    With `is_early` they are removed from the file before the move is durable.
    """
    file = path.with_name(INBOX_FILE.format("0a"))
    open_store(path, CLOCK)
    open_inbox_file(file, CLOCK)
    power = Power(path, file, synchronous=synchronous)
    store = SqliteStore(path, CLOCK, power.connect)
    spool = SqliteSpool(SqliteStore(file, CLOCK, power.connect))
    store.start()
    spool.start()
    received = ReceiverFile(file, store.inbox, CLOCK)
    received._spool = cast("Spool", OnWriter(spool))
    try:
        for wave in range(WAVES):
            bodies = [envelope("orders/create", order(f"{wave}_{n}")) for n in range(3)]
            for body in bodies:
                last = await spool.append(arrival(body))
                power.disk.tell(("kept", body))
            if is_early:
                events = await OnWriter(spool).oldest(received.moved)
                await spool.remove(last)
                for received.moved, event in events:
                    await store.inbox.append(event)
            else:
                await received.move()
                await spool.remove(received.moved)
    finally:
        await spool.stop()
        await store.stop()
        power.off()
    return power.disk


def damage(path: Path, told: list[object]) -> str:
    """Return the acknowledged data that the file lacks, or its damage."""
    if faults := database_at(path).faults(deep=True):
        return "; ".join(faults)
    with lists(path) as reader:
        sending = reader.open_commands("sending", ALL)
    kept = {("kept", body) for body in bodies(path)}
    lost = set(told) - kept - {("sending", command.id) for command in sending}
    return f"{len(lost)} lost" if lost else ""


async def recover(folder: Path) -> None:
    """Do what a daemon does when it starts after the loss."""
    async with started_store(folder / "backhaul.db") as store:
        await LeftFiles(folder, store.inbox, CLOCK).move_all()


def damage_of_receiver(path: Path, told: list[object]) -> str:
    asyncio.run(recover(path.parent))
    return damage(path, told) or ", ".join(map(str, damaged(path.parent)))


def failures(
    disk: Disk,
    folder: Path,
    number: int,
    seed: int,
    check: Callable[[Path, list[object]], str] = damage,
) -> list[str]:
    """Simulate power loss at random moments; return the errors of the images."""
    rng = random.Random(seed)  # noqa: S311 - chooses moments, guards nothing
    cuts = [rng.randrange(len(disk.ops)) for _ in range(number)]
    found: list[str] = []
    for cut, (told, files) in zip(sorted(cuts), images(disk, cuts, rng), strict=True):
        for name, content in files.items():
            (folder / name).write_bytes(content)
        wrong = check(folder / "backhaul.db", told)
        found += [f"seed {seed}, cut at {cut}: {wrong}"] if wrong else []
        for file in folder.iterdir():
            file.unlink()
    return found


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


@pytest.mark.faults
@pytest.mark.timeout(300 + SECONDS_AN_IMAGE * IMAGES)
async def test_no_webhook_of_a_receiver_process_is_lost_in_a_power_loss(
    tmp_path: Path, disks: Path
) -> None:
    disk = await work_of_receiver(tmp_path / "backhaul.db")
    wrong = await asyncio.to_thread(
        failures, disk, disks, IMAGES, SEED, damage_of_receiver
    )
    assert wrong == []


@pytest.mark.faults
@pytest.mark.parametrize(
    "mistake", [{"synchronous": "NORMAL"}, {"is_early": True}], ids=str
)
async def test_the_disk_notices_a_receiver_process_that_makes_a_mistake(
    tmp_path: Path, disks: Path, mistake: dict[str, Any]
) -> None:
    """This tests the test above."""
    disk = await work_of_receiver(tmp_path / "backhaul.db", **mistake)
    wrong = await asyncio.to_thread(
        failures, disk, disks, 100, SEED, damage_of_receiver
    )
    assert len(wrong) > 5
