"""A reader that never ends: the write-ahead log grows, is reported, shrinks again."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from backhaul.store.sqlite.connections import LARGE_BYTES
from faults.sending import sender
from faults.trials import LONG, tell
from scenes.database_lock import idle_reader
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

    from faults.sending import Sender
    from scenes.daemon import DaemonProcess
    from scenes.reference_process import ReferenceProcess

PER_SECOND = 200
SECONDS = 600.0
"""The long form: as a person's forgotten query, at an everyday pace."""
BODIES_PER_SENDER, BODY_BYTES = 40, 1_000_000
"""The short form: the same size in seconds, by large bodies."""
SENDERS = 8
ALARM = '"action": "database.wal_large"'


def log_bytes(path: Path) -> int:
    return path.with_name(f"{path.name}-wal").stat().st_size


async def at_a_pace(client: Sender) -> None:
    """Send so many a second for a long time."""
    began = time.monotonic()
    for number in range(int(PER_SECOND * SECONDS)):
        await asyncio.sleep(max(0.0, began + number / PER_SECOND - time.monotonic()))
        await client.insist()


async def much_at_once(client: Sender) -> None:
    async def some() -> None:
        for _ in range(BODIES_PER_SENDER):
            await client.insist(client.body(BODY_BYTES))

    await asyncio.gather(*(some() for _ in range(SENDERS)))


@pytest.mark.faults
@pytest.mark.timeout(1_800 if LONG else 900)
async def test_a_read_transaction_left_open_is_survived(
    daemon: DaemonProcess,
    platform: ReferenceProcess,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = daemon.office.database
    async with sender(daemon.office, platform.store().id) as client:
        await client.insist()
        with idle_reader(path):
            await (at_a_pace(client) if LONG else much_at_once(client))
            largest = log_bytes(path)
            assert largest > LARGE_BYTES
            told = daemon.log.read_text().count(ALARM)
        began = time.monotonic()
        while log_bytes(path) > LARGE_BYTES / 2:
            assert time.monotonic() - began < HANG_SECONDS
            await client.insist()
        seconds = time.monotonic() - began
        lost = client.lost(path)
        more = f"webhooks; {largest >> 20} MB, truncated in {seconds:.1f} s"
        tell(capsys, len(lost), len(client.kept), more)
    assert told == 1
    assert lost == set()
