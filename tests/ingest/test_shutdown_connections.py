"""A client that connects while a listener shuts down is still answered."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import pytest
import uvloop
from aiohttp import web

from backhaul.app import public_http, sockets
from backhaul.app.public_http import RequestLimits
from scenes.waiting import HANG_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import Callable

ASK = b"GET /this HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


async def answer(_: web.Request) -> web.Response:
    return web.Response(text="whole")


async def listener_on(sock: socket.socket) -> sockets.Listener:
    arrivals = RequestLimits(5, 5, 1_000)
    app = public_http.build([web.get("/{name}", answer)], 1_000, arrivals)
    listener = sockets.Listener(app, 5, arrivals)
    await listener.start(sock)
    return listener


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("rounds", range(6))
def test_a_late_connection_is_answered_by_this_process_or_the_next(
    rounds: int, run: Callable[[Any], None]
) -> None:
    """The number of iterations of the event loop since then does not matter."""

    async def come() -> None:
        with sockets.bind_tcp("127.0.0.1", 0, "public") as kept:
            kept.listen()
            ending = await listener_on(kept.dup())
            client = socket.create_connection(kept.getsockname())
            client.sendall(ASK)
            for _ in range(rounds):
                await asyncio.sleep(0)
            await ending.stop()
            following = await listener_on(kept.dup())
            client.setblocking(False)
            reader, writer = await asyncio.open_connection(sock=client)
            async with asyncio.timeout(HANG_SECONDS):
                assert (await reader.read()).endswith(b"whole")
            writer.close()
            await writer.wait_closed()
            await following.stop()

    run(come())


async def test_a_new_connection_is_answered_and_a_silent_one_is_left() -> None:
    arrivals = RequestLimits(5, 5, 1_000)
    app = public_http.build([web.get("/{name}", answer)], 1_000, arrivals)
    listener = sockets.Listener(app, 5, arrivals)
    sock = sockets.bind_tcp("127.0.0.1", 0, "public")
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
        async with asyncio.timeout(HANG_SECONDS):
            assert await silent.read() == b""
            await ending
    writer.close()
    other.close()
