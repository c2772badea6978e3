"""A long working day: memory and open files stay constant, the loop responsive."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from faults.sending import sender
from faults.trials import tell
from scenes.loop_guard import on_purpose
from scenes.processes import memory_bytes, open_files

if TYPE_CHECKING:
    from faults.sending import Sender
    from scenes.daemon import DaemonProcess
    from scenes.reference_process import ReferenceProcess

SECONDS = float(os.environ.get("SOAK_SECONDS") or 1_800)
WARM_UP = SECONDS / 3
"""After this time late imports are done, and temporary files are closed."""
PER_SECOND = 20
RUSH = 200
"""Sent at once: what a machine piles up that stands still for ten seconds takes no new
memory later, and each statement that keeps what it was last given has been used."""
RUSHES = 20
"""They fill what is bounded: the writer's cache of 32 MB, which 3,000 webhooks fill."""
LOOK_SECONDS = 5.0
MOST_GROWTH = 1e6
"""Bytes an hour, 14 for each webhook."""
PUNCTUAL_SECONDS = 0.1


@dataclass(slots=True)
class Day:
    """Samples of a process: the time, its memory in bytes, its open files."""

    at: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    files: list[int] = field(default_factory=list)

    def look(self, pid: int) -> None:
        self.at.append(time.monotonic())
        self.memory.append(memory_bytes(pid))
        self.files.append(open_files(pid))

    def grown(self) -> float:
        """Return the growth of the memory in bytes per hour."""
        return statistics.linear_regression(self.at, self.memory).slope * 3_600

    def leaked(self) -> int:
        """Return how many more files stay open in the second half than in the first.

        Connections and checkpoints open files for a time; a leak never closes them.
        """
        half = len(self.files) // 2
        return min(self.files[half:]) - min(self.files[:half])


async def rush(client: Sender) -> None:
    """Send many webhooks at once, over new connections."""
    async with sender(client.office, client.store_id) as crowd:
        crowd.numbers, crowd.kept, crowd.told = client.numbers, client.kept, client.told
        for _ in range(RUSHES):
            await asyncio.gather(*(crowd.send() for _ in range(RUSH)))


async def send_all(client: Sender, seconds: float) -> None:
    """Send at a rate per second; a slow request does not delay the others."""
    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number in range(int(seconds * PER_SECOND)):
            late = time.monotonic() - began - number / PER_SECOND
            await asyncio.sleep(max(-late, 0))
            group.create_task(client.send())


async def late_beyond(client: Sender, seconds: float) -> tuple[float, float]:
    """Return the number of late iterations of the loop, and of all iterations.

    Both count from the start of the daemon.
    """
    async with client.session.get(client.admin_url + "/metrics") as answer:
        families = text_string_to_metric_families(await answer.text())
    (lag,) = (each for each in families if each.name == "backhaul_loop_lag_seconds")
    upto = {s.labels["le"]: s.value for s in lag.samples if s.name.endswith("_bucket")}
    punctual = max(value for le, value in upto.items() if float(le) <= seconds)
    return upto["+Inf"] - punctual, upto["+Inf"]


@pytest.mark.faults
@pytest.mark.long
@pytest.mark.timeout(SECONDS + 600)
async def test_a_long_day_leaves_it_as_it_was(
    daemon: DaemonProcess,
    platform: ReferenceProcess,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pid, day = daemon.process.pid, Day()
    async with sender(daemon.office, platform.store().id) as client:
        await rush(client)
        rushed = await late_beyond(client, PUNCTUAL_SECONDS)
        await send_all(client, WARM_UP)
        working = asyncio.create_task(send_all(client, SECONDS - WARM_UP))
        while not working.done():
            day.look(pid)
            await asyncio.wait([working], timeout=LOOK_SECONDS)
        await working
        ended = await late_beyond(client, PUNCTUAL_SECONDS)
        late, wakes = (a - b for a, b in zip(ended, rushed, strict=True))
        with on_purpose():
            lost = client.lost(daemon.office.database)
    more = (
        f"webhooks, {day.grown() / 1e6:+.2f} MB an hour"
        f" at {day.memory[-1] / 1e6:.0f} MB,"
        f" {min(day.files)} to {max(day.files)} files open,"
        f" {late:.0f} of {wakes:.0f} wakes later than {PUNCTUAL_SECONDS * 1e3:.0f} ms"
    )
    tell(capsys, len(lost), len(client.told), more)
    assert {told.status for told in client.told} == {200}
    assert lost == set()
    assert day.grown() < MOST_GROWTH
    assert day.leaked() <= 0
    assert late < wakes / 100
