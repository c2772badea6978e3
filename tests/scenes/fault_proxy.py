"""A proxy that injects faults into the traffic between two programs."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

HEAD_END = b"\r\n\r\n"
RESET = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class ProxiedRequest:
    """The bytes of a request, and its connection."""

    head: bytes
    body: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def method(self) -> str:
        return self.head.split(b" ", 1)[0].decode()

    def reset(self) -> None:
        """Close with RST, which discards bytes in flight."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.writer.transport.abort()

    async def answer(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def await_hangup(self) -> None:
        """Wait until the client closes the connection."""
        await self.reader.read()


Forward: TypeAlias = Callable[[], Awaitable[bytes]]
Toxic: TypeAlias = Callable[[ProxiedRequest, Forward], Awaitable[None]]


async def clear(passing: ProxiedRequest, forward: Forward) -> None:
    await passing.answer(await forward())


async def timeout(passing: ProxiedRequest, _: Forward) -> None:
    """Do not forward the request, and do not answer."""
    await passing.await_hangup()


async def blackhole(passing: ProxiedRequest, forward: Forward) -> None:
    """Forward the request; discard the response, and leave the connection half open."""
    await forward()
    await passing.await_hangup()


async def reset_before(passing: ProxiedRequest, _: Forward) -> None:
    """Reset the connection before the request is forwarded."""
    passing.reset()


async def reset_after(passing: ProxiedRequest, forward: Forward) -> None:
    """Reset the connection after the platform answered."""
    await forward()
    passing.reset()


async def reset_mid(passing: ProxiedRequest, forward: Forward) -> None:
    """Reset the connection in the middle of the response."""
    answer = await forward()
    await passing.answer(answer[: len(answer) // 2])
    passing.reset()


def latency(seconds: float) -> Toxic:
    async def work(passing: ProxiedRequest, forward: Forward) -> None:
        await asyncio.sleep(seconds)
        await clear(passing, forward)

    return work


def slow_close(seconds: float) -> Toxic:
    """Forward the response, and close the connection only after a delay."""

    async def work(passing: ProxiedRequest, forward: Forward) -> None:
        await clear(passing, forward)
        await asyncio.sleep(seconds)
        passing.writer.close()

    return work


def slicer(size: int) -> Toxic:
    """Forward the response in packets of this size."""

    async def work(passing: ProxiedRequest, forward: Forward) -> None:
        answer = await forward()
        for first in range(0, len(answer), size):
            await passing.answer(answer[first : first + size])
            await asyncio.sleep(0)

    return work


def limit_data(size: int) -> Toxic:
    """Close the connection after this many bytes of the response."""

    async def work(passing: ProxiedRequest, forward: Forward) -> None:
        answer = await forward()
        await passing.answer(answer[:size])
        passing.writer.close()

    return work


def replace_answer(answer: bytes) -> Toxic:
    """Forward the request, and answer with another response."""

    async def work(passing: ProxiedRequest, forward: Forward) -> None:
        await forward()
        await passing.answer(answer)

    return work


def refuse(answer: bytes) -> Toxic:
    """Answer with this response, and forward nothing."""

    async def work(passing: ProxiedRequest, _: Forward) -> None:
        await passing.answer(answer)

    return work


@dataclass(slots=True)
class LoggedRequest:
    """One request: its time, and whether the platform received and answered it."""

    at: float
    passing: ProxiedRequest
    forwarded: bool = False


@dataclass(slots=True)
class FaultProxy:
    """Forwards to `upstream`, with faults if a test sets some; logs every request."""

    upstream: str
    url: str = "http://127.0.0.1:0"
    storm: Toxic | None = None
    """The fault of every request."""
    once: dict[bytes, Toxic] = field(default_factory=dict)
    """The fault of the first request with these bytes in its body."""
    log: list[LoggedRequest] = field(default_factory=list)
    most_commands: int = 0
    """The most requests in progress at one time."""
    _commands: int = 0
    _server: asyncio.Server | None = None
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    async def up(self) -> None:
        """Listen, on the same port as before."""
        place = urlsplit(self.url)
        self._server = await asyncio.start_server(
            self._serve, place.hostname, place.port
        )
        host, port = self._server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}"

    async def down(self) -> None:
        """Refuse new connections, and close the open ones."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._open):
            writer.transport.abort()

    def requests(self, method: str) -> list[LoggedRequest]:
        return [logged for logged in self.log if logged.passing.method == method]

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._open.add(writer)
        try:
            while not writer.is_closing():
                head = await reader.readuntil(HEAD_END)
                body = await reader.readexactly(_length(head))
                await self._pass(ProxiedRequest(head, body, reader, writer))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()

    async def _pass(self, passing: ProxiedRequest) -> None:
        logged = LoggedRequest(time.monotonic(), passing)
        self.log.append(logged)

        async def forward() -> bytes:
            answer = await self._ask(passing)
            logged.forwarded = True
            return answer

        is_command = passing.method == "POST"
        self._commands += is_command
        self.most_commands = max(self.most_commands, self._commands)
        try:
            await self._toxic_for(passing)(passing, forward)
        finally:
            self._commands -= is_command

    def _toxic_for(self, passing: ProxiedRequest) -> Toxic:
        for marked in self.once:
            if marked in passing.body:
                return self.once.pop(marked)
        return self.storm or clear

    async def _ask(self, passing: ProxiedRequest) -> bytes:
        """Send the request to the platform on a new connection; return the response."""
        place = urlsplit(self.upstream)
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        try:
            writer.write(_ending(passing.head) + passing.body)
            await writer.drain()
            return await reader.read()
        finally:
            writer.close()


def _ending(head: bytes) -> bytes:
    """Return the request's head with `Connection: close`."""
    lines = head.removesuffix(HEAD_END).split(b"\r\n")
    kept = [line for line in lines if not line.lower().startswith(b"connection:")]
    return b"\r\n".join([*kept, b"Connection: close"]) + HEAD_END


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.split(b":")[1])
    return 0


@asynccontextmanager
async def fault_proxy(upstream: str) -> AsyncIterator[FaultProxy]:
    proxy = FaultProxy(upstream)
    await proxy.up()
    try:
        yield proxy
    finally:
        await proxy.down()
