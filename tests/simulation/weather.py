"""What befalls requests: the faults of a network and of what stands on the way."""

from __future__ import annotations

import asyncio
import contextvars
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import httpx

from simulation.loop import LIFE, VirtualLoop
from simulation.wire import Answer, HungUp, request_bytes, talk

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine

    from backhaul_reference.platform.state.database import Row
    from simulation.loop import Served
    from simulation.platform import Shop

PATIENCE_SECONDS = 5.0
"""How long the daemon waits for an answer, by its settings."""
LATEST_SECONDS = 50.0
"""The latest that a request arrives: the last look comes after it."""
PAGE = b"<html><body><h1>Gateway</h1></body></html>"
HTML = [(b"content-type", b"text/html")]
JSON = [(b"content-type", b"application/problem+json")]
FATES = {
    "refused": 3,
    "lost": 3,
    "late": 3,
    "reply lost": 4,
    "reset": 3,
    "cut short": 3,
    "500 after": 4,
    "503 before": 2,
    "page 502 after": 2,
    "page 200 before": 1,
    "page 403": 1,
    "429": 3,
    "401": 1,
    "403": 1,
}
"""What may happen to a request, and how often beside the others."""


@dataclass(slots=True)
class Weather:
    """How bad it is; the world changes it as it goes."""

    chance: random.Random
    trouble: float = 0.0
    """Which part of the requests to the platform meets a fate."""
    losing: float = 0.0
    """Which part of the webhooks never comes."""
    disorder: float = 0.0
    """Which part of them comes twice, or late."""

    def fate(self) -> str:
        if self.chance.random() >= self.trouble:
            return ""
        return self.chance.choices(list(FATES), list(FATES.values()))[0]

    def latency_seconds(self) -> float:
        return 0.005 + self.chance.expovariate(20)


@dataclass(slots=True)
class Network(httpx.AsyncBaseTransport):
    """The way from the daemon to the platform.

    It belongs to the world: what is on its way arrives, whoever sent it and died.
    """

    loop: VirtualLoop
    shop: Shop
    weather: Weather
    note: Callable[[str], None]
    on_its_way: set[asyncio.Task[None]] = field(default_factory=set)
    flying: int = 0
    """Requests that are given up and arrive yet."""
    mishaps: list[BaseException] = field(default_factory=list)
    """What the world itself failed of, which it should not."""
    _outside: contextvars.Context = field(default_factory=contextvars.copy_context)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.loop.is_dead(LIFE.get()):
            raise httpx.ConnectError("the program is dead")
        target = request.url.raw_path.decode()
        headers = [(name.lower(), value) for name, value in request.headers.raw]
        body = await request.aread()
        sent = request_bytes(request.method, target, headers, body)
        key = request.headers.get("idempotency-key", "")
        answered: asyncio.Future[Answer] = self.loop.create_future()
        name = f"{request.method} {target} {key}".rstrip()
        self.keep(self._carry(name, sent, answered))
        answer = await answered
        return httpx.Response(
            answer.status, headers=answer.headers, content=answer.body, request=request
        )

    def keep(self, work: Coroutine[None, None, None]) -> None:
        """Let something happen in the world, whoever caused it."""
        task = self._outside.copy().run(self.loop.create_task, work)
        self.on_its_way.add(task)
        task.add_done_callback(self._happened, context=self._outside)

    def _happened(self, task: asyncio.Task[None]) -> None:
        self.on_its_way.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.mishaps.append(error)

    async def _carry(
        self, name: str, sent: bytes, answered: asyncio.Future[Answer]
    ) -> None:
        fate = self.weather.fate()
        self.note(f"{name} {fate}".rstrip())
        try:
            answer = await self._meet(fate, sent)
        except (httpx.HTTPError, HungUp) as error:
            if not answered.done():
                answered.set_exception(error)
            return
        if not answered.done():
            answered.set_result(answer)

    async def _meet(self, fate: str, sent: bytes) -> Answer:
        await asyncio.sleep(self.weather.latency_seconds())
        if fate in BEFORE:
            return BEFORE[fate]
        if fate == "refused":
            raise httpx.ConnectError("connection refused")
        if fate == "late":
            self.keep(self._arrive_late(sent))
        if fate in {"lost", "late"}:
            await asyncio.sleep(PATIENCE_SECONDS)
            raise httpx.ReadTimeout("no answer")
        answer = await self.shop.ask(sent)
        self.note(f"  {answer.status}")
        await asyncio.sleep(self.weather.latency_seconds())
        return await self._spoil(fate, answer)

    async def _arrive_late(self, sent: bytes) -> None:
        self.flying += 1
        await asyncio.sleep(self.weather.chance.uniform(0.0, LATEST_SECONDS))
        answer = await self.shop.ask(sent)
        self.flying -= 1
        self.note(f"  late {answer.status}")

    async def _spoil(self, fate: str, answer: Answer) -> Answer:
        if fate == "reply lost":
            await asyncio.sleep(PATIENCE_SECONDS)
            raise httpx.ReadTimeout("no answer")
        if fate == "reset":
            raise httpx.ReadError("connection reset")
        if fate == "cut short":
            return Answer(answer.status, answer.headers, answer.body[:20])
        if fate == "500 after":
            return Answer(500, [], b"")
        if fate == "page 502 after":
            return Answer(502, HTML, PAGE)
        return answer


BEFORE = {
    "503 before": Answer(503, JSON, b'{"status":503,"code":"UNAVAILABLE"}'),
    "page 200 before": Answer(200, HTML, PAGE),
    "page 403": Answer(403, HTML, PAGE),
    "429": Answer(
        429, [*JSON, (b"retry-after", b"7")], b'{"status":429,"code":"RATE_LIMITED"}'
    ),
    "401": Answer(401, JSON, b'{"status":401,"code":"UNAUTHORIZED"}'),
    "403": Answer(403, JSON, b'{"status":403,"code":"INSUFFICIENT_SCOPE"}'),
}
"""What is answered on the way, so that nothing arrives."""


RETRIES_SECONDS = (0.0, 2.0, 10.0, 40.0)


@dataclass(slots=True)
class Postman:
    """Delivers the platform's news: signed as it signs them, in no certain order."""

    network: Network
    front_door: Callable[[], Served | None]
    sign: Callable[[Row, int], bytes]
    acknowledged: list[bytes] = field(default_factory=list)
    """The bodies that were answered 2xx."""

    def hear(self, row: Row) -> None:
        weather = self.network.weather
        if weather.chance.random() < weather.losing:
            self.network.note(f"news {row['topic']} lost")
            return
        copies = 1 + (weather.chance.random() < weather.disorder)
        for _ in range(copies):
            late = weather.chance.random() < weather.disorder
            wait = weather.chance.uniform(0.0, 20.0) if late else 0.0
            self.network.keep(self._deliver(row, wait))

    async def _deliver(self, row: Row, wait_seconds: float) -> None:
        await asyncio.sleep(wait_seconds)
        for attempt, wait in enumerate(RETRIES_SECONDS, start=1):
            await asyncio.sleep(wait + self.network.weather.latency_seconds())
            status = await self._try(self.sign(row, attempt))
            self.network.note(f"news {row['topic']} {row['sequence']} {status}")
            if 200 <= status < 300:
                self.acknowledged.append(row["body"])
                return

    async def _try(self, request: bytes) -> int:
        door = self.front_door()
        if door is None:
            return 0
        try:
            async with asyncio.timeout(15):
                return (await talk(door, request)).status
        except (HungUp, TimeoutError):
            return 0
