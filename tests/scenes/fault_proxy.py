"""A proxy that spoils what passes it, between two programs that do not know of it."""

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
    """A request on its way, as bytes, and the connection that it came by."""

    head: bytes
    body: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def method(self) -> str:
        return self.head.split(b" ", 1)[0].decode()

    def reset(self) -> None:
        """Close with RST: what was on its way is thrown away."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.writer.transport.abort()

    async def answer(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def await_hangup(self) -> None:
        """Wait until the one who asked hangs up."""
        await self.reader.read()


Forward: TypeAlias = Callable[[], Awaitable[bytes]]
Toxic: TypeAlias = Callable[[ProxiedRequest, Forward], Awaitable[None]]


async def clear(passing: ProxiedRequest, forward: Forward) -> None:
    await passing.answer(await forward())


async def timeout(passing: ProxiedRequest, _: Forward) -> None:
    """Keep the request, and say nothing."""
    await passing.await_hangup()


async def blackhole(passing: ProxiedRequest, forward: Forward) -> None:
    """Let it arrive; the answer vanishes, and the connection stays half open."""
    await forward()
    await passing.await_hangup()


async def reset_before(passing: ProxiedRequest, _: Forward) -> None:
    """Reset before the request goes on."""
    passing.reset()


async def reset_after(passing: ProxiedRequest, forward: Forward) -> None:
    """Reset once the platform has answered."""
    await forward()
    passing.reset()


async def reset_mid(passing: ProxiedRequest, forward: Forward) -> None:
    """Reset in the middle of the answer."""
    answer = await forward()
    await passing.answer(answer[: len(answer) // 2])
    passing.reset()


def latency(seconds: float) -> Toxic:
    async def work(passing: ProxiedRequest, forward: Forward) -> None:
        await asyncio.sleep(seconds)
        await clear(passing, forward)

    return work


def slow_close(seconds: float) -> Toxic:
    """Answer, and hang up only after so long."""

    async def work(passing: ProxiedRequest, forward: Forward) -> None:
        await clear(passing, forward)
        await asyncio.sleep(seconds)
        passing.writer.close()

    return work


def slicer(size: int) -> Toxic:
    """Answer in packets of so many bytes."""

    async def work(passing: ProxiedRequest, forward: Forward) -> None:
        answer = await forward()
        for first in range(0, len(answer), size):
            await passing.answer(answer[first : first + size])
            await asyncio.sleep(0)

    return work


def limit_data(size: int) -> Toxic:
    """Hang up after so many bytes of the answer."""

    async def work(passing: ProxiedRequest, forward: Forward) -> None:
        answer = await forward()
        await passing.answer(answer[:size])
        passing.writer.close()

    return work


def replace_answer(answer: bytes) -> Toxic:
    """Let it arrive, and answer something else."""

    async def work(passing: ProxiedRequest, forward: Forward) -> None:
        await forward()
        await passing.answer(answer)

    return work


def refuse(answer: bytes) -> Toxic:
    """Let nothing pass, and answer this."""

    async def work(passing: ProxiedRequest, _: Forward) -> None:
        await passing.answer(answer)

    return work


@dataclass(slots=True)
class LoggedRequest:
    """One request: when it came, and whether the platform has had and answered it."""

    at: float
    passing: ProxiedRequest
    forwarded: bool = False


@dataclass(slots=True)
class FaultProxy:
    """Forwards to `upstream` until told otherwise; `log` holds every request."""

    upstream: str
    url: str = "http://127.0.0.1:0"
    storm: Toxic | None = None
    """Meets every request."""
    once: dict[bytes, Toxic] = field(default_factory=dict)
    """Meets the first request with these bytes in its body."""
    log: list[LoggedRequest] = field(default_factory=list)
    most_commands: int = 0
    """How many were under way at once, at most."""
    _commands: int = 0
    _server: asyncio.Server | None = None
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    async def up(self) -> None:
        """Listen, at the same place as before."""
        place = urlsplit(self.url)
        self._server = await asyncio.start_server(
            self._serve, place.hostname, place.port
        )
        host, port = self._server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}"

    async def down(self) -> None:
        """Refuse connections, and end those that there are."""
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
        """Ask the platform on a connection of its own, which ends with the answer."""
        place = urlsplit(self.upstream)
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        try:
            writer.write(_ending(passing.head) + passing.body)
            await writer.drain()
            return await reader.read()
        finally:
            writer.close()


def _ending(head: bytes) -> bytes:
    """Return a head that asks for the connection to be closed after the answer."""
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
