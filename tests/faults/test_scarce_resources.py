"""Too few files or too little memory: no busy loop, no acknowledged webhook lost."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from yarl import URL

from backhaul.store import database_at
from faults.sending import sender
from faults.trials import LONG, SEED, chances, tell
from scenes.daemon import daemon_process
from scenes.processes import limited, memory_bytes, open_files, thread_seconds
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from faults.sending import Sender
    from scenes.daemon import DaemonProcess, Office
    from scenes.reference_process import ReferenceProcess

FILES = 64
VISITORS = 200
LOOK_SECONDS = 10.0 if LONG else 2.0
BUSY_SHARE = 0.5
ROUNDS = 20 if LONG else 4
SENDERS = 32
BODY_BYTES = 900_000
PRESS_SECONDS = 1.0


@contextlib.asynccontextmanager
async def visitors(client: Sender, number: int) -> AsyncIterator[None]:
    """Keep as many connections open as the daemon accepts."""
    port = URL(client.public_url).port
    held: list[asyncio.StreamWriter] = []
    for _ in range(number):
        with contextlib.suppress(OSError):
            held.append((await asyncio.open_connection("127.0.0.1", port))[1])
    try:
        yield
    finally:
        for writer in held:
            writer.close()


@pytest.mark.faults
async def test_too_few_files_do_not_make_it_spin(
    daemon: DaemonProcess, platform: ReferenceProcess
) -> None:
    pid = daemon.process.pid
    async with sender(daemon.office, platform.store().id) as client:
        await client.insist()
        await at_rest(pid)
        with limited(pid, resource.RLIMIT_NOFILE, FILES):
            async with visitors(client, VISITORS):
                await until(lambda: open_files(pid) >= FILES - 2, "no file is left")
                began, busy = time.monotonic(), thread_seconds(pid)
                await until(lambda: time.monotonic() > began + LOOK_SECONDS, "a while")
                share = (thread_seconds(pid) - busy) / (time.monotonic() - began)
                assert share < BUSY_SHARE
            await client.insist()
        await client.insist()
        assert daemon.process.poll() is None
        assert client.lost(daemon.office.database) == set()


async def lives(daemon: DaemonProcess, client: Sender) -> bool:
    """Return True if the daemon accepts webhooks; otherwise it must have ended."""
    for _ in range(10):
        if daemon.process.poll() is not None:
            return False
        with contextlib.suppress(AssertionError):
            await client.insist(seconds=30)
            return True
    raise AssertionError(f"it neither works nor has ended: {client.told[-1]}")


async def at_rest(pid: int) -> None:
    """Wait until the backfill is complete, and the daemon is idle."""
    while True:
        busy, end = thread_seconds(pid), time.monotonic() + 0.5
        await until(partial(passed, end), "a while")
        if thread_seconds(pid) - busy < 0.05:
            return


def passed(moment: float) -> bool:
    return time.monotonic() > moment


async def press(client: Sender, seconds: float) -> None:
    """Send large bodies for a while, and ignore the responses."""
    end = time.monotonic() + seconds
    await asyncio.gather(
        *(
            client.send_while(lambda: time.monotonic() < end, BODY_BYTES)
            for _ in range(SENDERS)
        )
    )


def threads_of(pid: int) -> set[str]:
    return {each.name for each in Path(f"/proc/{pid}/task").iterdir()}


@pytest.mark.faults
async def test_load_starts_no_thread(
    daemon: DaemonProcess, platform: ReferenceProcess
) -> None:
    """A thread that gets no memory at its start would stop the event loop."""
    async with sender(daemon.office, platform.store().id) as client:
        await client.insist()
        at_first = threads_of(daemon.process.pid)
        await press(client, PRESS_SECONDS)
        await at_rest(daemon.process.pid)
        assert threads_of(daemon.process.pid) == at_first
    assert len(at_first) > 2


@pytest.mark.faults
async def test_too_little_memory_loses_nothing(
    office: Office, platform: ReferenceProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    """The daemon may refuse or crash at any allocation; then it is restarted."""
    chance, deaths = chances(), 0
    for number in range(ROUNDS):
        with daemon_process(office) as daemon:
            pid = daemon.process.pid
            room = memory_bytes(pid, "VmSize") + chance.randrange(24) * 1_000_000
            async with sender(office, platform.store().id) as client:
                with limited(pid, resource.RLIMIT_AS, room):
                    await press(client, PRESS_SECONDS)
                # a running daemon accepts webhooks again; otherwise it is restarted
                deaths += not await lives(daemon, client)
                missing = client.lost(office.database)
            assert {told.status for told in client.told} - {200}, "it had enough"
            assert not missing, f"seed {SEED}, round {number}: {len(missing)} lost"
    assert database_at(office.database).faults(deep=True) == []
    tell(capsys, 0, ROUNDS, f"rounds short of memory, {deaths} deaths")
