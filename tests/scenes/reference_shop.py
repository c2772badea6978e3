"""The reference server in this process, a shopper, a back office, a receiver."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
from aiohttp import web

from backhaul_reference.arguments import Options
from backhaul_reference.data_folder import Folder
from backhaul_reference.mail.transports import Tls
from backhaul_reference.platform.state.database import open_writer
from backhaul_reference.platform.state.webhook_outbox import TOPICS
from backhaul_reference.platform.webhooks.sender import Schedule
from backhaul_reference.server import Environment, Running, start
from scenes import leftovers as test_session
from scenes import tracking_tokens
from scenes.recorded_exchanges import HERE, Recorder, recording
from scenes.waiting import HANG_SECONDS

ADDRESS = {"address1": "12 MG Road", "city": "Pune", "country": "IN", "zip": "411001"}
CUSTOMER = {"name": "Asha Rao", "email": "asha@example.com"}


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete response."""

    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def data(self) -> Any:
        assert self.status < 300, self.body
        return self.body["data"]

    @property
    def code(self) -> str:
        return str(self.body["code"])


@dataclass(frozen=True, slots=True)
class Shop:
    """A running server and one client for all its surfaces."""

    running: Running
    session: aiohttp.ClientSession

    async def ask(
        self, method: str, url: str, headers: Mapping[str, str], **sent: Any
    ) -> Reply:
        async with self.session.request(method, url, headers=headers, **sent) as reply:
            test_session.issued_in(await reply.read())
            is_json = "json" in reply.content_type
            body = await (reply.json(content_type=None) if is_json else reply.text())
            return Reply(reply.status, reply.headers, body)

    async def v1(
        self, method: str, path: str, json: Any = None, key: str = "", **sent: Any
    ) -> Reply:
        headers = {"Authorization": f"Bearer {key or self.running.access.api_key}"}
        url = f"{self.running.access.public_url}/api/v1{path}"
        headers |= sent.pop("headers", {})
        return await self.ask(method, url, headers, json=json, **sent)

    async def shopper(
        self, method: str, path: str, json: Any = None, store: str = "demo", **sent: Any
    ) -> Reply:
        headers = {"x-subdomain": store} | sent.pop("headers", {})
        url = f"{self.running.access.public_url}/storefront{path}"
        return await self.ask(method, url, headers, json=json, **sent)

    async def control(self, method: str, path: str, json: Any = None) -> Reply:
        headers = {"Authorization": f"Bearer {self.running.access.control_token}"}
        url = f"{self.running.access.control_url}/_control{path}"
        return await self.ask(method, url, headers, json=json)

    async def state(self) -> Any:
        return (await self.control("GET", "/stores/demo/state")).body

    async def settings(self, **values: Any) -> None:
        reply = await self.control("PUT", "/stores/demo/settings", values)
        assert reply.status == 200, reply.body

    async def product(self, stock: int = 10, **values: Any) -> Any:
        body = {"title": "Lamp", "price": "100.00", "stock": stock, **values}
        return (await self.v1("POST", "/products", body)).data

    async def order(self, product: Any, quantity: int = 1) -> Any:
        """Place an order as a shopper; return it as the API v1 shows it."""
        placed = await self.shopper("POST", "/orders", cart(product, quantity))
        return (await self.v1("GET", f"/orders/{placed.data['id']}")).data

    async def topics_since(self, sequence: int) -> list[str]:
        """Return the topics of the events after a sequence number."""
        rows = self.running.platform.reader.read(
            lambda rows: rows.all(
                "SELECT topic FROM event WHERE sequence > ? ORDER BY sequence",
                (sequence,),
            )
        )
        return [row["topic"] for row in rows]

    def event_bodies(self) -> list[bytes]:
        """Return the bodies of all events in the order of their sequence numbers."""
        rows = self.running.platform.reader.read(
            lambda rows: rows.all("SELECT body FROM event ORDER BY sequence")
        )
        return [row["body"] for row in rows]

    def is_delivering(self) -> bool:
        """Return True while a webhook is neither delivered nor given up."""
        rows = self.running.platform.reader.read(
            lambda rows: rows.all(
                "SELECT 1 FROM delivery WHERE status = 'PENDING' LIMIT 1"
            )
        )
        return bool(rows)

    async def sequence(self) -> int:
        return int((await self.state())["sequence"])


def cart(product: Any, quantity: int = 1, **values: Any) -> dict[str, Any]:
    variant = product["variants"][0]["id"]
    item = {"productId": product["id"], "variantId": variant, "quantity": quantity}
    return {
        "paymentMethod": "COD",
        "items": [item],
        "customer": CUSTOMER,
        "shippingAddress": ADDRESS,
        **values,
    }


@cache
def _new_database() -> bytes:
    """Return the bytes of an empty database with the current schema, made once."""
    with TemporaryDirectory() as name:
        path = Path(name, "new.db")
        open_writer(path).close()
        return path.read_bytes()


def _make_database(data: Path) -> None:
    """Create a new server's database from a copy, because the schema is slow."""
    database = Folder(data).database
    if not database.exists():
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        database.write_bytes(_new_database())


@asynccontextmanager
async def open_shop(
    data: Path,
    *,
    fixture: str = "empty",
    limits: bool = False,
    quotas: Mapping[str, int] | None = None,
    delays: tuple[float, ...] = (0.0, 0.05, 0.05, 0.05),
    private: bool = True,
    world: Environment | None = None,
    smtp_port: int | None = None,
    smtp_tls: Tls = "auto",
    smtp_login: Path | None = None,
    recorder: Recorder | None = HERE,
) -> AsyncIterator[Shop]:
    _make_database(data)
    options = Options(
        data=data,
        port=0,
        control_port=0,
        fixture=fixture,
        limits=limits,
        quotas=quotas or {},
        retry_schedule=Schedule(delays),
        allow_private_webhook_targets=private,
        smtp=None if smtp_port is None else ("127.0.0.1", smtp_port),
        smtp_tls=smtp_tls,
        smtp_login=smtp_login,
    )
    around = [] if recorder is None else [recording(recorder)]
    running = await start(options, world, around)
    test_session.issued(running.access.api_key, running.access.control_token)
    try:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:
            yield Shop(running, session)
    finally:
        await running.stop()
        await asyncio.to_thread(tracking_tokens.check_servers, data)


@dataclass(frozen=True, slots=True)
class Received:
    """One delivery as it arrived."""

    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True)
class Receiver:
    """A webhook receiver that answers with `answers` in turn, then with 200."""

    url: str = ""
    received: list[Received] = field(default_factory=list)
    answers: list[web.Response] = field(default_factory=list)
    gate: asyncio.Event | None = None
    _more: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        test_session.keep_delivery(request.headers, body)
        async with self._more:
            self.received.append(Received(request.headers.copy(), body))
            self._more.notify_all()
        if self.gate is not None:
            await self.gate.wait()
        return self.answers.pop(0) if self.answers else web.Response()

    async def until(self, count: int) -> list[Received]:
        async with asyncio.timeout(HANG_SECONDS), self._more:
            await self._more.wait_for(lambda: len(self.received) >= count)
        return self.received


@asynccontextmanager
async def open_receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    app = web.Application()
    app.router.add_post("/hook", receiver.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    try:
        yield receiver
    finally:
        await runner.cleanup()


async def subscribe(shop: Shop, receiver: Receiver, *topics: str) -> Any:
    body = {"address": receiver.url, "topics": list(topics or TOPICS)}
    return (await shop.v1("POST", "/webhooks", body)).data
