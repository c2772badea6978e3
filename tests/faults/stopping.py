"""Stops a busy daemon by signals, and remembers what was on its way then."""

from __future__ import annotations

import asyncio
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from scenes.fault_proxy import clear
from scenes.payloads import envelope, order, signed
from scenes.waiting import HANG_SECONDS, until

if TYPE_CHECKING:
    import random

    from faults.proxied import Line
    from scenes.fault_proxy import Forward, ProxiedRequest, Toxic

EFFECTS = 10
REQUESTS = 50


@dataclass(slots=True)
class Halved:
    """A webhook whose head and half of whose body were sent."""

    body: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def finish(self) -> int:
        """Send the rest; return the status, 0 if the connection is closed."""
        try:
            self.writer.write(self.body[len(self.body) // 2 :])
            async with asyncio.timeout(HANG_SECONDS):
                line = await self.reader.readline()
        except ConnectionError:
            line = b""
        finally:
            self.writer.close()
        return int(line.split()[1]) if line else 0


@dataclass(slots=True)
class Signaled:
    """The requests in flight when the daemon got the stop signal, and its end."""

    line: Line
    at: float = 0.0
    halved: list[Halved] = field(default_factory=list)
    kept: set[bytes] = field(default_factory=set)

    async def fill(self, requests: int) -> None:
        """Wait until the maximum of commands is in flight, and webhooks too."""
        sent = len(self.line.proxy.requests("POST"))
        self.line.adjust(*self.line.products(3 * EFFECTS))
        await self.line.posted(sent + EFFECTS)
        public = urlsplit((self.line.office.read_status() or {})["public_url"])
        for number in range(requests):
            self.halved.append(await self._halve(public.port or 0, number))
        # connections are accepted in order: all before this one were accepted
        last = await self._halve(public.port or 0, requests)
        assert await self.finish([last]) == [200]

    async def _halve(self, port: int, number: int) -> Halved:
        document = order(f"ord_{id(self)}_{number}", number=900_000 + number)
        body = envelope("orders/create", document, storeId=self.line.store_id)
        headers = signed(body, self.line.office.webhook_secret.encode())
        headers |= {"Host": "daemon", "Content-Length": str(len(body))}
        told = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"POST /webhooks/main HTTP/1.1\r\n{told}\r\n".encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head + body[: len(body) // 2])
        await writer.drain()
        return Halved(body, reader, writer)

    def signal(self) -> None:
        self.at = time.monotonic()
        self.line.daemon.process.send_signal(signal.SIGTERM)

    async def finish(self, requests: list[Halved]) -> list[int]:
        """Send the rest of these webhooks; return their statuses."""
        statuses = await asyncio.gather(*(one.finish() for one in requests))
        ended = zip(requests, statuses, strict=True)
        self.kept |= {one.body for one, status in ended if status == 200}
        return statuses

    async def ended(self) -> int:
        """Return the exit code."""
        process = self.line.daemon.process
        await until(lambda: process.poll() is not None, "it ends")
        for one in self.halved:
            one.writer.close()
        return process.returncode

    def sent_after(self) -> list[bytes]:
        """Return the heads of commands that arrived after the signal."""
        posts = self.line.proxy.requests("POST")
        return [one.passing.head for one in posts if one.at > self.at]


def of_commands(toxic: Toxic) -> Toxic:
    """Inject the fault into commands only, not into reads."""

    async def work(passing: ProxiedRequest, forward: Forward) -> None:
        await (toxic if passing.method == "POST" else clear)(passing, forward)

    return work


def mixed(chance: random.Random, lost: float, slow_seconds: float) -> Toxic:
    """Answer late, or with this probability never; a lost request may have arrived."""

    async def work(passing: ProxiedRequest, forward: Forward) -> None:
        if chance.random() >= lost:
            await asyncio.sleep(chance.uniform(slow_seconds / 2, slow_seconds))
            await passing.answer(await forward())
            return
        if chance.random() < 0.5:
            await forward()
        await passing.await_hangup()

    return of_commands(work)
