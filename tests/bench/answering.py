"""A bare aiohttp handler: it answers every request with the bytes it was given."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import typer
import uvloop
from aiohttp import web

if TYPE_CHECKING:
    from ssl import SSLContext

LARGEST_BODY_BYTES = 1_048_576


async def serve(app: web.Application, tls: SSLContext | None = None) -> None:
    """Serve on a free port, which is printed, until SIGTERM."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    runner = web.AppRunner(app, access_log=None, handle_signals=False)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    typer.echo(runner.addresses[0][1])
    await stopping.wait()
    await runner.cleanup()


def _app(body: bytes, status: int) -> web.Application:
    async def answer(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=body, status=status, content_type="application/json")

    app = web.Application(client_max_size=LARGEST_BODY_BYTES)
    app.router.add_route("*", "/{path:.*}", answer)
    return app


def main(file: str, status: int) -> None:
    """Serve until SIGTERM."""
    uvloop.run(serve(_app(Path(file).read_bytes(), status)))


if __name__ == "__main__":
    typer.run(main)
