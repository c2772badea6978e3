"""More webhooks than the daemon can store are refused, and memory stays small."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from faults.sending import sender
from faults.trials import LONG, tell
from scenes.processes import memory_bytes, reset_most_memory

if TYPE_CHECKING:
    from faults.sending import Sender
    from scenes.daemon import DaemonProcess
    from scenes.reference_process import ReferenceProcess

PER_SECOND = 2_000
SECONDS = 10.0 if LONG else 2.0
BODY_BYTES = 100_000
LARGEST_BYTES = 1_000_000
MOST_MEMORY_BYTES = 300_000_000
SENDERS = 400
FAIR = {200, 429, 503, 0}
"""0: the connection was closed before the response; the webhook is sent again."""


async def flood(client: Sender, size: int) -> float:
    """Send at the requested rate, as far as this machine can; return the real rate."""
    began = time.monotonic()
    left = iter(range(int(PER_SECOND * SECONDS)))

    async def send() -> None:
        for _ in left:
            if time.monotonic() > began + SECONDS:
                return
            await client.send(client.body(size))

    async with asyncio.TaskGroup() as group:
        for _ in range(SENDERS):
            group.create_task(send())
            await asyncio.sleep(0)
    return len(client.told) / (time.monotonic() - began)


@pytest.mark.faults
@pytest.mark.parametrize("size", [BODY_BYTES, LARGEST_BYTES], ids=["100 kB", "1 MB"])
async def test_a_flood_is_refused_in_part(
    size: int,
    daemon: DaemonProcess,
    platform: ReferenceProcess,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pid = daemon.process.pid
    async with sender(daemon.office, platform.store().id) as client:
        await client.insist()
        reset_most_memory(pid)
        rate = await flood(client, size)
        most = memory_bytes(pid, "VmHWM")
        lost = client.lost(daemon.office.database)
        more = f"webhooks, {rate:.0f} offered a second, {most >> 20} MB"
        tell(capsys, len(lost), len(client.kept), more)
        await client.insist()
    assert {told.status for told in client.told} <= FAIR
    assert lost == set()
    assert most < MOST_MEMORY_BYTES
