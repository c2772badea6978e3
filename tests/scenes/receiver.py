"""A receiver on a real socket, and clients that send invalid requests."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp
from yarl import URL

from backhaul.app import public_http, sockets
from backhaul.app.public_http import RequestLimits
from backhaul.core.clock import SystemClock
from backhaul.ingest.receiver import Receiver
from backhaul.ingest.webhook_secrets import SecretRegistry
from scenes.payloads import OLD_SECRET, SECRET, signed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

    from backhaul.store.inbox import Appending
    from backhaul.store.operations import AuditEntry

MAX_BODY_BYTES = 64_000
SECRETS = {"main": (SECRET, OLD_SECRET), "other": (b"another secret",)}


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete response."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True)
class Served:
    """A running receiver, and the events that it accepted."""

    url: str
    session: aiohttp.ClientSession
    arrivals: RequestLimits
    webhook_secrets: SecretRegistry
    woken: int = 0

    @property
    def port(self) -> int:
        return URL(self.url).port or 0

    async def post(
        self,
        body: bytes,
        headers: dict[str, str] | list[tuple[str, str]] | None = None,
        path: str = "/webhooks/main",
    ) -> Reply:
        """Send a webhook, signed unless `headers` replaces the signature."""
        sent = signed(body) if headers is None else headers
        url = URL(self.url + path, encoded=True)
        async with self.session.post(url, data=body, headers=sent) as answer:
            content = await answer.read()
            return Reply(answer.status, dict(answer.headers), content)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def raw(self, request: bytes) -> bytes:
        """Send raw bytes; return all bytes until the server closes the connection."""
        reader, writer = await self.connect()
        writer.write(request)
        await writer.drain()
        try:
            return await reader.read()
        finally:
            writer.close()


class SecretsInMemory:
    """Webhook secrets in memory, for a receiver without a database."""

    def __init__(self) -> None:
        self._dropped: set[str] = set()

    async def set_known(
        self, store: str, names: Sequence[str], source: str
    ) -> set[str]:
        return self._dropped

    async def record_uses(self, uses: Mapping[tuple[str, str], str]) -> None: ...

    async def last_used(self, store: str, name: str) -> str | None: ...

    async def set_revoked(
        self, store: str, name: str, dropped: bool, deed: AuditEntry
    ) -> set[str]:
        self._dropped ^= {name}
        return self._dropped


@asynccontextmanager
async def served(
    inbox: Appending,
    *,
    request_seconds: float = 10.0,
    max_connections: int = 512,
    slow_per_address: int = 32,
    max_waiting_bytes: int = 16 << 20,
    trusted: Sequence[str] = (),
    now: Callable[[], float] | None = None,
    secrets: Mapping[str, Sequence[bytes]] = SECRETS,
) -> AsyncIterator[Served]:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        connector=connector, auto_decompress=False
    ) as session:
        arrivals = RequestLimits(
            request_seconds, slow_per_address, max_waiting_bytes, trusted, now
        )
        clock = SystemClock()
        signers = SecretRegistry(SecretsInMemory(), clock)
        await signers.load(secrets)
        running = Served("", session, arrivals, signers)

        def arrived() -> None:
            running.woken += 1

        receiver = Receiver(inbox, clock, signers, arrived)
        app = public_http.build(receiver.routes(), MAX_BODY_BYTES, arrivals)
        listener = sockets.Listener(app, max_connections, arrivals)
        sock = sockets.bind_tcp("127.0.0.1", 0, "public")
        running.url = sockets.url_of(sock)
        await listener.start(sock)
        try:
            yield running
        finally:
            await session.close()
            await listener.stop()


def raw_request(body: bytes, headers: Iterable[tuple[str, str]]) -> bytes:
    """Return a request with exactly these headers, including repeated ones."""
    lines = ["POST /webhooks/main HTTP/1.1", "Host: x", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers]
    lines += [f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def status_of(answer: bytes) -> int:
    """Return the status of a raw response."""
    return int(answer.split(b" ", 2)[1])
