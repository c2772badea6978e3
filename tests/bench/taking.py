"""A platform that takes every stock adjustment at once, and does nothing else."""

from __future__ import annotations

from itertools import count

import msgspec
import typer
import uvloop
from aiohttp import web

from bench.answering import serve

LARGEST_BODY_BYTES = 1_048_576
_ASKED = msgspec.json.Decoder()


def _app() -> web.Application:
    numbers = count(1)

    async def adjust(request: web.Request) -> web.Response:
        asked = _ASKED.decode(await request.read())
        done = {
            "adjustmentId": f"adj_{next(numbers)}",
            "productId": asked["productId"],
            "levels": [{"variantId": asked["variantId"], "stock": 1}],
        }
        body = msgspec.json.encode({"data": done})
        return web.Response(body=body, content_type="application/json")

    app = web.Application(client_max_size=LARGEST_BODY_BYTES)
    app.router.add_post("/api/v1/inventory/adjust", adjust)
    return app


if __name__ == "__main__":
    typer.run(lambda: uvloop.run(serve(_app())))
