"""Webhooks are spooled to the local disk while the database is away, then forwarded."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import SystemClock
from backhaul.errors import Busy
from backhaul.ingest.spool import SpoolingInbox
from backhaul.store import open_spool, open_store
from backhaul.store.sqlite.database import SPOOL_ROWS
from backhaul.store.testing.event_scenes import webhook
from scenes.damaged_rows import write_to_unused_space
from scenes.databases import (
    count,
    event_states,
    fold_all,
    make_database,
    reading,
    started_store,
)
from scenes.dying_forwarder import POINTS
from scenes.payloads import arrival, envelope, order
from scenes.postgres import postgres
from scenes.stored import bodies, values_of
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from backhaul.store import Place, Store
    from backhaul.store.inbox import Appending, Arrival
    from scenes.postgres_databases import PostgresDatabases


class FailingInbox:
    """An inbox that refuses events while `is_shut`."""

    def __init__(self, inbox: Appending) -> None:
        self._inbox = inbox
        self.is_shut = True

    async def append(self, arrival: Arrival) -> int:
        if self.is_shut:
            raise Busy("the database is away")
        return await self._inbox.append(arrival)


@asynccontextmanager
async def spooling(
    inbox: Appending, file: Path, *, accepts: bool = True, forwards: bool = True
) -> AsyncIterator[SpoolingInbox]:
    make_database(file)
    spool = open_spool(file, SystemClock())
    made = SpoolingInbox(inbox, spool, SystemClock(), accepts=accepts)
    await made.start()
    running = asyncio.ensure_future(made.run()) if forwards else None
    try:
        yield made
    finally:
        if running is not None:
            running.cancel()
        await made.stop()


async def append(inbox: Appending, *given: str) -> None:
    for body in given:
        await inbox.append(webhook(body))


async def leave_in_spool(store: Store, file: Path, *given: str) -> None:
    """Leave webhooks in a spool, as a daemon does that stops during an outage."""
    async with spooling(FailingInbox(store.inbox), file, forwards=False) as inbox:
        await append(inbox, *given)


def texts(place: Place) -> list[str]:
    """Return the bodies in the inbox, in order of arrival."""
    return [body.decode() for body in bodies(place)]


async def test_webhooks_wait_on_the_disk_and_are_forwarded_in_order(
    database: Place, tmp_path: Path
) -> None:
    file = tmp_path / "spool.db"
    names = [str(number) for number in range(SPOOL_ROWS + 10)]
    async with started_store(database) as store:
        failing = FailingInbox(store.inbox)
        async with spooling(failing, file) as inbox:
            await asyncio.gather(*(append(inbox, name) for name in names))
            assert texts(database) == []
            assert texts(file) == names
            failing.is_shut = False
            await until(lambda: not inbox.waiting, "the spool is empty")
        assert texts(database) == names
        assert count(file, "inbox") == 0


async def test_later_webhooks_wait_behind_those_of_an_earlier_run(
    database: Place, tmp_path: Path
) -> None:
    file = tmp_path / "spool.db"
    async with started_store(database) as store:
        await leave_in_spool(store, file, "1", "2")
        async with spooling(store.inbox, file, forwards=False) as inbox:
            assert inbox.waiting == 2
            await append(inbox, "3")
            assert texts(database) == []
        async with spooling(store.inbox, file) as inbox:
            await until(lambda: not inbox.waiting, "the spool is empty")
            await append(inbox, "4")
        assert texts(database) == ["1", "2", "3", "4"]


async def test_the_file_keeps_no_byte_of_what_is_forwarded(
    database: Place, tmp_path: Path
) -> None:
    """An erasure finds a customer in the database only."""
    file = tmp_path / "spool.db"
    async with started_store(database) as store:
        failing = FailingInbox(store.inbox)
        async with spooling(failing, file) as inbox:
            await append(inbox, *(f"asha@example.com {n}" for n in range(500)))
            assert holding(tmp_path, b"asha@")
            with reading(file):
                failing.is_shut = False
                await until(lambda: not inbox.waiting, "the spool is empty")
                assert holding(tmp_path, b"asha@")
            await until(lambda: not holding(tmp_path, b"asha@"), "its bytes are gone")


async def test_the_bytes_of_an_earlier_run_are_cleared(
    database: Place, tmp_path: Path
) -> None:
    file = tmp_path / "spool.db"
    make_database(file)
    write_to_unused_space(file, "asha@example.com")
    assert holding(tmp_path, b"asha@")
    async with started_store(database) as store, spooling(store.inbox, file):
        await until(lambda: not holding(tmp_path, b"asha@"), "its bytes are gone")


def holding(folder: Path, text: bytes) -> list[str]:
    """Return the files of the spool that contain a text."""
    files = folder.glob("spool.db*")
    return [path.name for path in files if text in path.read_bytes()]


async def test_a_spool_that_is_turned_off_is_still_emptied(
    database: Place, tmp_path: Path
) -> None:
    file = tmp_path / "spool.db"
    async with started_store(database) as store:
        await leave_in_spool(store, file, "1")
        failing = FailingInbox(store.inbox)
        async with spooling(failing, file, accepts=False) as inbox:
            with pytest.raises(Busy):
                await append(inbox, "2")
            failing.is_shut = False
            await until(lambda: not inbox.waiting, "the spool is empty")
        assert texts(database) == ["1"]


@pytest.mark.programs
async def test_webhooks_are_accepted_while_the_server_is_down(tmp_path: Path) -> None:
    with postgres() as server:
        url = server.new_database()
        store = open_store(url, SystemClock())
        store.start()
        async with spooling(store.inbox, tmp_path / "spool.db") as inbox:
            await append(inbox, "1")
            await asyncio.to_thread(server.kill)
            await append(inbox, "2", "3")
            assert inbox.waiting == 2
            await asyncio.to_thread(server.start)
            await until(lambda: not inbox.waiting, "the spool is empty")
            await append(inbox, "4")
        assert texts(url) == ["1", "2", "3", "4"]
        await store.stop()


@pytest.mark.programs
@pytest.mark.postgres
@pytest.mark.parametrize("point", POINTS)
async def test_a_forwarder_that_is_killed_loses_and_doubles_nothing(
    postgres_server: PostgresDatabases, tmp_path: Path, point: str
) -> None:
    with postgres_server.lent() as url:
        await forward_twice(url, tmp_path, point)


async def forward_twice(url: str, tmp_path: Path, point: str) -> None:
    file = tmp_path / "spool.db"
    make_database(file)
    orders = [f"ord_{number}" for number in range(5)]
    spool = open_spool(file, SystemClock())
    spool.start()
    for name in orders:
        await spool.append(arrival(envelope("orders/create", order(name))))
    await spool.stop()
    environ = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-m", "scenes.dying_forwarder", str(file)]
    for moment, code in ((point, -signal.SIGKILL), ("never", 0)):
        ended = await asyncio.to_thread(
            subprocess.run, [*command, url, moment], env=environ, check=False
        )
        assert ended.returncode == code
    async with started_store(url) as store:
        assert await fold_all(store) == []
    found = event_states(url)
    assert found.count("folded") == len(orders)
    assert set(found) <= {"folded", "duplicate"}
    if point in {"append:after", "remove:before"}:
        # a busy machine may add repeats, because the server ends idle connections
        assert "duplicate" in found
    assert sorted(values_of(url, "orders", "id")) == orders
