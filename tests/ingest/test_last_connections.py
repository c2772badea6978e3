"""Who has just connected when a listener ends may still ask, for a moment."""

from __future__ import annotations

import asyncio

from aiohttp import web

from backhaul import listening
from backhaul.public import site
from backhaul.public.arriving import GRACE_SECONDS, Arrivals
from support.waiting import until

ASK = b"GET /this HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


async def answer(_: web.Request) -> web.Response:
    return web.Response(text="whole")


async def test_who_has_just_come_is_answered_and_who_says_nothing_is_left() -> None:
    arrivals = Arrivals(5, 5, 1_000)
    app = site.build([web.get("/{name}", answer)], 1_000, arrivals)
    listener = listening.Listener(app, 5, arrivals)
    sock = listening.bind_tcp("127.0.0.1", 0, "public")
    host, port = sock.getsockname()
    await listener.start(sock)
    streams = [await asyncio.open_connection(host, port) for _ in range(2)]
    await until(lambda: len(arrivals.open) == 2, "both are connected")
    async with asyncio.TaskGroup() as group:
        ending = group.create_task(listener.stop())
        await asyncio.sleep(0)
        (reader, writer), (silent, other) = streams
        writer.write(ASK)
        assert (await reader.read()).endswith(b"whole")
        async with asyncio.timeout(3 * GRACE_SECONDS):
            assert await silent.read() == b""
            await ending
    writer.close()
    other.close()
