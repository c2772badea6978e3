"""Forwards requests for a connection to the daemon that runs it."""

from __future__ import annotations

import socket
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web
from loguru import logger
from multidict import CIMultiDict
from yarl import URL

from backhaul.errors import Busy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from multidict import CIMultiDictProxy

    from backhaul.store.ownership import Ownership

HOP = "X-Backhaul-Forwarded"
"""Marks a request that a daemon forwarded; it is not forwarded once more."""
KNOWN_SECONDS = 1.0
"""How long the owner of a store is remembered."""
CONNECT_SECONDS = 2.0
ANSWER_SECONDS = 30.0
CHUNK_BYTES = 64 << 10
ANY_PORT = 9
_OF_A_CONNECTION = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization"),
        *("proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
    }
)
"""Headers that concern one connection, and not the request or its answer."""


class FindOwner(Protocol):
    """Finds the daemon that runs the connections of a store."""

    async def __call__(self, store: str, /) -> str | None:
        """Return its public URL, or None if there is none. Raises ReadFailed."""
        ...


class Forwarder:
    """Sends requests of `/connect/` to the owner of the connection's store.

    `stores` has the store of each connection. Use it inside of `opened`.
    """

    def __init__(self, find_owner: FindOwner, stores: Mapping[str, str]) -> None:
        self._find_owner = find_owner
        self._stores = stores
        self._known: dict[str, tuple[float, str | None]] = {}
        self._session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Keep connections to the other daemons meanwhile."""
        async with client() as self._session:
            yield
        self._session = None

    async def forward(
        self, connection: str, request: web.Request
    ) -> web.StreamResponse:
        """Return the owner's answer; 503 if it cannot be asked, 404 if there is none.

        The request has its whole body, which the listener limits.
        """
        store = self._stores.get(connection)
        if store is None:
            raise web.HTTPNotFound
        if HOP in request.headers:
            return _later("the store has just got another owner; send it again")
        owner = await self._owner(store)
        if owner is None or self._session is None:
            return _later("no daemon runs this connection now; send it again")
        try:
            answer = await send(self._session, owner, request)
        except (aiohttp.ClientConnectionError, TimeoutError) as error:
            self._known.pop(store, None)
            logger.bind(action="connector.forward_failed", store=store).warning(
                "{}: the daemon at {} did not answer: {}: {}",
                connection,
                owner,
                type(error).__name__,
                error,
            )
            return _later("the daemon that runs this connection did not answer")
        async with answer:
            return await relay(answer, request)

    async def _owner(self, store: str) -> str | None:
        until, owner = self._known.get(store, (0.0, None))
        if monotonic() < until:
            return owner
        # While the database is away, the last owner is the best guess.
        with suppress(Busy):
            owner = await self._find_owner(store)
        self._known[store] = monotonic() + KNOWN_SECONDS, owner
        return owner


def client(connector: aiohttp.BaseConnector | None = None) -> aiohttp.ClientSession:
    """Return a client that passes requests and answers on unchanged."""
    limits = aiohttp.ClientTimeout(
        total=None, sock_connect=CONNECT_SECONDS, sock_read=ANSWER_SECONDS
    )
    return aiohttp.ClientSession(
        connector=connector,
        timeout=limits,
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent"),
    )


async def send(
    session: aiohttp.ClientSession, base: str, request: web.Request
) -> aiohttp.ClientResponse:
    """Send a request to the server at `base`; return its answer with the headers.

    Raises aiohttp.ClientConnectionError and TimeoutError.
    """
    return await session.request(
        request.method,
        URL(f"{base}{request.rel_url.raw_path_qs}", encoded=True),
        data=await request.read(),
        headers=_asked(request),
        allow_redirects=False,
    )


async def relay(
    answer: aiohttp.ClientResponse, request: web.Request
) -> web.StreamResponse:
    """Pass on the owner's answer; break off where it breaks off."""
    response = web.StreamResponse(
        status=answer.status, headers=_passed_on(answer.headers)
    )
    await response.prepare(request)
    try:
        async for chunk in answer.content.iter_chunked(CHUNK_BYTES):
            await response.write(chunk)
        await response.write_eof()
    except (aiohttp.ClientError, TimeoutError):
        # The client has the status already. Another answer would be part of the body.
        if request.transport is not None:
            request.transport.abort()
    return response


def _passed_on(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    named = {
        name.strip().lower()
        for value in headers.getall("Connection", ())
        for name in value.split(",")
    }
    left_out = _OF_A_CONNECTION | named
    return CIMultiDict(
        (name, value) for name, value in headers.items() if name.lower() not in left_out
    )


def _asked(request: web.Request) -> CIMultiDict[str]:
    """Return the headers of a request that is passed on, with its client's address."""
    headers = _passed_on(request.headers)
    headers.popall("Content-Length", None)  # the client counts the body itself
    client = [*headers.popall("X-Forwarded-For", ()), request.remote or "unknown"]
    headers["X-Forwarded-For"] = ", ".join(client)
    headers[HOP] = "1"
    return headers


def _later(what: str) -> web.Response:
    body = {"accepted": False, "what": what}
    return web.json_response(body, status=503, headers={"Retry-After": "1"})


async def owner_url(ownership: Ownership, store: str) -> str | None:
    """Return the public URL of the daemon that owns the store. Raises ReadFailed."""
    owners = await ownership.owners([store])
    return next((each.public_url or None for each in owners if each.is_alive), None)


def reachable_url(url: str, bound: str, place: str, address: str | None) -> str:
    """Return the URL by which the other daemons reach a listener of this one.

    `url` is the one for people on this machine, and `bound` what it listens on. Where
    that is every address, the `address` of the settings counts, or else the one from
    which this machine reaches the database at `place`.
    """
    if not url or bound not in {"0.0.0.0", "::"}:  # noqa: S104 - only compared
        return url
    host = address or _own_address(place)
    return str(URL(url).with_host(host)) if host else url


def _own_address(place: str) -> str | None:
    """Return the address of this machine towards a server; None without a network."""
    hosts = urlsplit(place).netloc.rpartition("@")[2]
    first = URL(f"http://{hosts.partition(',')[0]}").host
    try:
        kind, _, _, _, there = socket.getaddrinfo(
            first, ANY_PORT, type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(kind, socket.SOCK_DGRAM) as probe:
            probe.connect(there)  # nothing is sent
            return str(probe.getsockname()[0])
    except OSError:
        return None
