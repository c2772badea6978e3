"""`python -m faults.office PORT FILE`: an office to be killed, which keeps what came.

Each message and each order that comes is a row of FILE before it is answered, also one
that came before. Between the steps of its work it dawdles: there it dies. It imports
little, for it is started often.
"""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
import sys
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
        self._books = sqlite3.connect(file)
        # A kill takes nothing from the system's memory, only power loss would.
        self._books.execute("PRAGMA synchronous = OFF")
        self._books.execute(
            "CREATE TABLE IF NOT EXISTS came (number INTEGER PRIMARY KEY, id TEXT)"
        )
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
        query = "SELECT number FROM came WHERE id = ?"
        row = self._books.execute(query, (request.match_info["id"],)).fetchone()
        return await _answered(request, {"number": row[0] if row else None})

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
        with self._books:
            entry = self._books.execute("INSERT INTO came (id) VALUES (?)", (id_,))
        await _dawdle()
        return entry.lastrowid or 0


async def _answered(
    request: web.Request, document: Mapping[str, Any]
) -> web.StreamResponse:
    """Answer in two pieces."""
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
