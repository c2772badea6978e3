"""HTTP to one store: reads are retried, sends are not."""

from __future__ import annotations

import importlib.util
import math
import ssl
import sys
from copy import copy
from datetime import timedelta
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any, cast

import httpx
from msgspec import Struct
from msgspec.structs import replace
from tenacity import (
    AsyncRetrying,
    RetryError,
    retry_if_exception,
    retry_if_result,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)

from backhaul.core.backoff_and_circuit import Circuit
from backhaul.core.clock import to_text
from backhaul.core.identity import fingerprint
from backhaul.core.rate_limit import (
    LONGEST_PAUSE_SECONDS,
    PATIENCE_SECONDS,
    Budget,
    Priority,
    limit_in_words,
)
from backhaul.errors import BackhaulError
from backhaul.observe.redaction import REDACTED, SHORTEST
from backhaul.platform.request_spans import begin_request, end_request
from backhaul.platform.responses import Response, end_if_followed
from backhaul.runtime.signals import StoreSignals

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from backhaul.core.clock import Clock

_NEVER_SENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
    httpx.LocalProtocolError,
    httpx.InvalidURL,
)
_TRIES = 3
_THROTTLED_SECONDS = 300.0
"""A read that is throttled for longer returns the last 429."""
REPORTED_PAUSE_SECONDS = 60.0
"""A pause that is longer is reported to operators."""
KEPT_SECONDS = 2.0
"""After so long a connection for commands is not used again: platforms close them."""
FIRST_BYTE = "http11.send_request_headers.started"
"""What httpcore traces before it writes the first byte of a request."""
ENDED = "the daemon is stopping, or may no longer send this"


class NotSent(BackhaulError):
    """Proved: no byte of the request reached the platform."""


class SendingEnded(NotSent):
    """Sending has ended; this says nothing about the platform."""


class OutcomeUnknown(BackhaulError):
    """The request may have arrived, but no usable response came."""


class ResponseTooLong(OutcomeUnknown):
    """The response is too long; a retry would return as many bytes."""


class Limits(Struct, frozen=True):
    """Limits for one store, in seconds and bytes."""

    connect_seconds: float
    read_seconds: float
    max_response_bytes: int
    longest_pause_seconds: float = LONGEST_PAUSE_SECONDS


class Pause(Struct, frozen=True):
    """The platform's rate limit lets nothing through; `until` is a time in UTC."""

    until: str
    reason: str


class _Noted(Struct):
    """What a store's transports share, as they share its budget."""

    pause: Pause | None = None
    keeps_connections: bool = False


@cache
def _trusted(scheme: str) -> ssl.SSLContext:
    """Load the trusted authorities once, because that is slow.

    Plain http needs none; a TLS connection would then trust no authority.
    """
    if scheme == "http":
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return httpx.create_ssl_context()


def _skip_loop_detection() -> None:
    """Spare httpx a search for trio at each request if `sniffio` is not installed."""
    if importlib.util.find_spec("sniffio") is None:
        sys.modules["sniffio"] = cast("Any", None)


async def _let_through() -> None:
    """Require nothing."""


async def _stay(response: httpx.Response) -> None:
    """Drop the target of a redirect, which is not followed.

    httpx parses it anyway, and reports a bad one as a request that was never sent.
    """
    response.headers.pop("Location", None)


class Transport:
    """The one place where httpx is used.

    It emits the signals `key_refused` after each 401, `platform_failing` whenever the
    circuit opens, `request_ended` after every request, and `pause_began` when a pause
    of more than a minute begins.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        limits: Limits,
        clock: Clock,
        transport: httpx.AsyncBaseTransport | None = None,
        signals: StoreSignals | None = None,
    ) -> None:
        self.budget = Budget(limits.longest_pause_seconds)
        self.circuit = Circuit()
        self._require: Callable[[], Awaitable[None]] = _let_through
        self._signals = signals or StoreSignals()
        self._noted = _Noted()
        self._limits = limits
        self._clock = clock
        timeout = httpx.Timeout(limits.read_seconds, connect=limits.connect_seconds)
        options: dict[str, Any] = {
            "base_url": f"{base_url}/api/v1",
            "headers": {
                "Authorization": f"Bearer {api_key}",
                "Accept": "application/json",
                "Accept-Encoding": "identity",
                "User-Agent": "backhaul",
            },
            "timeout": timeout,
            "transport": transport,
            "verify": _trusted(httpx.URL(base_url).scheme),
            # API keys need no cookies, and some cookies do not fit in a header.
            "cookies": CookieJar(DefaultCookiePolicy(allowed_domains=())),
            "event_hooks": {"response": [_stay]},
        }
        _skip_loop_detection()
        self._reads = httpx.AsyncClient(**options)
        self._commands = httpx.AsyncClient(
            **options, limits=httpx.Limits(max_keepalive_connections=0)
        )
        self._kept = httpx.AsyncClient(
            **options, limits=httpx.Limits(keepalive_expiry=KEPT_SECONDS)
        )

    @property
    def key_fingerprint(self) -> str:
        """A fingerprint of the API key in use that does not reveal it."""
        return fingerprint(self._key)

    @property
    def _clients(self) -> tuple[httpx.AsyncClient, ...]:
        return self._reads, self._commands, self._kept

    @property
    def _sender(self) -> httpx.AsyncClient:
        return self._kept if self._noted.keeps_connections else self._commands

    @property
    def _key(self) -> str:
        return self._reads.headers["Authorization"].removeprefix("Bearer ")

    def use_key(self, api_key: str) -> None:
        """Send this API key from now on."""
        for client in self._clients:
            client.headers["Authorization"] = f"Bearer {api_key}"

    def keep_connections(self, *, keep: bool) -> None:
        """Send commands on connections that stay open, or each on one of its own.

        A platform may close an open one just when a command is sent on it. Only where
        it honours Idempotency-Key, such a command is simply sent again.
        """
        self._noted.keeps_connections = keep

    def guarded(self, require: Callable[[], Awaitable[None]]) -> Transport:
        """Return a copy that awaits `require` before each request.

        `require` may raise NotSent, so that nothing is read from, or sent to, another
        store than the mirror's.
        """
        other = copy(self)
        other._require = require
        return other

    async def close(self) -> None:
        """Close all connections."""
        for client in self._clients:
            await client.aclose()

    async def get(
        self,
        path: str,
        params: Mapping[str, str | int],
        priority: Priority = Priority.REREAD,
    ) -> Response:
        """Read with retries. Raises NotSent or OutcomeUnknown."""
        await self._require()
        retrying = AsyncRetrying(
            retry=retry_if_exception(_may_pass)
            | retry_if_result(lambda answer: answer.status in {502, 503, 504}),
            stop=stop_after_attempt(_TRIES),
            wait=wait_exponential(multiplier=0.2, max=5) + wait_random(0, 1),
            sleep=self._clock.sleep,
            reraise=True,
        )
        request = self._reads.build_request("GET", path, params=dict(params))
        try:
            return await _tried(retrying, self._admitted, request, priority)
        except RetryError as error:
            answer: Response = error.last_attempt.result()
            return answer

    async def probe(self, path: str, params: Mapping[str, str | int]) -> Response:
        """Read once, even if the circuit is open. Raises NotSent or OutcomeUnknown."""
        await self._require()
        request = self._reads.build_request("GET", path, params=dict(params))
        answered = False
        try:
            answer = await self._exchange(self._reads, request)
            answered = answer.status < 500
        finally:
            self.circuit.probed(answered=answered)
        return answer

    async def _await_room(self, priority: Priority) -> None:
        """Wait until a read may be sent; an overdue one takes room from commands."""
        now = self._clock.monotonic
        patience = PATIENCE_SECONDS.get(priority, math.inf)
        overdue_at = now() + patience
        while wait := self.budget.wait_seconds(priority, now()):
            if now() >= overdue_at:
                break
            await self._clock.sleep(min(wait, overdue_at - now()))
        else:
            return
        with self.budget.overdue():
            while wait := self.budget.wait_seconds(priority, now(), overdue=True):
                await self._clock.sleep(wait)

    async def _admitted(self, request: httpx.Request, priority: Priority) -> Response:
        """Read once there is room; wait after a 429, which is not a failed attempt."""
        patience_ends = self._clock.monotonic() + _THROTTLED_SECONDS
        while True:
            await self._await_room(priority)
            if self.circuit.reads_wait:
                raise NotSent(
                    "the last requests to the platform failed, so Backhaul sends"
                    " nothing now; it tries one request soon"
                )
            answered = False
            try:
                answer = await self._exchange(self._reads, request)
                answered = answer.status < 500
            finally:
                self.circuit.read(answered=answered)
            if answer.status != 429 or self._clock.monotonic() >= patience_ends:
                return answer

    async def send(
        self,
        path: str,
        body: bytes,
        key: str,
        method: str = "POST",
        *,
        room_taken: bool = False,
        may_send: Callable[[], bool] = lambda: True,
    ) -> Response:
        """Send a command. Raises NotSent (after retries) or OutcomeUnknown (no retry).

        `room_taken` is True if `budget.take` reserved room for the first attempt.
        `may_send` is called before each attempt, and again just before its first byte:
        to connect may take long.
        """
        try:
            await self._require()
            request = self._command(method, path, body, key, may_send)
        except BaseException:
            self.budget.give_back(int(room_taken))
            raise
        retrying = AsyncRetrying(
            retry=retry_if_exception(
                lambda error: isinstance(error, NotSent) and may_send()
            ),
            stop=stop_after_attempt(_TRIES),
            wait=wait_exponential(multiplier=0.1, max=2) + wait_random(0, 1),
            sleep=self._clock.sleep,
            reraise=True,
        )
        rooms = iter([room_taken])

        async def leave() -> Response:
            room = next(rooms, False)
            if not may_send():
                self.budget.give_back(int(room))
                raise SendingEnded(ENDED)
            return await self._exchange(self._sender, request, room_taken=room)

        try:
            answer = await _tried(retrying, leave)
        except SendingEnded:
            raise
        except (NotSent, OutcomeUnknown):
            self._fail()
            raise
        if answer.status >= 500:
            self._fail()
        else:
            self.circuit.answered()
        return answer

    def _command(
        self,
        method: str,
        path: str,
        body: bytes,
        key: str,
        may_send: Callable[[], bool],
    ) -> httpx.Request:
        """Return the request of a command.

        It raises SendingEnded if `may_send` is False just before the first byte.
        """

        async def at_first_byte(event: str, _: object) -> None:
            if event == FIRST_BYTE and not may_send():
                raise SendingEnded(ENDED)

        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        return self._commands.build_request(
            method,
            path,
            content=body,
            headers=headers,
            extensions={"trace": at_first_byte},
        )

    def _fail(self) -> None:
        self.circuit.failed()
        if self.circuit.open:
            self._signals.platform_failing.emit()

    def _discreet(self, answer: Response) -> Response:
        """Redact our key in a refusal that repeats it, because refusals are stored."""
        if len(self._key) < SHORTEST:
            return answer
        said = answer.body.replace(self._key.encode(), REDACTED.encode())
        return replace(answer, body=said)

    async def _exchange(
        self,
        client: httpx.AsyncClient,
        request: httpx.Request,
        *,
        room_taken: bool = False,
    ) -> Response:
        if room_taken:
            self.budget.leave()
        else:
            self.budget.spend(self._clock.monotonic())
        span = begin_request(request)
        headers: Mapping[str, str] = {}
        began, came = self._clock.monotonic(), "no answer"
        try:
            response = await client.send(request, stream=True)
            headers = response.headers
            try:
                body = await self._read(response)
                came = str(response.status_code)
                await end_if_followed(response)
            finally:
                await response.aclose()
                # The stream refers to the response: a cycle would delay freeing both.
                del response.stream
        except _NEVER_SENT as error:
            came = "not sent"
            raise NotSent(_words(error)) from None
        except (httpx.HTTPError, AttributeError) as error:
            # AttributeError: with uvloop, if a connection is reset at once, anyio asks
            # the closed socket for its name.
            raise OutcomeUnknown(_words(error)) from None
        finally:
            self._learn(headers)
            seconds = self._clock.monotonic() - began
            self._signals.request_ended.emit(request.method, came, seconds)
            end_request(span, came)
        received_at = self._clock.now()
        answer = Response(response.status_code, headers, body, received_at)
        if not answer.ok:
            answer = self._discreet(answer)
        if answer.status == 429:
            wait = answer.retry_after_seconds()
            self.budget.throttled(self._clock.monotonic(), wait)
        self._note_pause(request, answer)
        if answer.status == 401:
            self._signals.key_refused.emit(answer.said())
        return answer

    def pause(self) -> Pause | None:
        """Return the current pause of more than a minute; None if there is none."""
        now, pause = to_text(self._clock.now()), self._noted.pause
        return pause if pause is not None and pause.until > now else None

    def _note_pause(self, request: httpx.Request, answer: Response) -> None:
        wait = self.budget.pause_seconds(self._clock.monotonic())
        if wait <= REPORTED_PAUSE_SECONDS:
            self._noted.pause = None
            return
        until = to_text(self._clock.now() + timedelta(seconds=wait))
        path = request.url.path.removeprefix("/api/v1")
        is_new = self._noted.pause is None
        said = answer.said() if answer.status == 429 else str(answer.status)
        limit = limit_in_words(said, answer.headers)
        pause = Pause(until, f"{limit} to {request.method} {path}")
        self._noted.pause = pause
        if is_new:
            self._signals.pause_began.emit(pause)

    def _learn(self, headers: Mapping[str, str]) -> None:
        policy, limit = headers.get("ratelimit-policy"), headers.get("ratelimit")
        self.budget.answered(self._clock.monotonic(), policy or "", limit or "")

    async def _read(self, response: httpx.Response) -> bytes:
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > self._limits.max_response_bytes:
                limit = self._limits.max_response_bytes
                raise ResponseTooLong(
                    f"the platform's response is longer than {limit} bytes"
                )
        return bytes(body)


async def _tried(
    retrying: AsyncRetrying,
    exchange: Callable[..., Awaitable[Response]],
    *arguments: object,
) -> Response:
    try:
        return await retrying(exchange, *arguments)
    finally:
        # Its steps refer to it: the cycle would wait for the garbage collector.
        retrying.iter_state.reset()


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, NotSent | OutcomeUnknown) and not isinstance(
        error, ResponseTooLong
    )


def _words(error: Exception) -> str:
    if isinstance(error, httpx.LocalProtocolError):
        return "LocalProtocolError"  # its text quotes the header, and so the key
    return f"{type(error).__name__}: {error}".rstrip(": ")
