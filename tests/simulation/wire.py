"""HTTP in memory: bytes into the real server's protocol, bytes out of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simulation.loop import Served

Header = tuple[bytes, bytes]


class HungUp(Exception):
    """The server closed without a whole answer, or nobody listens."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer as it came."""

    status: int
    headers: list[Header]
    body: bytes


class _Ear(asyncio.Transport):
    """Hears what a server says on one connection."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 40_000)})
        self.heard = bytearray()
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._closing = False

    def write(self, data: Any) -> None:
        self.heard += data

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._closing = True
        if not self.closed.done():
            self.closed.set_result(None)

    def abort(self) -> None:
        self.close()

    def pause_reading(self) -> None:
        """All that is sent has been received already."""

    def resume_reading(self) -> None:
        """As above."""

    def is_reading(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return 0


async def talk(served: Served, request: bytes) -> Answer:
    """Send one request on a connection of its own. Raises HungUp.

    Who waits here waits for ever if the server's program dies meanwhile.
    """
    if not served.open:
        raise HungUp
    ear = _Ear()

    def connect() -> asyncio.Protocol:
        protocol = served.accept()
        protocol.connection_made(ear)
        protocol.data_received(request)
        return protocol

    protocol = served.context.run(connect)
    await ear.closed
    served.context.run(protocol.connection_lost, None)
    return _read(bytes(ear.heard))


def request_bytes(
    method: str, target: str, headers: Iterable[Header], body: bytes = b""
) -> bytes:
    """Put a request together, of which there is one on a connection."""
    kept = [h for h in headers if h[0].lower() not in {b"connection", b"host"}]
    kept = [h for h in kept if h[0].lower() not in {b"content-length"}]
    lines = [f"{method} {target} HTTP/1.1".encode(), b"Host: platform"]
    lines += [name + b": " + value for name, value in kept]
    lines += [b"Connection: close", b"Content-Length: %d" % len(body)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def _read(heard: bytes) -> Answer:
    head, found, rest = heard.partition(b"\r\n\r\n")
    if not found:
        raise HungUp
    first, *lines = head.split(b"\r\n")
    headers = [_header(line) for line in lines]
    chunked = (b"transfer-encoding", b"chunked") in headers
    left_out = {b"transfer-encoding", b"connection"}
    kept = [header for header in headers if header[0] not in left_out]
    return Answer(int(first.split()[1]), kept, _joined(rest) if chunked else rest)


def _header(line: bytes) -> Header:
    name, _, value = line.partition(b":")
    return name.lower(), value.strip()


def _joined(chunks: bytes) -> bytes:
    body = bytearray()
    while chunks:
        size, _, chunks = chunks.partition(b"\r\n")
        length = int(size, 16)
        body += chunks[:length]
        chunks = chunks[length + 2 :]
    return bytes(body)
