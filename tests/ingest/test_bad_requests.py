"""Malformed HTTP requests are counted and logged briefly, without a traceback."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections import Counter
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage, LineTooLong

from backhaul.app import sockets
from backhaul.app.sockets import QUIET_SECONDS, BadRequests, kind_of
from scenes.waiting import HANG_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

POST = b"POST /webhooks/main HTTP/1.1\r\nHost: x\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
BAD: dict[str, tuple[bytes, str]] = {
    "HTTP/2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "malformed"),
    "TLS hello": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 9, "not HTTP"),
    "garbage": (b"\x00\x01\x02\r\n\r\n", "not HTTP"),
    "garbage behind a request": (
        POST + b"Content-Length: 0\r\n\r\n\x00\x01 x\r\n\r\n",
        "not HTTP",
    ),
    "long line": (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n", "too long"),
    "long header": (POST + b"X-A: " + b"a" * 20_000 + b"\r\n\r\n", "too long"),
    "many headers": (POST + b"X-A: 1\r\n" * 2_000 + b"\r\n", "malformed"),
    "header name": (POST + b"X Y\x01: 1\r\n\r\n", "malformed"),
    "header value": (POST + b"X-Y: a\x00b\r\n\r\n", "malformed"),
    "version": (b"GET / HTTP/9.9\r\n\r\n", "not HTTP"),
    "length": (POST + b"Content-Length: abc\r\n\r\n", "malformed"),
    "negative length": (POST + b"Content-Length: -5\r\n\r\n", "malformed"),
    "two lengths": (
        POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "malformed",
    ),
    "length and chunks": (
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "malformed",
    ),
    "half a body": (POST + b"Content-Length: 500\r\n\r\nhello", "cut off"),
    "half a chunk": (CHUNKED + b"5\r\nhel", "cut off"),
    "chunk size": (CHUNKED + b"ZZ\r\nhello\r\n", "malformed"),
    "chunk end": (CHUNKED + b"5\r\nhelloXX0\r\n\r\n", "malformed"),
    "huge chunk": (CHUNKED + b"f" * 18 + b"\r\n", "malformed"),
    "coding": (POST + b"Transfer-Encoding: gzip\r\n\r\n", "malformed"),
    "address": (b"GET http://[::1 HTTP/1.1\r\nHost: x\r\n\r\n", "bad address"),
    "address in UTF-8": ("GET /ü HTTP/1.1\r\nHost: x\r\n\r\n".encode(), "bad address"),
}
HARMLESS: dict[str, bytes] = {
    "half a head": POST,
    "half a line": b"POS",
    "nothing": b"",
    "empty lines": b"\r\n" * 1_000,
    "escapes": b"GET /%zz%ff HTTP/1.1\r\nHost: x\r\n\r\n",
    "HTTP/0.9": b"GET /\r\n\r\n",
    "compressed": POST + b"Content-Encoding: gzip\r\nContent-Length: 0\r\n\r\n",
}


class _Keeping(logging.Handler):
    found: list[logging.LogRecord]

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record)


@pytest.fixture
def errors() -> Iterator[list[logging.LogRecord]]:
    """Return the records of the standard library's log from WARNING up."""
    found: list[logging.LogRecord] = []
    handler = _Keeping(logging.WARNING)
    handler.found = found
    logging.getLogger().addHandler(handler)
    yield found
    logging.getLogger().removeHandler(handler)


async def _fail(_: web.Request) -> web.Response:
    raise ValueError("a bug of Backhaul")


async def _lose(_: web.Request) -> web.Response:
    raise ConnectionResetError("of a connection that the handler made")


async def _take(request: web.Request) -> web.Response:
    await request.read()
    return web.Response()


@asynccontextmanager
async def listening_on(counted: Counter[tuple[str, ...]]) -> AsyncIterator[int]:
    app = web.Application()
    app.router.add_get("/fail", _fail)
    app.router.add_get("/lose", _lose)
    app.router.add_post("/webhooks/main", _take)
    listener = sockets.Listener(app, bad_requests=counted)
    sock = sockets.bind_tcp("127.0.0.1", 0, "public")
    await listener.start(sock)
    try:
        yield sock.getsockname()[1]
    finally:
        await listener.stop()


async def send(port: int, request: bytes, *, reset: bool = False) -> None:
    """Send bytes, then close or reset the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    if reset:
        made = writer.get_extra_info("socket")
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        return
    await writer.drain()
    writer.write_eof()
    with suppress(ConnectionError):
        await asyncio.wait_for(reader.read(), HANG_SECONDS)
    writer.close()


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_request_is_counted_and_logged_in_one_line(
    name: str, errors: list[logging.LogRecord], lines: list[str]
) -> None:
    request, kind = BAD[name]
    counted = Counter[tuple[str, ...]]()
    async with listening_on(counted) as port:
        await send(port, request)
        await until(lambda: counted[kind,] == 1, "it is counted")
    assert dict(counted) == {(kind,): 1}
    assert errors == []
    (line,) = [line for line in lines if line.startswith("request.bad")]
    assert line.startswith(f"request.bad a request from 127.0.0.1 was refused, {kind}")
    assert "\n" not in line.rstrip()


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
async def test_nothing_that_is_sent_is_an_error(
    reset: bool, errors: list[logging.LogRecord], lines: list[str]
) -> None:
    requests = [*(request for request, _ in BAD.values()), *HARMLESS.values()]
    async with listening_on(Counter()) as port:
        for request in [*requests, *(os.urandom(n) for n in range(1, 400, 7))]:
            await send(port, request, reset=reset)
        await send(port, POST + b"Content-Length: 0\r\nConnection: close\r\n\r\n")
    assert errors == []
    assert len(lines) <= len({kind for _, kind in BAD.values()})


async def test_a_flood_fills_no_log(
    errors: list[logging.LogRecord], lines: list[str]
) -> None:
    counted = Counter[tuple[str, ...]]()
    async with listening_on(counted) as port:
        for _ in range(300):
            await send(port, b"GET /" + b"a" * 9_000 + b" HTTP/1.1\r\n\r\n")
        await until(lambda: counted["too long",] == 300, "all are counted")
    assert errors == []
    assert len(lines) == 1


def test_the_next_line_says_how_many_there_were(lines: list[str]) -> None:
    moments = iter([0.0] * 5 + [QUIET_SECONDS])
    counted = Counter[tuple[str, ...]]()
    made = BadRequests(counted, lambda: next(moments)).logger()
    for _ in range(5):
        made.error("bad from %s", "a", exc_info=LineTooLong("x", 1))
    made.error("bad from %s", "b", exc_info=LineTooLong("x", 1))
    assert len(lines) == 2
    assert counted["too long",] == 6


@pytest.mark.parametrize("path", ["/fail", "/lose"])
async def test_a_fault_of_ours_stays_an_error(
    path: str, errors: list[logging.LogRecord]
) -> None:
    counted = Counter[tuple[str, ...]]()
    async with listening_on(counted) as port:
        await send(port, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await until(lambda: errors, "it is logged")
    assert errors[0].levelno == logging.ERROR
    assert errors[0].exc_info
    assert counted == Counter()


def test_kinds_of_errors() -> None:
    assert kind_of(None) is None
    assert kind_of(ValueError("x")) is None
    assert kind_of(ConnectionResetError()) is None
    assert kind_of(BadHttpMessage("x")) == "malformed"
