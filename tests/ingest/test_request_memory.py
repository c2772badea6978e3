"""All requests together may use limited memory; above that they get 503."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from scenes.databases import count, locked
from scenes.payloads import envelope, order, signed
from scenes.receiver import raw_request, served, status_of
from scenes.waiting import HANG_SECONDS, until

if TYPE_CHECKING:
    from backhaul.store import Store
    from scenes.receiver import Served

MOST = 60_000
BODY = envelope("orders/create", order(note="x" * 20_000))
SMALL = envelope("orders/create", order("ord_2"))
WHOLE = raw_request(BODY, signed(BODY).items())


async def until_held(receiver: Served, number: int) -> None:
    def held() -> int:
        return sum(connection.bytes for connection in receiver.arrivals.open.values())

    await until(lambda: held() >= number, f"{number} bytes came")


async def test_bytes_that_wait_for_the_disk_count(store: Store) -> None:
    async with served(store.inbox, max_waiting_bytes=MOST) as receiver:
        with locked(store.place):
            first = [asyncio.create_task(receiver.raw(WHOLE)) for _ in range(2)]
            await until_held(receiver, 40_000)
            answer = await receiver.raw(WHOLE)
            assert status_of(answer) == 503
            assert b"Retry-After: 1" in answer
        assert [status_of(await task) for task in first] == [200, 200]
        assert status_of(await receiver.raw(WHOLE)) == 200
    assert count(store.place, "inbox") == 3


async def test_half_a_body_counts_until_it_goes(store: Store) -> None:
    async with served(store.inbox, max_waiting_bytes=MOST) as receiver:
        pairs = [await receiver.connect() for _ in range(3)]
        for _, writer in pairs:
            writer.write(WHOLE[:19_000])
        await until_held(receiver, 57_000)
        assert (await receiver.post(BODY)).status == 503
        for _, writer in pairs:
            writer.close()
        await until(lambda: len(receiver.arrivals.open) <= 1, "they are gone")
        assert (await receiver.post(BODY)).status == 200


async def test_a_body_on_its_way_is_refused_at_once(store: Store) -> None:
    async with served(store.inbox, max_waiting_bytes=MOST) as receiver:
        reader, writer = await receiver.connect()
        writer.write(raw_request(b"x" * (MOST + 2_000), ())[:-100])
        async with asyncio.timeout(HANG_SECONDS):
            assert (await reader.readexactly(12)).endswith(b"503")
            writer.write(b"x" * 100)
            assert b"too many requests at once" in await reader.read()
        writer.close()
        assert (await receiver.post(SMALL)).status == 200


async def test_many_requests_of_one_connection_are_counted_one_by_one(
    store: Store,
) -> None:
    async with served(store.inbox, max_waiting_bytes=MOST) as receiver:
        statuses = {(await receiver.post(BODY)).status for _ in range(10)}
        assert statuses == {200}
        await until_held(receiver, 0)
