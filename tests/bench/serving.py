"""The measured servers, each in a process of its own: `python -m bench.serving`."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer
import uvloop
from aiohttp import web

from backhaul.app import process_tuning, public_http
from backhaul.app.public_http import RequestLimits
from backhaul.app.sockets import Listener, bind_tcp
from backhaul.core import webhook
from backhaul.core.clock import SystemClock
from backhaul.ingest.fold_worker import FoldWorker
from backhaul.ingest.receiver import Receiver
from backhaul.ingest.webhook_secrets import SecretRegistry
from backhaul.store.sqlite.opening import open_store
from bench.orders import PATH, SECRET, STORE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp.typedefs import Handler

MAX_BODY_BYTES = 1_048_576
SLOW_PER_ADDRESS = 32
MAX_WAITING_BYTES = 16 << 20
REQUEST_SECONDS = 10.0


class Kind(StrEnum):
    """What is served: nothing kept, kept, or kept and folded."""

    BARE = "bare"
    KEEPING = "keeping"
    FOLDING = "folding"


def bare_handler() -> Handler:
    """Return the yardstick: read the body, check its signature, answer."""

    async def receive(request: web.Request) -> web.Response:
        body = await request.read()
        presented = request.headers.get(webhook.HEADER, "")
        known = webhook.verify(body, presented, [SECRET]) is not None
        return web.Response(status=200 if known else 401)

    return receive


@contextlib.asynccontextmanager
async def _routes(kind: Kind, database: Path) -> AsyncIterator[list[web.RouteDef]]:
    if kind is Kind.BARE:
        yield [web.post(PATH, bare_handler())]
        return
    clock = SystemClock()
    store = open_store(database, clock)
    store.start()
    drain = FoldWorker(store.inbox, clock, {})
    signers = SecretRegistry(store.webhook_secrets, clock)
    await signers.load({STORE: [SECRET]})
    receiver = Receiver(store.inbox, clock, signers, drain.wake)
    try:
        async with asyncio.TaskGroup() as tasks:
            folding = [tasks.create_task(drain.run())] if kind is Kind.FOLDING else []
            yield receiver.routes()
            for task in folding:
                task.cancel()
    finally:
        await store.stop()


def _listener(kind: Kind, routes: list[web.RouteDef]) -> Listener:
    """Return ours with all its guards, or aiohttp's application and nothing more."""
    if kind is Kind.BARE:
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_routes(routes)
        return Listener(app)
    arrivals = RequestLimits(REQUEST_SECONDS, SLOW_PER_ADDRESS, MAX_WAITING_BYTES)
    return Listener(public_http.build(routes, MAX_BODY_BYTES, arrivals), guard=arrivals)


async def _serve(kind: Kind, database: Path) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    if kind is not Kind.BARE:
        process_tuning.collect_less_often()
    async with _routes(kind, database) as routes:
        listener = _listener(kind, routes)
        sock = bind_tcp("127.0.0.1", 0, "bench")
        await listener.start(sock)
        typer.echo(sock.getsockname()[1])
        await stopping.wait()
        await listener.stop()


def main(kind: Kind, database: str) -> None:
    """Serve on a free port, which is printed, until SIGTERM."""
    uvloop.run(_serve(kind, Path(database)))


if __name__ == "__main__":
    typer.run(main)
