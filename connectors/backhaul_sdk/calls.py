"""HTTP calls of a connector: one request, one answer, every failure classified.

A call passes the address guard, follows no redirect, keeps no cookie, uses no proxy of
the environment, and reads a body of limited size.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from aiohttp import (
    ClientConnectorError,
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    ConnectionTimeoutError,
    DummyCookieJar,
    InvalidURL,
)

from backhaul_sdk import clock
from backhaul_sdk.addresses import AddressRefused, Guard, Network
from backhaul_sdk.contract import (
    Absent,
    Applied,
    CheckFailed,
    NotSent,
    Pushed,
    Rejected,
    Uncertain,
)
from backhaul_sdk.retry_after import wait_seconds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from aiohttp.abc import AbstractResolver
    from yarl import URL

    from backhaul_sdk.contract import LookedUp


USER_AGENT = "Backhaul"
MOST_BYTES = 5_000_000
MAX_DEPTH = 64
LONGEST_REST_SECONDS = 300.0
CHUNK_BYTES = 65_536
SAID_CHARACTERS = 300
SHORTEST_SECRET = 4
REDACTED = b"[redacted]"


class CallFailed(CheckFailed):
    """A call got no answer; the text says why, without secrets."""


class NeverSent(CallFailed):
    """The request certainly did not arrive."""


class NoAnswer(CallFailed):
    """The request may have arrived."""


class NotJson(CheckFailed):
    """The answer is not the JSON that was expected."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The other side's answer; header names are lower case."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def retry_after_seconds(self) -> float | None:
        """The wait that the other side asks for, at most 5 minutes; None if none.

        After 5 minutes one request tries again: the header may be wrong.
        """
        asked, date = (self.headers.get(name, "") for name in ("retry-after", "date"))
        wait = wait_seconds(asked, date, clock.now())
        return None if wait is None else min(wait, LONGEST_REST_SECONDS)

    def json(self) -> Any:
        """Return the body's JSON value. Raises NotJson."""
        return read_json(self.body)

    def words(self) -> str:
        """Return the status and the beginning of the body, for messages."""
        text = self.body[: 4 * SAID_CHARACTERS].decode("utf-8", "replace")
        said = " ".join(text.split())[:SAID_CHARACTERS]
        return f"{self.status}: {said}" if said else str(self.status)


class Caller:
    """Sends HTTP requests to addresses that its network settings allow.

    `open` it in a running loop. Without `keep_alive` every request has a connection of
    its own, so that no request is lost on a connection that the other side is closing.
    An error body that repeats one of `secrets`, or the `Authorization` header, is
    returned without it: its text goes to people, and into databases.
    """

    def __init__(
        self,
        network: Network,
        *,
        answer_seconds: float = 30.0,
        connect_seconds: float = 10.0,
        most_bytes: int = MOST_BYTES,
        keep_alive: bool = False,
        secrets: Iterable[str] = (),
        resolver: AbstractResolver | None = None,
    ) -> None:
        self._guard = Guard(network, resolver)
        self._secrets = tuple(secrets)
        self._answer_seconds = answer_seconds
        self._connect_seconds = connect_seconds
        self._most_bytes = most_bytes
        self._keep_alive = keep_alive
        self._session: ClientSession | None = None

    def check(self, url: str | URL) -> URL:
        """Return the URL if it may be called. Raises AddressRefused."""
        return self._guard.check(url)

    async def open(self) -> None:
        """Open the HTTP session; does nothing if it is open."""
        if self._session is None:
            self._session = ClientSession(
                connector=self._guard.connector(keep_alive=self._keep_alive),
                cookie_jar=DummyCookieJar(),
                headers={"User-Agent": USER_AGENT, "Accept": "application/json"},
                timeout=ClientTimeout(
                    connect=self._connect_seconds, sock_connect=self._connect_seconds
                ),
            )

    async def close(self) -> None:
        """Close every connection. Safe to call twice."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def call(
        self,
        method: str,
        url: str | URL,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Answer:
        """Send one request, once. Raises NeverSent or NoAnswer."""
        await self.open()
        try:
            target = self.check(url)
            async with asyncio.timeout(self._answer_seconds):
                return await self._ask(method, target, headers or {}, body)
        except AddressRefused as refused:
            raise NeverSent(str(refused)) from None
        except (ClientConnectorError, ConnectionTimeoutError, InvalidURL) as error:
            raise NeverSent(f"{_where(url)} cannot be reached: {_why(error)}") from None
        except (ClientError, TimeoutError, OSError) as error:
            raise NoAnswer(f"no response from {_where(url)}: {_why(error)}") from None

    def redacted(self, text: str) -> str:
        """Return a text without the secrets, for people and databases."""
        return _without(self._secrets, text.encode()).decode()

    async def _ask(
        self, method: str, url: URL, headers: Mapping[str, str], body: bytes | None
    ) -> Answer:
        if self._session is None:
            raise NeverSent("the connector is closed, because the daemon is stopping")
        async with self._session.request(
            method, url, headers=headers, data=body, allow_redirects=False
        ) as response:
            content = await self._content(response)
            named = {name.lower(): value for name, value in response.headers.items()}
            answer = Answer(response.status, named, content)
            if answer.is_success:
                return answer
            shown = headers.get("Authorization", "").partition(" ")[2]
            return replace(answer, body=_without((*self._secrets, shown), content))

    async def _content(self, response: ClientResponse) -> bytes:
        content = bytearray()
        async for chunk in response.content.iter_chunked(CHUNK_BYTES):
            content += chunk
            if len(content) > self._most_bytes:
                response.close()
                host = response.url.host
                limit = f"{self._most_bytes} bytes"
                raise NoAnswer(f"the response of {host} is longer than {limit}")
        return bytes(content)


def _without(secrets: Iterable[str], body: bytes) -> bytes:
    for secret in secrets:
        if len(secret) >= SHORTEST_SECRET:
            for spelled in (secret, json.dumps(secret)[1:-1]):
                body = body.replace(spelled.encode(), REDACTED)
    return body


def read_json(body: bytes) -> Any:
    """Return a JSON value of limited depth. Raises NotJson."""
    try:
        document = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise NotJson("the response is not JSON") from None
    level: list[Any] = [document]
    for _ in range(MAX_DEPTH + 1):
        level = [child for node in level for child in _children(node)]
        if not level:
            return document
    raise NotJson(
        f"the JSON of the response is nested more than {MAX_DEPTH} levels deep"
    )


def outcome_of(answer: Answer) -> Pushed:
    """Classify a system's answer to a write that it applies at most once."""
    if answer.is_success:
        return Applied()
    if answer.status == 429 or (answer.status == 503 and _asks_to_wait(answer)):
        return NotSent(
            f"the server asks to retry later: {answer.words()}",
            answer.retry_after_seconds,
        )
    if 300 <= answer.status < 400:
        return NotSent(
            "the server answered with a redirect, and Backhaul does not follow"
            " redirects; set the final URL"
        )
    if answer.status in (401, 403, 407):
        return NotSent(
            f"the server denied access; check the key and its rights: {answer.words()}"
        )
    if answer.status in (404, 405):
        return NotSent(
            f"the server did not find the URL; check the URL: {answer.words()}"
        )
    if answer.status in (400, 409, 410, 413, 414, 415, 422):
        return Rejected(f"refused: {answer.words()}")
    return Uncertain(f"answered {answer.words()}")


def _asks_to_wait(answer: Answer) -> bool:
    return answer.retry_after_seconds is not None


def _children(node: Any) -> Any:
    if isinstance(node, dict):
        return node.values()
    return node if isinstance(node, list) else ()


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not a JSON number")


def _where(url: str | URL) -> str:
    """Return scheme, host and port: paths and queries may contain keys."""
    found = re.match(r"https?://[^/?#@]*", str(url))
    return found[0] if found else "the address"


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it takes too long"
    if isinstance(error, ClientConnectorError):
        return str(error.os_error.strerror or error.os_error)
    # Other texts of aiohttp may contain the URL.
    return type(error).__name__


class Pause:
    """The wait that a server asked for. `clock` returns seconds that never go back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until = clock()

    def begin(self, seconds: float) -> None:
        """Wait from now on, instead of an earlier wait."""
        self._until = self._clock() + seconds

    @property
    def left_seconds(self) -> float:
        """How long the wait still lasts; 0 after its end."""
        return max(self._until - self._clock(), 0.0)


class LateArrivals:
    """Knows until when a change that is absent may still arrive.

    `seconds` is how long the system may keep processing an abandoned request; `clock`
    returns seconds that never go back.
    """

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._until = 0.0

    def request_may_run(self) -> None:
        """Record that a request may be in progress from now on.

        Call it in `open` as well: an earlier process may just have lost an answer.
        """
        self._until = self._clock() + self._seconds

    async def lookup(self, look: Callable[[], Awaitable[LookedUp]]) -> LookedUp:
        """Look up a change; it is Absent only after every request has ended.

        Passes on exceptions of `look`.
        """
        while True:
            is_settled = self._clock() >= self._until
            found = await look()
            if is_settled or not isinstance(found, Absent):
                return found
            await asyncio.sleep(self._until - self._clock())
