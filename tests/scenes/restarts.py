"""Restarts a daemon under load, while a service manager keeps its socket open."""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from collections import Counter
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from backhaul.app.sockets import BACKLOG
from scenes.daemon import DaemonProcess
from scenes.service_manager import kept_socket
from scenes.stored import bodies as stored_bodies
from scenes.waiting import until
from scenes.webhook_load import Load

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Iterator

    from scenes.daemon import Office

_PATIENCE_SECONDS = 120.0
MOST_WAITING = BACKLOG - 96
"""Fewer than the socket's backlog: above it, connections are retried after seconds."""
_HAND_OVER = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ |= {"LISTEN_FDS": "1", "LISTEN_FDNAMES": "public"}
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Passes the socket to the daemon as a service manager does."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """The result of a load: responses by status (0: none), lost and doubled bodies."""

    statuses: Counter[int]
    lost: set[bytes]
    doubled: set[bytes]
    per_second: float
    longest_away_seconds: float


async def restarted(
    office: Office, store: str, *, times: int, per_second: float, each: int
) -> Delivered:
    """Restart the daemon under load, each time after `each` responses.

    A slow machine gets less load: no more webhooks wait than the socket's backlog has
    room for while the daemon is down.
    """
    with kept_socket() as kept, many_files():
        port = kept.getsockname()[1]
        load = Load(port, office.webhook_secret, store, per_second, MOST_WAITING)
        served = _Served(office, kept)
        async with served:
            measured = await _under_load(served, load, times, each)
    answers = [task.result() for task in load.sent]
    bodies = {body for _, body in answers}
    stored = Counter(body for body in stored_bodies(office.database) if body in bodies)
    return Delivered(
        Counter(status for status, _ in answers),
        bodies - set(stored),
        {body for body, times in stored.items() if times > 1},
        measured,
        max(served.away_seconds),
    )


async def _under_load(served: _Served, load: Load, times: int, each: int) -> float:
    """Restart the daemon; return how many webhooks were sent per second."""
    began = time.monotonic()
    async with _running(load):
        for _ in range(times):
            await _answered(load, each)
            await served.restart()
        await _answered(load, each)
    return len(load.sent) / (time.monotonic() - began)


@asynccontextmanager
async def _running(load: Load) -> AsyncIterator[None]:
    """Send webhooks, and wait for all responses at the end."""
    async with asyncio.TaskGroup() as group:
        group.create_task(load.run())
        try:
            yield
        finally:
            load.going = False
        await until(load.is_answered, "all are answered", _PATIENCE_SECONDS)


class _Served:
    """The daemon on a socket that stays open; it is killed at the end."""

    def __init__(self, office: Office, kept: socket.socket) -> None:
        self._office = office
        self._kept = kept
        self.away_seconds: list[float] = []

    async def __aenter__(self) -> Self:
        await self._start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._daemon.process.poll() is None:
            await asyncio.to_thread(self._daemon.kill)

    async def restart(self) -> None:
        """Stop the daemon as a service manager does, and start it again."""
        began = time.monotonic()
        assert await asyncio.to_thread(self._daemon.terminate, _PATIENCE_SECONDS) == 0
        await self._start()
        self.away_seconds.append(time.monotonic() - began)

    async def _start(self) -> None:
        number = self._kept.fileno()
        wrapped = [sys.executable, "-c", _HAND_OVER, str(number)]
        self._daemon = DaemonProcess(self._office, wrapped=wrapped, handed=[number])
        live = await asyncio.to_thread(self._daemon.await_ready, _PATIENCE_SECONDS)
        assert live["public_url"].endswith(f":{self._kept.getsockname()[1]}")


async def _answered(load: Load, more: int) -> None:
    wanted = load.answered() + more
    await until(lambda: load.has_more_than(wanted), "it receives", _PATIENCE_SECONDS)


@contextmanager
def many_files() -> Iterator[None]:
    """Raise this process's limit of open files to the maximum."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
