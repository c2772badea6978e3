"""The interface to systemd: notifications, watchdog, reload and inherited sockets."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from backhaul.app.systemd import ServiceManager
from backhaul.errors import Busy, ConfigurationError
from backhaul.store.sqlite.database import append_batch
from backhaul.store.sqlite.engine import Writer
from scenes.clock import VirtualClock
from scenes.databases import locked
from scenes.service_manager import OURS, handing, kept_socket, manager
from scenes.waiting import until

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator
    from pathlib import Path

    from scenes.service_manager import Manager

FED = "WATCHDOG=1"
QUARTER_SECONDS = 0.05
"""The watchdog is fed four times within its timeout."""
WATCHDOG = {"WATCHDOG_USEC": "200000", "WATCHDOG_PID": str(OURS)}


@pytest.fixture(params=["file", "name"])
def ears(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    return tmp_path / "notify" if request.param == "file" else f"@backhaul-{OURS}"


def test_every_word_arrives_as_the_manager_reads_it(ears: Path | str) -> None:
    with manager(ears) as heard:
        service_manager = ServiceManager(heard.environ, OURS)
        service_manager.busy("upgrades", 90)
        service_manager.ready("receives at x")
        service_manager.reloading()
        service_manager.stopping()
        assert heard.has_received("EXTEND_TIMEOUT_USEC=90000000")
        assert heard.has_received("READY=1")
        assert heard.has_received("RELOADING=1")
        assert not heard.has_received("READY=1")
        assert heard.has_received("STOPPING=1")


def test_a_reload_carries_the_moment_it_began(tmp_path: Path) -> None:
    with manager(tmp_path / "notify") as heard:
        ServiceManager(heard.environ, OURS).reloading()
        assert not heard.has_received("nothing")
        assert heard.received[0][1].startswith("MONOTONIC_USEC=")
        assert heard.received[0][1][15:].isdigit()


def test_without_a_manager_nothing_is_notified_and_nothing_fails(
    tmp_path: Path,
) -> None:
    ServiceManager({}, OURS).ready("")
    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "nobody")}, OURS).ready("")
    assert ServiceManager({}, OURS).sockets(("public",)) == {}


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        (WATCHDOG, 0.2),
        ({"WATCHDOG_USEC": "200000"}, 0.2),
        ({**WATCHDOG, "WATCHDOG_PID": "1"}, 0.0),
        ({}, 0.0),
    ],
)
def test_the_watchdog_is_for_one_process(
    environ: dict[str, str], seconds: float
) -> None:
    assert ServiceManager(environ, OURS).watchdog_seconds == seconds


@pytest.fixture
async def writer(tmp_path: Path) -> AsyncIterator[Writer]:
    started = Writer(tmp_path / "backhaul.db", append_batch)
    started.start()
    yield started
    await started.stop()


class Feeding:
    """A watchdog that is fed, with a virtual clock."""

    def __init__(self, heard: Manager, clock: VirtualClock) -> None:
        self._heard = heard
        self._clock = clock

    async def fed_within(self, seconds: float) -> bool:
        while self._heard.has_received(FED):
            pass
        await self._clock.advance(seconds)
        return self._heard.has_received(FED)


@pytest.fixture
async def feeding(tmp_path: Path, writer: Writer) -> AsyncIterator[Feeding]:
    clock = VirtualClock()
    with manager(tmp_path / "notify") as heard:
        service_manager = ServiceManager(heard.environ | WATCHDOG, OURS)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(service_manager.feed(writer, clock))
            await clock.await_sleeper()
            yield Feeding(heard, clock)
            running.cancel()


async def test_the_watchdog_is_fed(feeding: Feeding, writer: Writer) -> None:
    for _ in range(3):
        await writer.heartbeat()
        assert await feeding.fed_within(QUARTER_SECONDS)


async def test_a_writer_that_hangs_starves_it(feeding: Feeding, writer: Writer) -> None:
    await writer.heartbeat()
    goes_on = threading.Event()
    hanging = writer.urgent(lambda _: goes_on.wait())
    try:
        assert await feeding.fed_within(QUARTER_SECONDS)  # the writer answered before
        assert not await feeding.fed_within(10 * QUARTER_SECONDS)
    finally:
        goes_on.set()
    await hanging
    await writer.heartbeat()
    assert await feeding.fed_within(QUARTER_SECONDS)


async def test_a_rewrite_of_the_file_does_not_starve_the_watchdog(
    feeding: Feeding, writer: Writer
) -> None:
    writing, goes_on = threading.Event(), threading.Event()

    def slow(_: sqlite3.Connection) -> bool:
        writing.set()
        return goes_on.wait()

    hanging = writer.alone(slow)
    try:
        await until(writing.is_set, "it writes")
        assert await feeding.fed_within(QUARTER_SECONDS)
        assert await feeding.fed_within(QUARTER_SECONDS)
    finally:
        goes_on.set()
    await hanging


async def test_a_disk_that_refuses_does_not_starve_it(
    feeding: Feeding, writer: Writer, tmp_path: Path
) -> None:
    await writer.heartbeat()
    with locked(tmp_path / "backhaul.db"):
        for _ in range(2):
            with pytest.raises(Busy):
                await writer.heartbeat()
            assert await feeding.fed_within(QUARTER_SECONDS)


@pytest.mark.parametrize("name", ["backhaul.socket", ""])
def test_an_unserved_socket_is_refused(name: str) -> None:
    with (
        kept_socket() as kept,
        pytest.raises(ConfigurationError, match="FileDescriptorName="),
    ):
        handing(kept, name).sockets(("public", "admin"))


def test_a_passed_socket_must_listen() -> None:
    with (
        closing(socket.socket()) as loose,
        pytest.raises(
            ConfigurationError, match="public: is not a listening TCP socket"
        ),
    ):
        handing(loose).sockets(("public", "admin"))


def test_a_socket_for_another_process_is_left() -> None:
    environ = {"LISTEN_PID": "1", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "public"}
    assert ServiceManager(environ, OURS).sockets(("public",)) == {}
