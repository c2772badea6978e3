"""HTTP requests for a connection that another daemon runs are forwarded to it."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from backhaul.app import public_http, sockets
from backhaul.app.forwarding import HOP, Forwarder, reachable_url
from backhaul.app.public_http import RequestLimits
from backhaul.errors import ReadFailed
from backhaul.settings.listeners import Public
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

CONNECT = "/connect/{connection}{rest:.*}"
LARGE = 300_000
EVERYWHERE = "0.0.0.0"  # noqa: S104 - nothing is bound


class Owners:
    """Returns the owner of a store; fails while `is_away`."""

    def __init__(self, url: str | None) -> None:
        self.url = url
        self.is_away = False
        self.asked = 0

    async def __call__(self, store: str) -> str | None:
        self.asked += 1
        if self.is_away:
            raise ReadFailed("the database is away")
        return self.url


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """Serve `/connect/` as the daemon does; yield the address."""
    limits = RequestLimits.of(Public(), lambda _path, _answer: None)
    route = web.route("*", CONNECT, handler)
    app = public_http.build([route], 1 << 20, limits)
    sock = sockets.bind_tcp("127.0.0.1", 0, "public")
    async with sockets.serving([(sockets.Listener(app, 512, limits), sock)]):
        yield sockets.url_of(sock)


@asynccontextmanager
async def forwarding(owners: Owners) -> AsyncIterator[str]:
    """Serve a daemon that forwards the requests for the connection `bench`."""
    forwarder = Forwarder(owners, {"bench": "main"})

    async def handle(request: web.Request) -> web.StreamResponse:
        return await forwarder.forward(request.match_info["connection"], request)

    async with forwarder.opened(), serving(handle) as url:
        yield url


async def shown(request: web.Request) -> web.Response:
    """Answer with the received request."""
    body = {
        "method": request.method,
        "path": request.raw_path,
        "body": (await request.read()).decode(),
        "headers": dict(request.headers),
    }
    return web.json_response(body, status=201, headers={"X-Answer": "of the owner"})


async def large(request: web.Request) -> web.Response:
    return web.Response(body=b"x" * LARGE)


async def broken_off(request: web.Request) -> web.StreamResponse:
    """Send half of a response, then close the connection, as a killed process."""
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"half")
    assert request.transport is not None
    request.transport.abort()
    return response


async def stalling(request: web.Request) -> web.StreamResponse:
    """Send half of a response and then nothing, as a frozen process."""
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"half")
    transport = request.transport
    await until(lambda: transport is None or transport.is_closing(), "it gave up")
    return response


async def ask(
    url: str, path: str = "/connect/bench/scan", **given: Any
) -> tuple[int, Any, bytes]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(URL(url + path, encoded=True), **given) as answer,
    ):
        return answer.status, answer.headers, await answer.read()


async def test_the_owner_gets_the_request_and_the_client_its_answer() -> None:
    async with serving(shown) as owner, forwarding(Owners(owner)) as url:
        headers = {
            "Authorization": "Bearer x",
            "Connection": "X-Mine",
            "X-Mine": "1",
            "X-Forwarded-For": "10.0.0.9",
            "Host": "hooks.example",
        }
        path = "/connect/bench/scan%2Fa?b=%20c"
        status, answered, body = await ask(url, path, data=b"{}", headers=headers)
    assert (status, answered["X-Answer"]) == (201, "of the owner")
    arrived = json.loads(body)
    assert (arrived["method"], arrived["path"], arrived["body"]) == ("POST", path, "{}")
    sent = arrived["headers"]
    assert (sent["Authorization"], sent["Host"]) == ("Bearer x", "hooks.example")
    assert (sent["X-Forwarded-For"], sent[HOP]) == ("10.0.0.9, 127.0.0.1", "1")
    assert "X-Mine" not in sent


async def test_a_large_answer_comes_whole() -> None:
    async with serving(large) as owner, forwarding(Owners(owner)) as url:
        status, _, body = await ask(url)
    assert (status, len(body)) == (200, LARGE)


async def test_a_forwarded_request_is_not_forwarded_again() -> None:
    """Two daemons that believe the other is the owner would forward it endlessly."""
    owners = Owners(None)
    async with forwarding(owners) as url:
        owners.url = url
        status, headers, body = await ask(url)
    assert (status, headers["Retry-After"]) == (503, "1")
    assert b"has just got another owner" in body


@pytest.mark.parametrize("url", [None, "http://127.0.0.1:9"])
async def test_without_an_owner_that_answers_the_client_has_to_retry(
    url: str | None,
) -> None:
    async with forwarding(Owners(url)) as address:
        status, headers, _ = await ask(address)
    assert (status, headers["Retry-After"]) == (503, "1")


async def test_an_unknown_connection_is_not_found() -> None:
    async with forwarding(Owners(None)) as url:
        status, _, _ = await ask(url, "/connect/other/scan")
    assert status == 404


async def test_the_last_owner_is_used_while_the_database_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("backhaul.app.forwarding.KNOWN_SECONDS", 0.0)
    async with serving(shown) as owner:
        owners = Owners(owner)
        async with forwarding(owners) as url:
            assert (await ask(url))[0] == 201
            owners.is_away = True
            assert (await ask(url))[0] == 201
    assert owners.asked == 2


@pytest.mark.parametrize(
    ("bound", "address", "reached"),
    [
        ("127.0.0.1", None, "http://127.0.0.1:8750"),
        ("10.0.0.5", "a.example", "http://127.0.0.1:8750"),
        (EVERYWHERE, "a.example", "http://a.example:8750"),
        ("::", "fd00::5", "http://[fd00::5]:8750"),
        (EVERYWHERE, None, "http://127.0.0.1:8750"),
    ],
)
def test_the_others_reach_a_listener_at_an_address_of_its_machine(
    bound: str, address: str | None, reached: str
) -> None:
    place = "postgresql://backhaul@127.0.0.1:5432,db2/backhaul"
    assert reachable_url("http://127.0.0.1:8750", bound, place, address) == reached


def test_the_address_towards_the_database_is_that_of_its_network() -> None:
    place = "postgresql://backhaul@127.0.0.2/backhaul"
    found = reachable_url("http://127.0.0.1:8750", EVERYWHERE, place, None)
    assert found in {"http://127.0.0.1:8750", "http://127.0.0.2:8750"}
    silent = "postgresql://backhaul@nobody.invalid/backhaul"
    assert reachable_url("http://127.0.0.1:1", "::", silent, None).endswith(":1")


@pytest.mark.parametrize("handler", [broken_off, stalling])
async def test_an_answer_that_breaks_off_is_not_completed_by_another(
    monkeypatch: pytest.MonkeyPatch, handler: Handler
) -> None:
    monkeypatch.setattr("backhaul.app.forwarding.ANSWER_SECONDS", 0.2)
    async with serving(handler) as owner, forwarding(Owners(owner)) as url:
        where = urlsplit(url)
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        writer.write(b"POST /connect/bench/scan HTTP/1.1\r\nHost: a\r\n\r\n")
        received = await reader.read()
        writer.close()
    assert received.count(b"HTTP/1.1 ") == 1
    assert not received.endswith(b"0\r\n\r\n")
