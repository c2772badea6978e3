"""A load balancer before several daemons, as HAProxy is; it also counts responses.

A request goes to another daemon only if the connection to the first was refused: then
nothing was sent. The balancer forwards every response unchanged.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import aiohttp
from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

HOST = "127.0.0.1"
ANSWER_SECONDS = 20.0
"""The timeout of a response; longer than a daemon needs for a webhook."""
DOWN_SECONDS = 1.0
"""How long a daemon that did not answer gets no requests, unless no other is up."""
_PASSED_ON = frozenset({"content-type", "authorization", "user-agent"})


@dataclass(frozen=True, slots=True)
class Refusal:
    """A response that makes the platform retry, and the fault at that time."""

    status: int
    during: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Kept:
    """The store and the time of an acknowledged webhook."""

    store: str
    at: float
    """A time of `time.monotonic`."""


@dataclass(slots=True)
class Balancer:
    """Forwards `/webhooks/` to any of the daemons, and `/connect/` to the owner.

    `kept` are the bodies that were acknowledged, `refusals` the webhooks that a daemon
    refused. `broken` counts those whose connection ended before the answer,
    `unanswered` those that timed out, and `nobody` those that no daemon accepted.
    """

    ports: Sequence[int]
    url: str = ""
    during: str = ""
    """The fault that the test causes now."""
    kept: dict[bytes, Kept] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """The latency of each webhook that was answered."""
    longest_silence: float = 0.0
    """The longest time without an acknowledged webhook since `restart_measurement`."""
    counts: Counter[str] = field(default_factory=Counter)
    _session: aiohttp.ClientSession | None = None
    _kept_at: float = 0.0
    _newest: dict[str, float] = field(default_factory=dict)
    _turn: int = 0
    _owner: int = 0
    _down_until: dict[int, float] = field(default_factory=dict)

    def has_kept(self, store: str, since: float) -> bool:
        """Return whether a webhook of a store was acknowledged after a moment."""
        return self._newest.get(store, 0.0) > since

    def restart_measurement(self) -> None:
        """Restart the measurement of `longest_silence`."""
        self._kept_at, self.longest_silence = time.monotonic(), 0.0

    async def pass_webhook(self, request: web.Request) -> web.Response:
        body, began = await request.read(), time.monotonic()
        for port in self._in_turn():
            try:
                answer = await self._ask(port, request, body)
            except aiohttp.ClientConnectorError:
                self._down_until[port] = time.monotonic() + DOWN_SECONDS
                continue
            except aiohttp.ClientError:
                return self._failed("broken", 502)
            except TimeoutError:
                self._down_until[port] = time.monotonic() + DOWN_SECONDS
                return self._failed("unanswered", 504)
            store = request.match_info["rest"]
            self._note(answer.status, body, store, time.monotonic() - began)
            return answer
        return self._failed("nobody", 502)

    async def pass_on(self, request: web.Request) -> web.Response:
        """Forward a warehouse's request to the daemon that accepted the last one."""
        body, answer = await request.read(), None
        for number in range(len(self.ports)):
            place = (self._owner + number) % len(self.ports)
            try:
                answer = await self._ask(self.ports[place], request, body)
            except (aiohttp.ClientError, TimeoutError):
                continue
            if answer.status != 503:
                self._owner = place
                return answer
        return answer or web.Response(status=502)

    def _in_turn(self) -> Iterator[int]:
        """Yield every port once, those that are up first."""
        self._turn += 1
        first = self._turn % len(self.ports)
        ports = [*self.ports[first:], *self.ports[:first]]
        now = time.monotonic()
        yield from sorted(ports, key=lambda port: self._down_until.get(port, 0) > now)

    def _note(self, status: int, body: bytes, store: str, seconds: float) -> None:
        self.seconds.append(seconds)
        if status == 200:
            now = self._newest[store] = time.monotonic()
            self.kept.setdefault(body, Kept(store, now))
            self.longest_silence = max(self.longest_silence, now - self._kept_at)
            self._kept_at = now
        else:
            self.refusals.append(Refusal(status, self.during, seconds))

    def _failed(self, how: str, status: int) -> web.Response:
        self.counts[how] += 1
        return web.Response(status=status)

    async def _ask(self, port: int, request: web.Request, body: bytes) -> web.Response:
        assert self._session is not None
        url = f"http://{HOST}:{port}{request.rel_url}"
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() in _PASSED_ON or name.lower().startswith(("x-", "webhook"))
        }
        asked = self._session.request(request.method, url, data=body, headers=headers)
        async with asyncio.timeout(ANSWER_SECONDS), asked as answer:
            content = await answer.read()
            kind = answer.content_type
            return web.Response(status=answer.status, body=content, content_type=kind)


@asynccontextmanager
async def balancer(port: int, targets: Sequence[int]) -> AsyncIterator[Balancer]:
    """Run a balancer at `port` that forwards to the public ports of daemons."""
    made = Balancer(targets, f"http://{HOST}:{port}")
    app = web.Application(client_max_size=2**24)
    app.router.add_post("/webhooks/{rest:.*}", made.pass_webhook)
    app.router.add_route("*", "/connect/{rest:.*}", made.pass_on)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, HOST, port).start()
    # A new connection for each request: a reused connection may be broken already.
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    try:
        async with aiohttp.ClientSession(connector=connector) as made._session:
            yield made
    finally:
        await runner.cleanup()
