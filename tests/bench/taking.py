"""A platform that takes every stock adjustment at once, and does nothing else."""

from __future__ import annotations

import ssl
from itertools import count
from typing import Annotated

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


def main(
    certificate: Annotated[str | None, typer.Argument()] = None,
    key: Annotated[str | None, typer.Argument()] = None,
) -> None:
    """Serve until SIGTERM, over TLS with a certificate."""
    context = None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
    uvloop.run(serve(_app(), context))


if __name__ == "__main__":
    typer.run(main)
