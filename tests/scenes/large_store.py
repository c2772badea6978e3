"""A platform with a great number of orders, and a mirror with most of them."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

from aiohttp import web

from backhaul.core import strict_json
from backhaul.platform import decoding
from scenes import payloads
from scenes.databases import make_database

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

PAGE_ROWS = 100
QUERY = {"page": "1", "limit": f"{PAGE_ROWS}"}
NUMBER = 1_234_567
"""The placeholder of the order number in the template of all orders."""
OLD, NOW = payloads.instant(0), payloads.instant(60)
CONFIGURATION = """
state_dir = "{folder}/state"
[reconcile]
grace = "1ms"
[stores.main]
base_url = "{url}"
api_key = "svc_live_many0123456789"
webhook_secrets = ["whsec_many0123456789"]
"""


def _template(updated_at: str) -> bytes:
    """Return a small order as canonical JSON."""
    made = payloads.order(f"ord_{NUMBER}", number=NUMBER, customer=None, items=[])
    for name in ("totals", "confirmation", "createdAt", "source", "externalId"):
        del made[name]
    document = decoding.order(
        made | {"updatedAt": updated_at, "placedAt": OLD}
    ).document
    assert document.count(b"%d" % NUMBER) == 3
    return document


TEMPLATES = {at: _template(at) for at in (OLD, NOW)}


def order(number: int, updated_at: str = NOW) -> bytes:
    """Return an order as the platform shows it; numbers have seven digits."""
    return TEMPLATES[updated_at].replace(b"%d" % NUMBER, b"%d" % number)


@dataclass(slots=True)
class Platform:
    """Lists orders, the newest first.

    After every `new_each` pages a new order is placed, until the last page.
    """

    first: int
    last: int
    new_each: int = 0
    has_totals: bool = True
    pages: int = 0
    asked: list[str] = field(default_factory=list)
    """The ids of orders that were read one by one."""

    @property
    def count(self) -> int:
        return self.last - self.first + 1

    async def list(self, request: web.Request) -> web.Response:
        self.pages += 1
        if self.new_each and self.pages % self.new_each == 0:
            self.last += 1
        page, limit = (int(request.query.get(n, d)) for n, d in QUERY.items())
        newest = self.last - (page - 1) * limit
        oldest = max(newest - limit, self.first - 1)
        rows = b",".join(order(n) for n in range(newest, oldest, -1))
        more = {"hasMore": oldest >= self.first}
        if not more["hasMore"]:
            self.new_each = 0
        meta = strict_json.encode(
            more | ({"total": self.count} if self.has_totals else {})
        )
        body = b'{"data":[%b],"meta":%b}' % (rows, meta)
        return web.Response(body=body, content_type="application/json")

    async def one(self, request: web.Request) -> web.Response:
        id_ = request.match_info["id"]
        self.asked.append(id_)
        number = int(id_.removeprefix("ord_"))
        if not self.first <= number <= self.last:
            return web.json_response({"code": "NOT_FOUND"}, status=404)
        return web.Response(body=b'{"data":%b}' % order(number))


@contextmanager
def serving(platform: Platform, folder: Path) -> Iterator[Path]:
    """Serve the platform in a thread; yield a configuration for it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    runner, port = asyncio.run_coroutine_threadsafe(_start(platform), loop).result()
    config = folder / "backhaul.toml"
    url = f"http://127.0.0.1:{port}"
    config.write_text(CONFIGURATION.format(folder=folder, url=url))
    try:
        yield config
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _start(platform: Platform) -> tuple[web.AppRunner, int]:
    app = web.Application()
    app.router.add_get("/api/v1/orders", platform.list)
    app.router.add_get("/api/v1/orders/{id}", platform.one)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    return runner, int(runner.addresses[0][1])


def mirror(
    path: Path, numbers: Iterable[int], stale: Collection[int] = frozenset()
) -> None:
    """Create a database with these orders, some of them outdated."""
    make_database(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany(
            "INSERT INTO orders (store, id, number, name, status, financial_status,"
            " fulfillment_status, placed_at, total_minor, currency, document,"
            " updated_at, sequence, delivered, seen_at, digest, standing, confirmed_at)"
            " VALUES ('main', ?, ?, ?, 'PENDING', 'PENDING', 'UNFULFILLED', ?, 0,"
            " 'INR', ?, ?, 0, 0, ?, ?, 0, '')",
            (_row(number, OLD if number in stale else NOW) for number in numbers),
        )


def _row(number: int, at: str) -> tuple[object, ...]:
    document = order(number, at)
    digest = sha256(document).digest()
    id_, name = f"ord_{number}", f"#{number}"
    return id_, number, name, OLD, document.decode(), at, at, digest


def differing(path: Path, platform: Platform) -> list[str]:
    """Return the ids of orders that are missing or different in the mirror."""
    wanted = {f"ord_{n}" for n in range(platform.first, platform.last + 1)}
    wrong = []
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        for id_, document in connection.execute("SELECT id, document FROM orders"):
            is_there = id_ in wanted
            wanted.discard(id_)
            if not is_there or document.encode() != order(int(id_[4:])):
                wrong.append(id_)
    return [*wrong, *sorted(wanted)]
