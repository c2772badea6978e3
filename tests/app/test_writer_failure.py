"""A daemon whose database writer fails ends, so that it can be restarted."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from backhaul.app.daemon import Daemon, Environment
from backhaul.cli import context
from backhaul.core.clock import SystemClock
from backhaul.errors import WriterFailed
from scenes.daemon import office_of
from scenes.reference_process import reference
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from pathlib import Path


class FailingClock(SystemClock):
    """Ends the writer's thread, when a test says so, at a call of the clock."""

    def __init__(self) -> None:
        self.fails = False

    def monotonic(self) -> float:
        if self.fails and threading.current_thread() is not threading.main_thread():
            raise SystemExit
        return super().monotonic()


async def test_the_daemon_ends_with_its_writer(tmp_path: Path) -> None:
    clock = FailingClock()
    with reference(tmp_path) as platform, office_of(platform) as office:
        daemon = Daemon(context.settings(office.config), Environment(clock=clock))
        running = asyncio.create_task(daemon.run())
        async with asyncio.timeout(HANG_SECONDS):
            await daemon.ready.wait()
            clock.fails = True
            daemon.poll_stores()
            with pytest.raises(WriterFailed, match="SystemExit"):
                await running
