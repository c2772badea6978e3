"""The reference server's real handlers and state, in the simulation's own loop."""

from __future__ import annotations

import asyncio
import json
import queue
import shutil
import sqlite3
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from aiohttp import web

from backhaul_reference.control.state_export import snapshot
from backhaul_reference.fixtures import loader
from backhaul_reference.fixtures.loader import Identity
from backhaul_reference.platform import quirks
from backhaul_reference.platform.context import Platform, TrackingTokens
from backhaul_reference.platform.faults import Faults
from backhaul_reference.platform.formats import IdSource
from backhaul_reference.platform.rate_limits import Limits
from backhaul_reference.platform.state import stores, subscriptions
from backhaul_reference.platform.state.api_keys import KeyUses
from backhaul_reference.platform.state.database import (
    Reader,
    Row,
    open_reader,
    open_writer,
)
from backhaul_reference.platform.state.webhook_outbox import TOPICS
from backhaul_reference.platform.state.writer import Job, Tx, Writer, _notify
from backhaul_reference.server import public_app
from simulation.loop import Served
from simulation.wire import Answer, request_bytes, talk

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from simulation.clock import SimulatedClock

T = TypeVar("T")
API_KEY = "svc_live_simulated0123456789"
IDENTITY = Identity("sto_01ARZ3NDEKTSV4RRFFQ69G5FAV", API_KEY)
NEWS = "SELECT * FROM event WHERE seq > ? ORDER BY seq"
FILE = "platform.db"


class _InMemory:
    """Stands where a listening socket has its name."""

    def getsockname(self) -> str:
        return "platform"


class LoopWriter(Writer):
    """The server's own writer, which commits at once instead of in a thread."""

    def __init__(self, connection: sqlite3.Connection, ids: IdSource) -> None:
        self._tx = Tx(connection, ids)
        self._jobs = queue.SimpleQueue()

    async def run(self, operation: Callable[[Tx], T]) -> T:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        outcomes, _ = self._round(Job(operation, future))
        _notify(outcomes)
        return await future

    def post(self, operation: Callable[[Tx], object]) -> None:
        self._round(Job(operation, asyncio.get_running_loop().create_future()))

    def close(self) -> None:
        self._tx.connection.close()


@dataclass(slots=True)
class Shop:
    """The platform as the world sees it."""

    platform: Platform
    served: Served
    clock: SimulatedClock
    secret: str
    seen: int = 0
    listeners: list[Callable[[Row], None]] = field(default_factory=list)

    async def ask(self, request: bytes) -> Answer:
        """Let the platform handle a request; its news go out at once."""
        answer = await talk(self.served, request)
        self.tell_news()
        return answer

    async def v1(self, method: str, path: str, body: Any = None) -> Any:
        key = (b"authorization", f"Bearer {API_KEY}".encode())
        return await self._json(method, f"/api/v1{path}", key, body)

    async def shopper(self, method: str, path: str, body: Any = None) -> Any:
        store = (b"x-subdomain", b"demo")
        return await self._json(method, f"/storefront{path}", store, body)

    async def _json(
        self, method: str, target: str, header: tuple[bytes, bytes], body: Any
    ) -> Any:
        content = b"" if body is None else json.dumps(body).encode()
        headers = [header, (b"content-type", b"application/json")]
        answer = await self.ask(request_bytes(method, target, headers, content))
        assert answer.status < 300, (target, answer.body)
        return json.loads(answer.body or b"null")

    async def work(self, step: Callable[..., Any], *given: Any) -> Any:
        """Do what the merchant does by hand, as the control API would."""
        store = self.platform.reader.read(lambda r: stores.by_subdomain(r, "demo"))
        done = await self.platform.writer.run(lambda tx: step(tx, store, *given))
        self.tell_news()
        return done

    def tell_news(self) -> None:
        rows = self.platform.reader.read(lambda rows: rows.all(NEWS, (self.seen,)))
        for row in rows:
            self.seen = row["seq"]
            for listener in self.listeners:
                listener(row)

    def state(self) -> Any:
        """Return everything, as the control API shows it."""
        return json.loads(
            self.platform.reader.read(lambda rows: b"".join(snapshot(rows, "demo")))
        )


@asynccontextmanager
async def open_shop(
    folder: Path,
    clock: SimulatedClock,
    chance: random.Random,
    *,
    limits: bool = False,
    quirk: str = "",
) -> AsyncIterator[Shop]:
    """Open the platform whose state lies in this folder."""
    words = quirks.parse((quirk,) if quirk else ())
    ids = IdSource(clock, chance.randbytes)
    writer = LoopWriter(open_writer(folder / FILE), ids)
    reader = Reader(open_reader(folder / FILE))
    platform = Platform(
        clock=clock,
        key_uses=KeyUses(writer, clock),
        ids=ids,
        database=folder / FILE,
        writer=writer,
        reader=reader,
        tokens=TrackingTokens(b"k" * 32),
        limits=Limits(clock, enabled=limits, quotas={}),
        allow_private_targets=True,
        quirks=words,
        faults=Faults(),
        wake_dispatcher=lambda: None,
    )
    await writer.run(lambda tx: stores.change_all(tx, {"quirks": list(words.texts)}))
    runner = web.AppRunner(public_app(platform), handle_signals=False, access_log=None)
    await runner.setup()
    assert runner.server is not None
    served = Served(runner.server, _InMemory())  # type: ignore[arg-type]
    secret = reader.read(lambda rows: rows.value("SELECT secret FROM subscription"))
    seen = reader.read(lambda rows: rows.value("SELECT max(seq) FROM event"))
    try:
        yield Shop(platform, served, clock, str(secret), seen or 0)
    finally:
        await runner.cleanup()
        reader.connection.close()
        writer.close()


async def prepare(folder: Path, clock: SimulatedClock, chance: random.Random) -> None:
    """Make the state that every seed begins with: a store, its key, its products."""
    connection = open_writer(folder / FILE)
    writer = LoopWriter(connection, IdSource(clock, chance.randbytes))
    tokens = TrackingTokens(b"k" * 32)

    def fill(tx: Tx) -> None:
        loader.load(tx, "empty", IDENTITY, quirks.NONE, tokens)
        subscriptions.add(tx, IDENTITY.store_id, "http://daemon/", TOPICS, None)

    await writer.run(fill)
    writer.close()
    async with open_shop(folder, clock, chance) as shop:
        for number in range(3):
            variants = [
                {"title": size, "sku": f"T{number}-{size}", "price": "10.00"}
                | {"stock": 1000}
                for size in ("S", "M")
            ]
            body = {"title": f"Thing {number}", "variants": variants}
            await shop.v1("POST", "/products", body)
    with sqlite3.connect(folder / FILE) as closing:
        closing.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    closing.close()


def copy(source: Path, target: Path) -> None:
    shutil.copy(source / FILE, target / FILE)
