"""The webhook dispatcher when the database refuses writes and receivers hang."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from backhaul_reference.platform.clock import SystemClock, start_task
from backhaul_reference.platform.faults import Faults
from backhaul_reference.platform.formats import IdSource
from backhaul_reference.platform.state.database import Reader, open_reader, open_writer
from backhaul_reference.platform.state.writer import Writer
from backhaul_reference.platform.webhooks.dispatcher import PER_SUBSCRIPTION, Dispatcher
from backhaul_reference.platform.webhooks.sender import (
    DeliveryFaults,
    Schedule,
    Sender,
)
from scenes.database_lock import LockOfAnotherProcess
from scenes.reference_shop import (
    Receiver,
    Shop,
    open_receiver,
    open_shop,
    subscribe,
)
from scenes.waiting import HANG_SECONDS, until

REFUSE = """CREATE TRIGGER refuse BEFORE INSERT ON delivery_attempt
BEGIN SELECT RAISE(ABORT, 'refused'); END"""
STATUS = "SELECT status FROM delivery"


def status(shop: Shop) -> str:
    found = shop.running.platform.reader.read(lambda rows: rows.value(STATUS))
    return str(found)


async def write(shop: Shop, sql: str) -> None:
    await shop.running.platform.writer.run(lambda tx: tx.run(sql))


async def test_an_end_that_fails_to_be_recorded_is_kept(
    shop: Shop, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    await subscribe(shop, receiver, "products/create")
    await write(shop, REFUSE)
    await shop.product()
    await until(lambda: "attempts kept" in caplog.text, "a refusal")
    await write(shop, "DROP TRIGGER refuse")
    await until(lambda: status(shop) == "DELIVERED", "the end of the attempt")
    assert len(receiver.received) == 1


async def test_a_stop_does_not_wait_for_storage(
    tmp_path: Path, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_shop(tmp_path) as shop:
        await subscribe(shop, receiver, "products/create")
        receiver.gate = asyncio.Event()
        await shop.product()
        await receiver.until(1)
        await shop.control("POST", "/clock", {"freeze": True})
        with LockOfAnotherProcess(shop.running.platform.database):
            receiver.gate.set()
            await until(lambda: "attempts kept" in caplog.text, "a refusal")
            async with asyncio.timeout(HANG_SECONDS):
                await shop.running.stop()
    assert "attempts given up count=1" in caplog.text
    async with open_shop(tmp_path):
        first, second = await receiver.until(2)
    assert first.body == second.body


async def test_a_stop_records_finished_attempts(
    tmp_path: Path, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_shop(tmp_path) as shop:
        await subscribe(shop, receiver, "products/create")
        await shop.control("POST", "/clock", {"freeze": True})
        await write(shop, REFUSE)
        await shop.product()
        await until(lambda: "attempts kept" in caplog.text, "a refusal")
        await write(shop, "DROP TRIGGER refuse")
    async with open_shop(tmp_path) as shop:
        assert status(shop) == "DELIVERED"


@asynccontextmanager
async def dispatching(database: Path, writer: Writer) -> AsyncIterator[None]:
    reader, clock = Reader(open_reader(database)), SystemClock()
    async with aiohttp.ClientSession() as session:
        mischief = DeliveryFaults(Faults(), clock)
        sender = Sender(session, clock, Schedule(), lambda: 0.5, True, mischief)
        dispatcher = Dispatcher(writer, reader, clock, sender)
        task = start_task(dispatcher.run())
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await dispatcher.stop()
    reader.connection.close()


async def test_a_database_that_is_busy_at_the_start_ends_nothing(
    tmp_path: Path, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.gate = asyncio.Event()
    async with open_shop(tmp_path) as shop:
        await subscribe(shop, receiver, "products/create")
        await shop.product()
        await receiver.until(1)
        database = shop.running.platform.database
    receiver.gate.set()
    writer = Writer(open_writer(database), IdSource(SystemClock()))
    with ExitStack() as lock:
        lock.enter_context(LockOfAnotherProcess(database))
        async with dispatching(database, writer):
            await until(lambda: "dispatch paused" in caplog.text, "a refusal")
            lock.close()
            await receiver.until(2)
    writer.close()


async def test_receivers_that_hang_hold_up_no_other(
    shop: Shop, receiver: Receiver
) -> None:
    async with open_receiver() as hanging:
        hanging.gate = asyncio.Event()
        for _ in range(4):
            await subscribe(shop, hanging, "products/create")
        await subscribe(shop, receiver, "customers/create")
        for _ in range(PER_SUBSCRIPTION):
            await shop.product()
        await hanging.until(4 * PER_SUBSCRIPTION)
        async with asyncio.timeout(HANG_SECONDS):
            await shop.v1("POST", "/customers", {"email": "a@example.com"})
            await receiver.until(1)
        hanging.gate.set()
