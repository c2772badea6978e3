"""With a full disk or a locked file, nothing false is confirmed, and work resumes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import SystemClock
from backhaul.errors import Busy
from backhaul.ingest.fold_worker import FoldWorker
from backhaul.store.sql.inbox.fold import SqlInbox
from backhaul.store.sqlite.database import append_batch
from backhaul.store.sqlite.engine import SqliteEngine, Writer
from scenes.database_lock import LockOfAnotherProcess
from scenes.databases import count, locked, rows, started_store
from scenes.payloads import arrival, envelope, order
from scenes.receiver import served
from scenes.waiting import HANG_SECONDS, until

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator
    from pathlib import Path

BODY = envelope("orders/create", order(note="x" * 5_000))


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    async with started_store(tmp_path / "backhaul.db") as store:
        return store.path


@pytest.fixture
async def writer(path: Path) -> AsyncIterator[Writer]:
    started = Writer(path, append_batch)
    started.start()
    yield started
    await started.stop()


def inbox_of(writer: Writer, path: Path) -> SqlInbox:
    clock = SystemClock()
    return SqlInbox(SqliteEngine(path, writer, clock), clock)


async def limit_pages(writer: Writer, pages: int) -> None:
    def unit(connection: sqlite3.Connection) -> None:
        connection.execute(f"PRAGMA max_page_count={pages}")

    await writer.urgent(unit)


async def test_a_full_disk_is_logged_and_survived(writer: Writer, path: Path) -> None:
    (size,) = rows(path, "PRAGMA page_count")[0]
    await limit_pages(writer, size + 20)
    async with served(inbox_of(writer, path)) as receiver:
        replies = [await receiver.post(BODY) for _ in range(60)]
        kept = count(path, "inbox")
        refused = [reply for reply in replies if reply.status == 503]
        assert {reply.status for reply in replies} == {200, 503}
        assert len(replies) - len(refused) == kept
        assert {reply.headers["Retry-After"] for reply in refused} == {"1"}
        await limit_pages(writer, 1_000_000)
        assert (await receiver.post(BODY)).status == 200
    assert count(path, "inbox") == kept + 1
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]


async def test_a_disk_that_fills_in_a_burst_keeps_acknowledged_deliveries(
    writer: Writer, path: Path
) -> None:
    (size,) = rows(path, "PRAGMA page_count")[0]
    await limit_pages(writer, size + 30)
    async with served(inbox_of(writer, path)) as receiver:

        async def post(number: int) -> tuple[int, bytes]:
            body = envelope("orders/create", order(f"ord_{number}", note="x" * 2_000))
            return (await receiver.post(body)).status, body

        replies = []
        for first in range(0, 300, 10):
            wave = (post(number) for number in range(first, first + 10))
            replies += await asyncio.gather(*wave)
    answered = {body for status, body in replies if status == 200}
    assert {status for status, _ in replies} == {200, 503}
    assert {body for (body,) in rows(path, "SELECT body FROM inbox")} == answered


async def test_a_locked_file_is_503_within_a_second(path: Path) -> None:
    async with started_store(path) as store, served(store.inbox) as receiver:
        with LockOfAnotherProcess(path):
            async with asyncio.timeout(HANG_SECONDS):
                reply = await receiver.post(BODY)
            assert reply.status == 503
            assert reply.headers["Retry-After"] == "1"
            assert count(path, "inbox") == 0
        assert (await receiver.post(BODY)).status == 200
    assert count(path, "inbox") == 1


async def test_a_short_lock_is_waited_for(path: Path) -> None:
    async with started_store(path) as store, served(store.inbox) as receiver:
        with locked(path):
            waiting = asyncio.create_task(receiver.post(BODY))
            await until(lambda: receiver.session.connector, "it is connected")
        assert (await waiting).status == 200


async def test_folding_goes_on_after_a_lock(path: Path) -> None:
    async with started_store(path) as store:
        await store.inbox.append(arrival(BODY))
        drain = FoldWorker(store.inbox, SystemClock(), {})
        with locked(path):
            running = asyncio.create_task(drain.run())
            with pytest.raises(Busy):
                await store.kv.put("x", "y")
        await until(lambda: count(path, "orders") == 1, "the order is folded")
        running.cancel()


FILLING = """
import asyncio, resource, sys
from pathlib import Path
from backhaul.core.clock import SystemClock
from backhaul.errors import Busy
from backhaul.store.inbox import Arrival
from backhaul.store.sqlite.opening import open_store

def arrival(body):
    return Arrival("main", "delivery", "", "", b"", body)

async def fill(store):
    kept = refused = 0
    while refused < 5:
        try:
            await store.inbox.append(arrival(b"x" * 3000))
            kept += 1
        except Busy:
            refused += 1
    return kept

async def main(path):
    store = open_store(path, SystemClock())
    store.start()
    await store.inbox.append(arrival(b"before"))
    size = path.with_name(path.name + "-wal").stat().st_size
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 400_000, hard))
    kept = await fill(store)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    await store.inbox.append(arrival(b"after"))
    await store.stop()
    sys.stdout.write(str(kept))

asyncio.run(main(Path(sys.argv[1])))
"""


def test_a_file_that_may_not_grow_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "backhaul.db"
    done = subprocess.run(
        [sys.executable, "-c", FILLING, str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20
    assert count(path, "inbox") == int(done.stdout) + 2
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]
