"""Receives a courier's webhooks, and polls when none arrives for too long."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
import unicodedata
from contextlib import aclosing
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from backhaul_connectors.courier.parsing import (
    TrackingEvent,
    bad,
    digest_of,
    event_of,
    events_of,
    raw_of,
    records_of,
)
from backhaul_connectors.courier.polling import SeenStatuses, pages, read
from backhaul_connectors.courier.settings import Settings
from backhaul_sdk import (
    Batch,
    Capability,
    CheckFailed,
    Connector,
    HttpResponse,
    Route,
    Spec,
)
from backhaul_sdk.calls import Caller, CallFailed, NotJson, read_json
from backhaul_sdk.clock import seconds_since_1970
from backhaul_sdk.fields import Unusable
from backhaul_sdk.json_paths import find

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

    from pydantic import SecretStr

    from backhaul_sdk import Bad, Emit, HttpRequest, Record


EASYPOST_PREFIX = "hmac-sha256-hex="


def is_genuine(settings: Settings, request: HttpRequest, now: float) -> bool:
    """Return True if a message is signed with one of the secrets and is recent."""
    return CHECKS[settings.vendor](settings, request, now)


def _easypost(settings: Settings, request: HttpRequest, now: float) -> bool:
    """Check the newer signature over time, method, path and body where it is there."""
    given = request.headers.get("x-hmac-signature-v2")
    keys = [
        unicodedata.normalize("NFKD", each.get_secret_value()).encode()
        for each in settings.secrets
    ]
    if given is None:
        given = request.headers.get("x-hmac-signature", "")
        return _matches(keys, request.body, _hex, given, EASYPOST_PREFIX)
    time, path = (request.headers.get(name, "") for name in ("x-timestamp", "x-path"))
    said = f"{time}{request.method.upper()}{path}"
    signed = said.encode("utf-8", "surrogateescape") + request.body
    genuine = _matches(keys, signed, _hex, given, EASYPOST_PREFIX)
    return genuine and _is_recent(_seconds_of_date(time), now, settings)


def _aftership(settings: Settings, request: HttpRequest, now: float) -> bool:
    given = request.headers.get("aftership-hmac-sha256", "")
    return _matches(_keys(settings.secrets), request.body, _base64, given)


def _sendcloud(settings: Settings, request: HttpRequest, now: float) -> bool:
    given = request.headers.get("sendcloud-signature", "")
    return _matches(_keys(settings.secrets), request.body, _hex, given)


def _generic(settings: Settings, request: HttpRequest, now: float) -> bool:
    how = settings.signature
    given = request.headers.get(how.header.lower(), "")
    encode = _hex if how.encoding == "hex" else _base64
    signed, recent = request.body, True
    if how.timestamp_header:
        time = request.headers.get(how.timestamp_header.lower(), "")
        signed = f"{time}.".encode("utf-8", "surrogateescape") + request.body
        recent = _is_recent(_seconds_of(time), now, settings)
    genuine = _matches(_keys(settings.secrets), signed, encode, given, how.prefix)
    return genuine and recent


CHECKS: Mapping[str, Callable[[Settings, HttpRequest, float], bool]] = {
    "easypost": _easypost,
    "aftership": _aftership,
    "sendcloud": _sendcloud,
    "generic": _generic,
}


def _matches(
    keys: Sequence[bytes],
    signed: bytes,
    encode: Callable[[bytes], str],
    given: str,
    prefix: str = "",
) -> bool:
    presented = given.strip().encode("utf-8", "surrogateescape")
    genuine = False
    # Every key is tried, so that the duration reveals nothing.
    for key in keys:
        made = prefix + encode(hmac.new(key, signed, hashlib.sha256).digest())
        genuine |= hmac.compare_digest(made.encode(), presented)
    return genuine


def _keys(secrets: Sequence[SecretStr]) -> list[bytes]:
    return [each.get_secret_value().encode() for each in secrets]


def _hex(digest: bytes) -> str:
    return digest.hex()


def _base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode("ascii")


def _is_recent(seconds: float | None, now: float, settings: Settings) -> bool:
    return seconds is not None and abs(now - seconds) <= settings.window_seconds


def _seconds_of(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdecimal() else None


def _seconds_of_date(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


SPEC = Spec(
    name="courier",
    version="1.0",
    summary="Receives tracking events of EasyPost, AfterShip, Sendcloud and others.",
    capabilities=frozenset({Capability.LISTEN, Capability.PULL}),
    settings=Settings,
    secret_fields=frozenset({"secrets", "api_key", "api_secret"}),
)


ASK_AGAIN_SECONDS = 3_600.0
RETRY_AFTER_SECONDS = 30


class Courier(Connector["Settings"]):
    """A courier, or a service that covers many couriers.

    `clock` returns seconds that never go back, `now` the seconds since 1970.
    """

    spec = SPEC

    def __init__(
        self,
        instance: str,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = seconds_since_1970,
    ) -> None:
        super().__init__(instance, settings)
        self._clock = clock
        self._now = now
        keys = settings.api_key, settings.api_secret
        shown = [key.get_secret_value() for key in keys]
        self._caller = Caller(settings.network, keep_alive=True, secrets=shown)
        # Events during the downtime are polled at the start.
        self._ask_at = 0.0

    async def check(self) -> None:
        if self.settings.base_url:
            self._caller.check(self.settings.base_url)

    async def open(self) -> None:
        await self.check()

    async def close(self) -> None:
        await self._caller.close()

    async def listen(self, emit: Emit) -> Sequence[Route]:
        if not self.settings.secrets:
            return ()
        return [Route("POST", "/events", partial(self._answer, emit))]

    async def pull(self, cursor: str | None) -> AsyncGenerator[Batch]:
        if not self.settings.asks or self._clock() < self._ask_at:
            return
        seen, now = SeenStatuses.from_text(cursor), self._now()
        listed = pages(self._caller, self.settings, seen, now)
        async with aclosing(listed) as all_pages:
            async for rows in all_pages:
                records = [each for row in rows for each in self._row(seen, row)]
                if records:
                    yield Batch(records=records, cursor=seen.to_text())
        self._ask_at = self._clock() + min(
            self.settings.silent_seconds, ASK_AGAIN_SECONDS
        )
        seen.asked_at = now
        yield Batch(records=[], cursor=seen.to_text())

    async def _answer(self, emit: Emit, request: HttpRequest) -> HttpResponse:
        if not is_genuine(self.settings, request, self._now()):
            return _said(401, "the signature is missing or wrong")
        self._ask_at = self._clock() + self.settings.silent_seconds
        try:
            records = await self._records(request.body)
        except CallFailed:
            # The courier sends the message again, and then it is fetched again.
            again = {"Retry-After": str(RETRY_AFTER_SECONDS)}
            return _said(503, "not fetched; send it again", again)
        for record in records:
            await emit(record)
        return _said(200, f"{len(records)} stored")

    async def _records(self, body: bytes) -> list[Record | Bad]:
        raw = body.decode("utf-8", "replace").replace("\0", "\ufffd")
        try:
            message = await self._whole(read_json(body))
            events = events_of(self.settings, message)
        except CallFailed:
            raise
        except (Unusable, NotJson, CheckFailed) as error:
            return [bad(raw, str(error), digest_of(raw), self.settings.vendor)]
        return [
            record
            for event in events
            for record in records_of(self.settings, event, raw)
        ]

    async def _whole(self, message: Any) -> Any:
        """Return the message, or the document that it only refers to."""
        if not self.settings.fetch_path:
            return message
        url = find(self.settings.fetch_path, message)
        if not isinstance(url, str):
            raise Unusable(
                f"the message has no URL at {self.settings.fetch_path!r}, which"
                " fetch_path names"
            )
        return await read(self._caller, self.settings, url)

    def _row(self, seen: SeenStatuses, row: Any) -> list[Record | Bad]:
        raw = raw_of(row)
        event = event_of(self.settings, row)
        if isinstance(event, TrackingEvent):
            said = f"{event.word}:{event.at}"
            if not seen.is_new(event.tracking_number, said):
                return []
        return records_of(self.settings, event, raw)


def _said(
    status: int, what: str, headers: dict[str, str] | None = None
) -> HttpResponse:
    return HttpResponse(
        status, {"accepted": status == 200, "what": what}, headers or {}
    )
