"""Webhook receiver: verifies, stores, responds, and counts its responses."""

from __future__ import annotations

from collections import Counter, deque
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web
from loguru import logger

from backhaul.core import webhook
from backhaul.core.clock import to_text
from backhaul.core.strict_json import storable
from backhaul.errors import Busy
from backhaul.runtime.tracing import INBOX, STORE, working_on
from backhaul.store.inbox import Arrival

if TYPE_CHECKING:
    from collections.abc import Callable

    from multidict import CIMultiDictProxy

    from backhaul.core.clock import Clock
    from backhaul.ingest.secret_rings import SecretRings
    from backhaul.runtime.tracing import Tracer
    from backhaul.store.inbox import Appending


KEPT = "kept"
"""The response 200, sent after the delivery is durable."""
BUSY = "busy"
"""The answer 503, which `Refusals` logs."""
HOUR_SECONDS = 3_600.0
MINUTE_SECONDS = 60.0
TOPIC = "backhaul.topic"
_FIRST = "webhooks"
"""The first part of the path that deliveries are sent to."""


class ResponseCounter:
    """Counts responses by store and kind.

    `counted` has all counts. `known` returns a store's name, or `unknown` for a name
    that is not configured, so that nobody can add names without limit.
    """

    def __init__(
        self,
        counted: Counter[tuple[str, ...]],
        clock: Clock,
        known: Callable[[str], str],
    ) -> None:
        self._counted = counted
        self._clock = clock
        self._known = known
        self._minutes: deque[tuple[float, Counter[tuple[str, str]]]] = deque()

    def add(self, store: str, answer: str) -> None:
        """Count one delivery to the address of `store`."""
        name = self._known(store)
        if self.count(name, answer, 1) == 1 and answer not in {KEPT, BUSY}:
            self._log(name, answer)

    def count(self, name: str, answer: str, number: int) -> int:
        """Count responses; return how many of these refusals this minute has."""
        self._counted[name, answer] += number
        if answer == KEPT:
            return 0
        counts = self._minute()
        counts[name, answer] += number
        return counts[name, answer]

    def _log(self, store: str, answer: str) -> None:
        """Log the first refusal of a minute; anybody can cause any number of them."""
        logger.bind(action="receive.refused", store=store, answer=answer).info(
            "a delivery to store {} was refused: {}", store, answer
        )

    def add_at(self, path: str, answer: str) -> None:
        """Count one request to `path` that was refused before it was read.

        The path is empty if it had not arrived either.
        """
        first, _, rest = path.lstrip("/").partition("/")
        if first == _FIRST or not path:
            self.add(rest.partition("/")[0], answer)

    def _minute(self) -> Counter[tuple[str, str]]:
        """Return the counts of this minute; drop counts older than an hour."""
        now = self._clock.monotonic()
        if not self._minutes or now >= self._minutes[-1][0] + MINUTE_SECONDS:
            self._minutes.append((now, Counter()))
        while self._minutes[0][0] + HOUR_SECONDS < now:
            self._minutes.popleft()
        return self._minutes[-1][1]

    def refused(self) -> dict[str, dict[str, int]]:
        """Return how many deliveries were refused in the last hour, by store and kind.

        The kinds are those of the counter `webhooks_total`, but for `kept`.
        """
        oldest = self._clock.monotonic() - HOUR_SECONDS
        total: Counter[tuple[str, str]] = Counter()
        for began, counts in self._minutes:
            total.update(counts if began >= oldest else {})
        found: dict[str, dict[str, int]] = {}
        for (store, answer), number in total.items():
            found.setdefault(store, {})[answer] = number
        return found


CALM_SECONDS = 10.0
"""A pressure phase ends after this long without a refusal: a nearly full disk may
still accept some deliveries in between."""


class BackpressureLog:
    """Logs phases of 503 responses: a line for each would fill the disk."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._number = 0
        self._last = 0.0

    def refused(self, error: Busy) -> None:
        """Record that a webhook was answered with 503."""
        if not self._number:
            logger.bind(action="receive.busy").warning("{}", error)
        self._number += 1
        self._last = self._clock.monotonic()

    def kept(self) -> None:
        """Record that a webhook was stored."""
        if self._number and self._clock.monotonic() >= self._last + CALM_SECONDS:
            logger.bind(action="receive.resumed", refused=self._number).info(
                "webhooks are stored again; {} were answered with 503", self._number
            )
            self._number = 0


_encode = msgspec.json.Encoder().encode
_KEPT_HEADERS = ("x-service-", "webhook-", "content-type", "user-agent")


class Receiver:
    """Handles `POST /webhooks/{store}` for every configured store."""

    def __init__(
        self,
        inbox: Appending,
        clock: Clock,
        signers: SecretRings,
        arrived: Callable[[], None],
        answers: ResponseCounter | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        self._inbox = inbox
        self._clock = clock
        self._signers = signers
        self._arrived = arrived
        self._refusals = BackpressureLog(clock)
        self._answers = answers or ResponseCounter(Counter(), clock, signers.known)
        self._tracer = tracer

    def routes(self) -> list[web.RouteDef]:
        """Return the public routes; the topic may also come from the path."""
        # A fixed route for each known store is matched without a pattern.
        known = [
            web.post(f"/webhooks/{store}", partial(self._receive, store))
            for store in self._signers.live()
        ]
        return [
            *known,
            web.post("/webhooks/{store}", self._receive_named),
            web.post("/webhooks/{store}/{resource}/{event}", self._receive_named),
        ]

    async def _receive_named(self, request: web.Request) -> web.Response:
        return await self._receive(request.match_info["store"], request)

    async def _receive(self, store: str, request: web.Request) -> web.Response:
        """Answer 200, 401, 413, 415 or 503. A wrong signature stores nothing."""
        if not _is_plain(request.headers):
            self._answers.add(store, "encoded")
            return _answer(415, "send the body without Content-Encoding")
        body = await request.read()
        now = to_text(self._clock.now())
        if not self._signed(store, request.headers, body, now):
            return _answer(401, "the signature does not match")
        arrival = _arrival(store, request, body, now)
        if self._tracer is not None:
            return await self._traced(self._tracer, arrival, request)
        return await self._append(arrival)

    async def _append(self, arrival: Arrival) -> web.Response:
        """Answer 200 after the commit, or 503."""
        store = arrival.store
        try:
            await self._inbox.append(arrival)
        except Busy as error:
            self._answers.add(store, "busy")
            return self._busy(error)
        self._answers.add(store, KEPT)
        self._refusals.kept()
        self._arrived()
        return web.Response(status=200)

    async def _traced(
        self, tracer: Tracer, arrival: Arrival, request: web.Request
    ) -> web.Response:
        """Append with a span of the request, and one of the inbox that the row names.

        A delivery with a wrong signature has no span: anybody could cause any number.
        """
        span = tracer.begin(
            "POST /webhooks/{store}",
            "server",
            {
                "http.request.method": request.method,
                "http.route": "/webhooks/{store}",
                "url.path": request.path,
                "url.scheme": request.scheme,
                "server.address": request.url.host or "",
                STORE: arrival.store,
                TOPIC: arrival.topic,
            },
            request.headers.get("traceparent"),
        )
        appending = span.child(
            "append inbox",
            "producer",
            {**INBOX, "messaging.operation.name": "append", STORE: arrival.store},
        )
        with working_on(span):
            answer = await self._append(
                arrival._replace(traceparent=appending.traceparent)
            )
        error = "" if answer.status == 200 else str(answer.status)
        appending.end(error)
        span.put("http.response.status_code", answer.status)
        span.end(error)
        return answer

    def _signed(
        self, store: str, headers: CIMultiDictProxy[str], body: bytes, now: str
    ) -> bool:
        """Return whether the signature is right; count a wrong one.

        A proxy may repeat the header, or join both values: equal values count as one.
        Different values, or none, are no evidence against the secret, so it is kept.
        """
        presented = _values(headers, webhook.HEADER)
        if len(presented) == 1:
            if self._signers.signed(store, body, presented.pop(), now):
                return True
            self._answers.add(store, "refused")
        elif presented:
            self._signers.doubled(store)
            self._answers.add(store, "doubled")
        else:
            self._signers.unsigned(store)
            self._answers.add(store, "unsigned")
        return False

    def _busy(self, error: Busy) -> web.Response:
        self._refusals.refused(error)
        return web.json_response(
            {"error": "the event cannot be stored now; send it again"},
            status=503,
            headers={"Retry-After": str(error.retry_after_seconds)},
        )


def _values(headers: CIMultiDictProxy[str], name: str) -> set[str]:
    """Return the distinct values of a header, which may be repeated."""
    parts = [part for value in headers.getall(name, ()) for part in value.split(",")]
    return {part.strip() for part in parts} - {""}


def _is_plain(headers: CIMultiDictProxy[str]) -> bool:
    """Return whether the body has no encoding; an empty header counts as none."""
    if "Content-Encoding" not in headers:
        return True
    codings = _values(headers, "Content-Encoding")
    return {coding.lower() for coding in codings} <= {"identity"}


def _arrival(store: str, request: web.Request, body: bytes, now: str) -> Arrival:
    headers = _kept(request.headers)
    return Arrival(store, "delivery", _topic(request), now, headers, body)


def _topic(request: web.Request) -> str:
    """Return the topic from the header, or else from the path."""
    path = request.match_info
    named = f"{path['resource']}/{path['event']}" if "resource" in path else ""
    return storable(request.headers.get("X-Service-Topic") or named)


def _kept(headers: CIMultiDictProxy[str]) -> bytes:
    kept = {name: value for name, value in headers.items() if _is_kept(name)}
    try:
        return _encode(kept)
    except UnicodeEncodeError:
        readable = {name: storable(value) for name, value in kept.items()}
        return _encode(readable)


@lru_cache(maxsize=256)
def _is_kept(name: str) -> bool:
    """Return whether to store a header; cached, as few names recur."""
    return name.lower().startswith(_KEPT_HEADERS)


def _answer(status: int, error: str) -> web.Response:
    return web.json_response({"error": error}, status=status)
