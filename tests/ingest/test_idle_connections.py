"""An idle HTTP connection keeps no memory of its last request."""

from __future__ import annotations

import weakref

import aiohttp
from aiohttp import web

from backhaul.app import public_http, sockets
from backhaul.app.public_http import SMALL_BYTES, RequestLimits
from scenes.waiting import until

LARGE = SMALL_BYTES + 1


async def test_a_large_body_goes_with_its_answer() -> None:
    served: list[weakref.ref[web.Request]] = []

    async def handle(request: web.Request) -> web.Response:
        assert request.match_info["name"] == "this"
        served.append(weakref.ref(request))
        return web.Response(text=str(len(await request.read())))

    arrivals = RequestLimits(5, 5, 10 * LARGE)
    app = public_http.build([web.post("/{name}", handle)], 2 * LARGE, arrivals)
    listener = sockets.Listener(app, 5, arrivals)
    sock = sockets.bind_tcp("127.0.0.1", 0, "public")
    url = sockets.url_of(sock)
    await listener.start(sock)
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{url}/this", data=b"x" * LARGE) as answer,
        ):
            assert int(await answer.text()) == LARGE
            await until(lambda: served[0]() is None, "the request is let go")
            assert len(arrivals.open) == 1
    finally:
        await listener.stop()
