"""The receiver: verify, keep, answer. 200 only after the bytes are on the disk."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from backhaul.core import signature
from backhaul.core.clock import to_text
from backhaul.core.printable import storable
from backhaul.errors import Busy
from backhaul.ingest.answers import KEPT, Answers
from backhaul.ingest.refusals import Refusals
from backhaul.store.contract import Arrival

if TYPE_CHECKING:
    from collections.abc import Callable

    from multidict import CIMultiDictProxy

    from backhaul.core.clock import Clock
    from backhaul.ingest.signers import Signers
    from backhaul.store.contract import Inbox

_encode = msgspec.json.Encoder().encode
_KEPT_HEADERS = ("x-service-", "webhook-", "content-type", "user-agent")


class Receiver:
    """Handles `POST /webhooks/{store}` for every configured store."""

    def __init__(
        self,
        inbox: Inbox,
        clock: Clock,
        signers: Signers,
        arrived: Callable[[], None],
        answers: Answers | None = None,
    ) -> None:
        self._inbox = inbox
        self._clock = clock
        self._signers = signers
        self._arrived = arrived
        self._refusals = Refusals(clock)
        self._answers = answers or Answers(Counter(), clock, signers.known)

    def routes(self) -> list[web.RouteDef]:
        """Return the public routes; the topic may also come from the path."""
        # The address of a store that is known by now is found without a pattern.
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
        """Answer 200, 401, 413, 415 or 503. A wrong signature leaves no trace."""
        if not _is_plain(request.headers):
            self._answers.add(store, "encoded")
            return _answer(415, "send the body without Content-Encoding")
        body = await request.read()
        now = to_text(self._clock.now())
        if not self._signed(store, request.headers, body, now):
            return _answer(401, "the signature does not match")
        try:
            await self._inbox.append(_arrival(store, request, body, now))
        except Busy as error:
            self._answers.add(store, "busy")
            return self._busy(error)
        self._answers.add(store, KEPT)
        self._refusals.kept()
        self._arrived()
        return web.Response(status=200)

    def _signed(
        self, store: str, headers: CIMultiDictProxy[str], body: bytes, now: str
    ) -> bool:
        """Check the signature; count a wrong one.

        A proxy may send the header twice, or both values in one: equal ones are one.
        Different ones, or none, say nothing about the secret: it is not replaced then.
        """
        presented = _values(headers, signature.HEADER)
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
            {"error": "the event cannot be kept now; send it again"},
            status=503,
            headers={"Retry-After": str(error.retry_after_seconds)},
        )


def _values(headers: CIMultiDictProxy[str], name: str) -> set[str]:
    """Return the different values of a header, however often it came."""
    parts = [part for value in headers.getall(name, ()) for part in value.split(",")]
    return {part.strip() for part in parts} - {""}


def _is_plain(headers: CIMultiDictProxy[str]) -> bool:
    """Tell whether a body is as it was signed; an empty coding names none."""
    codings = _values(headers, "Content-Encoding")
    return {coding.lower() for coding in codings} <= {"identity"}


def _arrival(store: str, request: web.Request, body: bytes, now: str) -> Arrival:
    headers = _kept(request.headers)
    return Arrival(store, "delivery", _topic(request), now, headers, body)


def _topic(request: web.Request) -> str:
    """Return the topic told outside the body: by header, else by the path."""
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
    """Tell for a header's name; a platform uses the same few again and again."""
    return name.lower().startswith(_KEPT_HEADERS)


def _answer(status: int, error: str) -> web.Response:
    return web.json_response({"error": error}, status=status)
