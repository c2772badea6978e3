"""The exported state of one moment: canonical bytes, in parts, under other load."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from aiohttp import web

from backhaul_reference.control import state_export
from backhaul_reference.platform.http.middleware import EXTRA_HEADERS
from backhaul_reference.platform.json_codec import decode_stored, encode
from backhaul_reference.platform.state.database import BATCH
from scenes.reference_shop import Shop, open_shop
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

MANY = 1_000
STATE = "/stores/demo/state"
MEMBERS = [
    *("sequence", "products", "orders", "customers", "levels", "history"),
    *("webhooks", "deliveries", "collections", "menus", "discounts", "zones"),
]


async def read(shop: Shop) -> bytes:
    headers = {"Authorization": f"Bearer {shop.running.access.control_token}"}
    url = f"{shop.running.access.control_url}/_control{STATE}"
    async with shop.session.get(url, headers=headers) as reply:
        assert reply.status == 200
        assert reply.content_type == "application/json"
        assert reply.headers["X-Request-Id"].startswith("req_")
        return await reply.read()


async def test_the_bytes_are_those_of_one_document(tmp_path: Path) -> None:
    for fixture in ("empty", "demo"):
        async with open_shop(tmp_path / fixture, fixture=fixture) as shop:
            answer = await read(shop)
            assert answer == encode(decode_stored(answer))
            assert list(decode_stored(answer)) == MEMBERS


async def test_more_than_a_batch_comes_whole_and_in_order(shop: Shop) -> None:
    product = await shop.product(stock=BATCH * 3)
    for _ in range(BATCH + 1):
        await shop.order(product)
    state = decode_stored(await read(shop))
    numbers = [order["number"] for order in state["orders"]]
    assert numbers == list(range(1001, 1001 + BATCH + 1))
    assert [row["orderId"] for row in state["history"]][1:] == [
        order["id"] for order in state["orders"]
    ]


async def test_no_part_grows_with_the_store(tmp_path: Path) -> None:
    async with open_shop(tmp_path, fixture="demo") as shop:
        with shop.running.platform.open_rows() as rows:
            parts = list(state_export.snapshot(rows, "demo"))
        state = decode_stored(b"".join(parts))
    longest = max(len(encode(one)) for one in state["orders"] + state["products"])
    assert len(parts) > len(state["orders"]) + len(state["products"])
    small = len(encode(state["menus"])) + len(encode(state["collections"]))
    assert max(map(len, parts)) <= max(longest, small) + len(b',"collections":')


async def test_an_unknown_store_and_a_head(shop: Shop) -> None:
    assert (await shop.control("GET", "/stores/x/state")).code == "STORE_NOT_FOUND"
    reply = await shop.control("HEAD", STATE)
    assert (reply.status, reply.body) == (200, None)
    assert (await shop.control("GET", "/stores/demo")).status == 200


@asynccontextmanager
async def asked_for(parts: Iterator[bytes]) -> AsyncIterator[asyncio.StreamReader]:
    """The answer of a server that streams these parts, as far as it is read."""

    async def handle(request: web.Request) -> web.StreamResponse:
        request[EXTRA_HEADERS] = {}
        return await state_export.stream_json(request, parts)

    app = web.Application()
    app.router.add_get("/", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    try:
        yield reader
    finally:
        writer.close()
        await runner.cleanup()


async def test_a_failure_halfway_ends_the_connection() -> None:
    def parts() -> Iterator[bytes]:
        yield b"x" * state_export.CHUNK_BYTES
        raise RuntimeError("the disk is gone")

    answer = b""
    async with asked_for(parts()) as reader:
        with suppress(ConnectionResetError):
            while chunk := await reader.read(65536):
                answer += chunk
    assert not answer.endswith(b"0\r\n\r\n")
    assert answer.count(b"HTTP/1.1") <= 1


async def test_a_client_that_stops_reading_stops_the_export(shop: Shop) -> None:
    made: list[int] = []

    def parts() -> Iterator[bytes]:
        for number in range(MANY):
            made.append(number)
            yield b"x" * state_export.CHUNK_BYTES

    async with asked_for(parts()):
        await until(lambda: made, "the first part is made")
        held = -1
        while held != len(made):
            held = len(made)
            for _ in range(20):
                assert (await shop.shopper("GET", "/store")).status == 200
    assert held < MANY
