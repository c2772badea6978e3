"""While another program locks the database, webhooks get 503 and none is lost."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from faults.sending import sender
from faults.trials import LONG, tell
from scenes.database_lock import LockOfAnotherProcess
from scenes.stored import events_to_fold
from scenes.waiting import until

if TYPE_CHECKING:
    from faults.sending import Sender
    from scenes.daemon import DaemonProcess
    from scenes.reference_process import ReferenceProcess

HELD_SECONDS = 30.0 if LONG else 3.0
SENDERS = 4


async def ask_meanwhile(client: Sender, end: float) -> None:
    """Poll the health check, which must answer although nothing can be written."""
    while time.monotonic() < end:
        paths = ("/healthz", "/readyz", "/api/status")
        heard = [await client.health(path) for path in paths]
        assert {told.status for told in heard} == {200}
        await asyncio.sleep(0.05)


@pytest.mark.faults
async def test_a_lock_is_outlived(
    daemon: DaemonProcess,
    platform: ReferenceProcess,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = daemon.office.database
    async with sender(daemon.office, platform.store().id) as client:
        await client.insist()
        with LockOfAnotherProcess(path):
            end = time.monotonic() + HELD_SECONDS
            sending = [
                client.send_while(lambda: time.monotonic() < end)
                for _ in range(SENDERS)
            ]
            await asyncio.gather(ask_meanwhile(client, end), *sending)
        seconds = await client.insist()
        lost = client.lost(path)
        tell(capsys, len(lost), len(client.told), f"webhooks; back in {seconds:.2f} s")
    refused = [told for told in client.told if told.status != 200]
    assert {(told.status, told.retry_after) for told in refused} == {(503, "1")}
    assert lost == set()
    await until(lambda: events_to_fold(path) == 0, "what was kept is folded")
