"""A platform's API on loopback whose responses a test scripts."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

PREFIX = "/api/v1"
RESET = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it arrived; `path` is below /api/v1 and without its query."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Connection:
    """Both directions of one connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def reset(self) -> None:
        """Close with RST, which discards bytes in flight."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.writer.transport.abort()

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()


Behave: TypeAlias = "Callable[[Request, Connection], Awaitable[None]]"
Greet: TypeAlias = "Callable[[Connection], Awaitable[bool]]"


@dataclass(slots=True)
class Server:
    """Records requests. `greet` gets each connection before any byte is read."""

    behave: Behave
    greet: Greet | None = None
    url: str = ""
    connections: int = 0
    requests: list[Request] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    def of(self, method: str, path: str = "") -> list[Request]:
        """Return the requests with a method, and with a path if it is given."""
        found = [request for request in self.requests if request.method == method]
        return [request for request in found if path in {"", request.path}]

    @property
    def commands(self) -> list[Request]:
        return self.of("POST")

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.connections += 1
        connection = Connection(reader, writer)
        self._open.add(writer)
        try:
            if self.greet is None or await self.greet(connection):
                while (request := await read_request(reader)) is not None:
                    self.requests.append(request)
                    self.arrived.set()
                    await self.behave(request, connection)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()

    def hang_up(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    head = await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""
    if not head:
        return None
    first, *lines = head.decode("latin-1").rstrip().split("\r\n")
    method, target, _ = first.split(" ")
    pairs = [line.split(": ", 1) for line in lines]
    headers = {name.lower(): value for name, value in pairs}
    path, _, query = target.partition("?")
    length = int(headers.get("content-length", "0"))
    body = await reader.readexactly(length)
    return Request(method, path.removeprefix(PREFIX), query, headers, body)


@asynccontextmanager
async def serving(behave: Behave, greet: Greet | None = None) -> AsyncIterator[Server]:
    server = Server(behave, greet)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    server.url = f"http://127.0.0.1:{port}"
    try:
        yield server
    finally:
        listener.close()
        server.hang_up()


def unused_url() -> str:
    """Return an address where nobody listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{sock.getsockname()[1]}"


def message(
    status: int,
    body: bytes = b"",
    media_type: str = "application/json",
    **headers: str,
) -> bytes:
    """Return an HTTP answer; `_` in header names stands for `-`."""
    lines = [f"HTTP/1.1 {status} Said", f"Content-Type: {media_type}"]
    if "Content_Length" not in headers and "Transfer_Encoding" not in headers:
        lines.append(f"Content-Length: {len(body)}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def document(content: object, status: int = 200, **headers: str) -> bytes:
    return message(status, json.dumps(content).encode(), **headers)


def problem(status: int, code: str, **members: Any) -> bytes:
    content = {"status": status, "code": code, "detail": "no", **members}
    return message(status, json.dumps(content).encode(), "application/problem+json")


def saying(*answers: bytes) -> Behave:
    """Return a behaviour that sends the responses in turn, and repeats the last one."""
    left = list(answers)

    async def behave(_: Request, connection: Connection) -> None:
        await connection.send(left.pop(0) if len(left) > 1 else left[0])

    return behave
