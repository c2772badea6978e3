"""A receiver of webhooks: it takes them all and tells how many events they were."""

from __future__ import annotations

import typer
import uvloop
from aiohttp import web

from bench.answering import serve


def _app() -> web.Application:
    events: set[str] = set()

    async def take(request: web.Request) -> web.Response:
        await request.read()
        events.add(request.headers["webhook-id"])
        return web.Response()

    async def count(request: web.Request) -> web.Response:
        return web.json_response(len(events))

    app = web.Application()
    app.add_routes([web.post("/", take), web.get("/", count)])
    return app


def main() -> None:
    """Serve until SIGTERM."""
    uvloop.run(serve(_app()))


if __name__ == "__main__":
    typer.run(main)
