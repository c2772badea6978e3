"""`python -m faults.office PORT FILE`: an office to be killed, which keeps what came.

Each message and each order that comes is a line of FILE before it is answered, also one
that came before. Between the steps of its work it dawdles: there it dies. It imports
little, for it is started often.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import web
from standardwebhooks import Webhook

if TYPE_CHECKING:
    from collections.abc import Mapping

SECRET = "whsec_a2V5LW9mLWFuLW9mZmljZS10aGF0LWRpZXM="
TOKEN = "token-of-an-office-that-dies"
ITEMS = 200
PAGE_ITEMS = 10
DAWDLES_SECONDS = 0.01
CHANCES = random.Random()  # noqa: S311 - chooses moments, guards nothing


class Office:
    """Receives webhooks and orders, and lists its shipments and parcels."""

    def __init__(self, file: str) -> None:
        self._file = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._came = came(Path(file))
        self._webhook = Webhook(SECRET)

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/news", self._take_news)
        app.router.add_post("/orders", self._take_order)
        app.router.add_get("/orders/{id}", self._order)
        app.router.add_get("/shipments", self._shipments)
        app.router.add_get("/api/v2/parcels", self._parcels)
        return app

    async def _take_news(self, request: web.Request) -> web.StreamResponse:
        self._webhook.verify(await request.read(), dict(request.headers))
        await self._keep(request.headers["webhook-id"])
        return await _answered(request, {})

    async def _take_order(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        _let_in(request)
        number = await self._keep(request.headers["Idempotency-Key"])
        return await _answered(request, {"number": number})

    async def _order(self, request: web.Request) -> web.StreamResponse:
        _let_in(request)
        id_ = request.match_info["id"]
        number = self._came.index(id_) + 1 if id_ in self._came else None
        return await _answered(request, {"number": number})

    async def _shipments(self, request: web.Request) -> web.StreamResponse:
        _let_in(request)
        start, following = _page(request.query.get("after", "0"))
        found = [_shipment(number) for number in range(start, start + PAGE_ITEMS)]
        return await _answered(request, {"data": found, "next": following})

    async def _parcels(self, request: web.Request) -> web.StreamResponse:
        start, following = _page(request.query.get("start", "0"))
        path = f"/api/v2/parcels?start={following}" if following else None
        found = [_parcel(number) for number in range(start, start + PAGE_ITEMS)]
        return await _answered(request, {"parcels": found, "next": path})

    async def _keep(self, id_: str) -> int:
        await _dawdle()
        # one unbuffered write: after a kill there is the whole line or nothing
        os.write(self._file, f"{id_}\n".encode())
        self._came.append(id_)
        number = len(self._came)
        await _dawdle()
        return number


def came(file: Path) -> list[str]:
    """Return the ids that an office stored, in order of arrival."""
    return file.read_text().splitlines()


async def _answered(
    request: web.Request, document: Mapping[str, Any]
) -> web.StreamResponse:
    """Answer in two parts."""
    body = json.dumps(document).encode()
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.content_length = len(body)
    await response.prepare(request)
    await response.write(body[: len(body) // 2])
    await _dawdle()
    await response.write(body[len(body) // 2 :])
    return response


def _shipment(number: int) -> dict[str, Any]:
    return {"id": number, "order": 1001 + number, "parcel": {"number": f"BD{number}"}}


def _parcel(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "tracking_number": f"EZ{number}",
        "status": {"id": 11, "message": "Delivered"},
        "carrier": {"code": "postnl"},
        "date_updated": "2025-12-31T08:00:00Z",
    }


def _let_in(request: web.Request) -> None:
    if request.headers.get("Authorization") != f"Bearer {TOKEN}":
        raise web.HTTPUnauthorized


def _page(start: str) -> tuple[int, int | None]:
    following = int(start) + PAGE_ITEMS
    return int(start), following if following < ITEMS else None


async def _dawdle() -> None:
    await asyncio.sleep(CHANCES.uniform(0, DAWDLES_SECONDS))


def main(port: str, file: str) -> None:
    app = Office(file).app()
    web.run_app(app, host="127.0.0.1", port=int(port), print=None, access_log=None)


if __name__ == "__main__":
    main(*sys.argv[1:])
