"""F12: the platform's host name cannot be resolved, or its address changes."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from backhaul.app.control_socket import SOCKET_NAME
from backhaul.core.clock import from_text
from backhaul.settings import Push
from faults.naming import NAME, name_server
from faults.proxied import proxied
from faults.trials import LONG
from scenes.daemon import request_over_socket
from scenes.fault_proxy import FaultProxy
from scenes.stored import rows_of, values_of
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from datetime import timedelta
    from pathlib import Path

    from faults.naming import NameServer
    from faults.proxied import Line

pytestmark = [pytest.mark.faults]

SILENT_SECONDS = 30.0 if LONG else 3.0
PRODUCTS = 20
LONGEST_TO_MOVE_SECONDS = 60.0
BASE_SECONDS, CAP_SECONDS = (10, 60) if LONG else (4, 5)
"""Long enough to avoid a fifth failure, which would open the circuit."""
PUSH = f"""[push]
retry_base = "{BASE_SECONDS}s"
retry_cap = "{CAP_SECONDS}s"
connect_seconds = 1
read_seconds = 2
check_after = ["0s", "1s", "2s"]"""
NOT_BY_CHANCE_SECONDS = 0.05
"""The time to finish an attempt; four random waits are rarely as close."""


@dataclass(slots=True)
class Lag:
    """Polls the daemon's health; counts responses while no name resolves."""

    line: Line
    answers: int = 0

    def ask_until(self, ended: threading.Event) -> None:
        socket = self.line.office.folder / "state" / SOCKET_NAME
        while not ended.wait(0.01):
            request_over_socket(socket, "/healthz")
            self.answers += 1


@asynccontextmanager
async def watched(line: Line) -> AsyncIterator[Lag]:
    lag, ended = Lag(line), threading.Event()
    watching = asyncio.ensure_future(asyncio.to_thread(lag.ask_until, ended))
    try:
        yield lag
    finally:
        ended.set()
        await watching


@asynccontextmanager
async def moved_to(line: Line, address: str) -> AsyncIterator[FaultProxy]:
    """Serve the same platform at another address and the same port."""
    port = urlsplit(line.proxy.url).port
    other = FaultProxy(line.proxy.upstream, f"http://{address}:{port}")
    await other.up()
    try:
        yield other
    finally:
        await other.down()


async def fail(line: Line, names: NameServer) -> list[str]:
    """Let names fail in every way; return the products of the commands of that time."""
    products = line.products(4)
    waits: set[timedelta] = set()
    ways: list[Callable[[], None]] = [
        names.knows_nothing,
        names.fails,
        names.falls_silent,
    ]
    for way, concerned in zip(
        ways, (products[:1], products[1:2], products[2:]), strict=True
    ):
        way()
        line.adjust(*concerned)
        for product in concerned:
            assert (await line.tried(product)).outcome == "never_sent", way.__name__
            waits |= first_waits(line)
    check(waits)
    return products


def first_waits(line: Line) -> set[timedelta]:
    """Return the delays of commands that failed once and were not retried yet."""
    database = line.office.database
    # attempts first: a command that is planned after its only attempt waits
    attempts = rows_of(database, "attempts", "command_id", "number", "finished_at")
    planned = rows_of(database, "commands", "id", "due_at", state="planned")
    again = {command for command, number, _ in attempts if number > 1}
    failed = {command: at for command, _, at in attempts if at and command not in again}
    return {
        from_text(due) - from_text(failed[command])
        for command, due in planned
        if command in failed
    }


def check(waits: set[timedelta]) -> None:
    """Check the delay of each retry against the settings and the random range."""
    seconds = [one.total_seconds() for one in waits]
    assert min(seconds) >= BASE_SECONDS / 2
    assert max(seconds) <= CAP_SECONDS
    assert max(seconds) - min(seconds) > NOT_BY_CHANCE_SECONDS, "all wait equally long"


async def test_commands_for_an_unresolved_name_wait_and_follow_its_new_address(
    tmp_path: Path,
) -> None:
    async with name_server(tmp_path) as names, named(tmp_path, names) as line:
        async with watched(line) as lag:
            failed = await fail(line, names)
            before, end = lag.answers, time.monotonic() + SILENT_SECONDS
            await until(lambda: time.monotonic() > end, "a while")
        # a loop that waits for a silent name server would answer once in five seconds
        assert lag.answers - before > SILENT_SECONDS
        assert line.proxy.requests("POST") == []
        async with moved_to(line, "127.0.0.2") as other:
            names.knows("127.0.0.2")
            late = line.products(1)
            line.adjust(*late)
            await line.applied(*failed, *late)
            assert line.proxy.requests("POST") == []
            assert len(other.requests("POST")) == len(failed) + 1
        outcomes = set(values_of(line.office.database, "attempts", "outcome"))
        assert outcomes == {"never_sent", "confirmed"}
        assert await line.findings() == []


def named(folder: Path, names: NameServer) -> AbstractAsyncContextManager[Line]:
    """Run a platform that is configured by its name only."""
    names.knows("127.0.0.1")
    return proxied(
        folder / "platform", PRODUCTS, push=PUSH, host=NAME, wrapped=names.wrapped()
    )


def test_by_default_no_command_waits_longer_than_a_move_may_take() -> None:
    assert Push().retry_cap <= LONGEST_TO_MOVE_SECONDS
