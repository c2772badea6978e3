"""Sends webhooks to a daemon's process, and remembers what it was told."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import aiohttp

from scenes.payloads import envelope, order, signed
from scenes.stored import bodies
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from scenes.daemon import Office

WORDS = "Please ring twice; the bell is below the stairs. "


@dataclass(frozen=True, slots=True)
class Told:
    """A response and its latency; status 0 means a broken connection."""

    status: int
    retry_after: str
    seconds: float


@dataclass(slots=True)
class Sender:
    """Sends webhooks as the platform does; all bodies differ."""

    office: Office
    session: aiohttp.ClientSession
    store_id: str
    kept: set[bytes] = field(default_factory=set)
    told: list[Told] = field(default_factory=list)
    numbers: count[int] = field(default_factory=count)
    public_url: str = ""
    admin_url: str = ""

    def find(self) -> None:
        """Find the daemon's port."""
        live = self.office.read_status()
        assert live, "the daemon is not ready"
        self.public_url, self.admin_url = live["public_url"], live["admin_url"]

    def body(self, size: int = 2_000) -> bytes:
        number = next(self.numbers)
        note = WORDS * (size // len(WORDS))
        document = order(f"ord_{number}", number=number, note=note)
        return envelope("orders/create", document, storeId=self.store_id)

    async def send(self, body: bytes | None = None) -> Told:
        """Send once."""
        body = body or self.body()
        headers = signed(body, self.office.webhook_secret.encode())
        began = time.monotonic()
        status, retry_after = await self._post(body, headers)
        told = Told(status, retry_after, time.monotonic() - began)
        self.told.append(told)
        if told.status == 200:
            self.kept.add(body)
        return told

    async def _post(self, body: bytes, headers: dict[str, str]) -> tuple[int, str]:
        url = f"{self.public_url}/webhooks/main"
        try:
            async with self.session.post(url, data=body, headers=headers) as answer:
                await answer.read()
                return answer.status, answer.headers.get("Retry-After", "")
        except aiohttp.ClientError:
            return 0, ""

    async def insist(
        self, body: bytes | None = None, seconds: float = HANG_SECONDS
    ) -> float:
        """Retry until the webhook is stored; return the seconds."""
        body, began = body or self.body(), time.monotonic()
        while (await self.send(body)).status != 200:
            waited = time.monotonic() - began
            assert waited < seconds, f"not taken in {waited:.1f} s: {self.told[-1]}"
            await asyncio.sleep(0.02)
        return time.monotonic() - began

    async def send_while(self, wanted: Callable[[], bool], size: int = 2_000) -> None:
        while wanted():
            await self.send(self.body(size))

    async def health(self, path: str = "/healthz") -> Told:
        """Request the health check of the admin listener."""
        began = time.monotonic()
        async with self.session.get(self.admin_url + path) as answer:
            await answer.read()
            return Told(answer.status, "", time.monotonic() - began)

    def lost(self, database: Path) -> set[bytes]:
        """Return the bodies that were answered with 200 and are not stored."""
        return self.kept - set(bodies(database))


@asynccontextmanager
async def sender(office: Office, store_id: str = "") -> AsyncIterator[Sender]:
    """Return a sender for a running daemon."""
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=HANG_SECONDS)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        started = Sender(office, session, store_id)
        started.find()
        yield started
