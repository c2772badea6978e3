"""A load generator: keep-alive connections that send ready-made request bytes."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, cast

import uvloop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_HEAD_END = b"\r\n\r\n"
NO_ANSWER = 0
"""Stands for a status where the connection ended without one."""


@dataclass(slots=True)
class Loaded:
    """What one load brought: answers by status, and how long each took."""

    statuses: Counter[int] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def per_second(self) -> float:
        return len(self.latencies) / self.seconds

    def add(self, other: Loaded) -> None:
        """Take in another load, as if both were one."""
        self.statuses.update(other.statuses)
        self.latencies.extend(other.latencies)
        self.seconds += other.seconds

    def percentile_ms(self, share: float) -> float:
        """Return the latency that `share` of the answers did not exceed."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1_000


class Gate:
    """Holds back requests while it is closed."""

    def __init__(self) -> None:
        self._is_open = True
        self._waiting: list[Callable[[], None]] = []

    def turn(self, *, is_open: bool) -> None:
        """Open or close it; what waited goes on."""
        self._is_open = is_open
        if is_open:
            waiting, self._waiting = self._waiting, []
            for go_on in waiting:
                go_on()

    def holds(self, go_on: Callable[[], None]) -> bool:
        """Return whether it is closed, and call `go_on` once it opens."""
        if not self._is_open:
            self._waiting.append(go_on)
        return not self._is_open


class _Connection(asyncio.Protocol):
    """Sends the next request when the last one is answered."""

    def __init__(self, requests: Iterator[bytes], into: Loaded, gate: Gate) -> None:
        self._requests = requests
        self._gate = gate
        self._into = into
        self._transport: asyncio.WriteTransport
        self._received = b""
        self._sent_at = 0.0
        self._waiting = False
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)
        self._next()

    def data_received(self, data: bytes) -> None:
        self._received = self._received + data if self._received else data
        if not _is_whole(self._received):
            return
        self._into.latencies.append(perf_counter() - self._sent_at)
        self._into.statuses[int(self._received[9:12])] += 1
        self._received = b""
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiting:
            self._into.statuses[NO_ANSWER] += 1
        self.ended.set_result(None)

    def _next(self) -> None:
        self._waiting = False
        if self._gate.holds(self._next):
            return
        request = next(self._requests, None)
        self._waiting = request is not None
        if request is None:
            self._transport.close()
            return
        self._sent_at = perf_counter()
        self._transport.write(request)


def _is_whole(answer: bytes) -> bool:
    head, found, body = answer.partition(_HEAD_END)
    if not found:
        return False
    _, named, length = head.lower().partition(b"content-length:")
    return not named or len(body) >= int(length.partition(b"\r\n")[0])


def send(port: int, requests: Iterable[bytes], connections: int) -> Loaded:
    """Send each request once over so many connections, and wait for all answers."""
    return uvloop.run(send_through(Gate(), port, requests, connections))


def send_for(
    seconds: float, port: int, requests: Iterator[bytes], connections: int
) -> Loaded:
    """Send requests for so long, and wait for all answers."""
    return send(port, until(perf_counter() + seconds, requests), connections)


def until(end: float, requests: Iterator[bytes]) -> Iterator[bytes]:
    """Yield requests until the clock of this process shows `end`."""
    while perf_counter() < end:
        yield next(requests)


async def send_through(
    gate: Gate, port: int, requests: Iterable[bytes], connections: int
) -> Loaded:
    """Send each request once, whenever the gate is open, and wait for all answers."""
    loop = asyncio.get_running_loop()
    loaded, shared = Loaded(), iter(requests)
    started = perf_counter()
    opened = [
        await loop.create_connection(
            lambda: _Connection(shared, loaded, gate), "127.0.0.1", port
        )
        for _ in range(connections)
    ]
    await asyncio.gather(*(protocol.ended for _, protocol in opened))
    loaded.seconds = perf_counter() - started
    return loaded
