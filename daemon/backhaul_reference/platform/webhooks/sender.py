"""Sends one delivery attempt: retry schedule, signatures, faults, response."""

import asyncio
import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime

import aiohttp
from yarl import URL

from backhaul_reference.platform import faults, quirks
from backhaul_reference.platform.clock import Clock, either
from backhaul_reference.platform.faults import Faults
from backhaul_reference.platform.state.database import Row
from backhaul_reference.platform.state.webhook_outbox import (
    BODY_BYTES,
    NOTHING,
    Attempt,
    Exchange,
    bounded,
)
from backhaul_reference.platform.webhooks import ssrf_guard

DEFAULT_DELAYS = (0.0, 5.0, 300.0, 1800.0, 7200.0, 18000.0, 36000.0, 36000.0)
JITTER = 0.1
MAX_RETRY_AFTER_SECONDS = 24 * 3600
RETRY_AFTER_STATUSES = {429, 503}


@dataclass(frozen=True, slots=True)
class Schedule:
    """Seconds to wait before each attempt of a series; the first is usually 0."""

    delays: tuple[float, ...] = DEFAULT_DELAYS

    def next_ms(
        self,
        attempt: int,
        now_ms: int,
        chance: Callable[[], float],
        asked_seconds: float | None = None,
    ) -> int | None:
        """Return when the attempt after `attempt` is due; None if it was the last."""
        if attempt >= len(self.delays):
            return None
        jitter = 1 + JITTER * (2 * chance() - 1)
        seconds = max(self.delays[attempt] * jitter, asked_seconds or 0)
        return now_ms + round(seconds * 1000)


def parse_schedule(text: str) -> Schedule:
    """Read `0,5,300`; ValueError for anything but non-negative numbers."""
    delays = tuple(float(part) for part in text.split(","))
    if not all(0 <= delay <= 30 * 24 * 3600 for delay in delays):
        raise ValueError("each delay must be 0 to 30 days, in seconds")
    return Schedule(delays)


def retry_after_seconds(
    status: int, headers: Mapping[str, str], now_ms: int
) -> float | None:
    """Return the Retry-After of a 429 or 503, at most a day."""
    text = headers.get("Retry-After", "").strip()
    if status not in RETRY_AFTER_STATUSES or not text:
        return None
    if text.isascii() and text.isdigit():
        return float(min(int(text[:9]), MAX_RETRY_AFTER_SECONDS))
    try:
        moment = parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None
    return min(max(0.0, moment - now_ms / 1000), MAX_RETRY_AFTER_SECONDS)


USER_AGENT = "backhaul-reference/1"
BARE_HEADERS = ("Content-Type", "User-Agent", "X-Service-Hmac-Sha256")
"""All that a delivery carries where nothing is added to the signature."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """The contents of one delivery request."""

    event_id: str
    delivery_id: str
    subscription_id: str
    subdomain: str
    topic: str
    triggered_at: str
    body: bytes


def service_signature(secret: str, body: bytes) -> str:
    """Base64 of the HMAC-SHA256 of the body, keyed with the whole secret's text."""
    digest = hmac.digest(secret.encode(), body, hashlib.sha256)
    return base64.b64encode(digest).decode()


def standard_signature(secret: str, event_id: str, timestamp: int, body: bytes) -> str:
    """Standard Webhooks: the key is what the secret's second half encodes."""
    signed = f"{event_id}.{timestamp}.".encode() + body
    digest = hmac.digest(_key(secret), signed, hashlib.sha256)
    return "v1," + base64.b64encode(digest).decode()


def _key(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        return secret.encode()


def headers(
    envelope: Envelope, secrets: list[str], attempt: int, now_ms: int
) -> dict[str, str]:
    """All headers of one attempt; the first secret is the current one."""
    timestamp = now_ms // 1000
    standard = [
        standard_signature(secret, envelope.event_id, timestamp, envelope.body)
        for secret in secrets
    ]
    return {
        "Content-Type": "application/json",
        "User-Agent": USER_AGENT,
        "X-Service-Hmac-Sha256": service_signature(secrets[0], envelope.body),
        "X-Service-Topic": envelope.topic,
        "X-Service-Event-Id": envelope.event_id,
        "X-Service-Delivery-Id": envelope.delivery_id,
        "X-Service-Attempt": str(attempt),
        "X-Service-Subscription-Id": envelope.subscription_id,
        "X-Service-Store": envelope.subdomain,
        "X-Service-Triggered-At": envelope.triggered_at,
        "X-Service-Api-Version": "v1",
        "webhook-id": envelope.event_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(standard),
    }


@dataclass(frozen=True, slots=True)
class DeliveryFaults:
    """Decides which faults apply to an attempt, and holds delayed deliveries."""

    faults: Faults
    clock: Clock
    overtaken: dict[str, asyncio.Event] = field(default_factory=dict)

    async def before(self, row: Row) -> set[str]:
        """Wait as long as the faults require; return the faults that fire."""
        rules = self.faults.firing(
            row["store_id"], faults.WEBHOOKS, "POST", [row["topic"]]
        )
        for rule in rules:
            if rule.fault == "delay":
                await self.clock.sleep(rule.seconds)
            elif rule.fault == "reorder":
                await self._let_pass(row["subscription_id"], rule.seconds)
        return {rule.fault for rule in rules}

    async def _let_pass(self, subscription_id: str, seconds: float) -> None:
        """Wait for a later delivery to be sent, but not for ever."""
        passed = self.overtaken.setdefault(subscription_id, asyncio.Event())
        await either(passed.wait(), self.clock.sleep(seconds))

    def sent(self, subscription_id: str) -> None:
        passed = self.overtaken.pop(subscription_id, None)
        if passed is not None:
            passed.set()


def forge_signatures(signed: dict[str, str]) -> dict[str, str]:
    """Replace the signatures by well-formed ones that match no secret."""
    wrong = "A" * 43 + "="
    forged = {"X-Service-Hmac-Sha256": wrong, "webhook-signature": "v1," + wrong}
    return {name: forged.get(name, value) for name, value in signed.items()}


TIMEOUT = aiohttp.ClientTimeout(total=15, connect=5)
GONE = 410
DROPPED = "dropped"
BODY_SECONDS = 1.0
NEVER_REACHED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)


@dataclass(frozen=True, slots=True)
class Reply:
    """The response of an attempt."""

    status: int | None = None
    error: str | None = None
    retry_after_seconds: float | None = None
    exchange: Exchange = NOTHING

    @property
    def delivered(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends deliveries over one client session."""

    session: aiohttp.ClientSession
    clock: Clock
    schedule: Schedule
    chance: Callable[[], float]
    allow_private: bool
    delivery_faults: DeliveryFaults

    async def attempt(self, row: Row) -> Attempt:
        """Send one claimed delivery and decide what follows."""
        number = row["attempts"] + 1
        at_ms = self.clock.now_ms()
        started = time.perf_counter()
        reply = await self._send_or_fail(row, number, at_ms)
        return Attempt(
            delivery_seq=row["seq"],
            delivery_id=row["id"],
            lease_ms=row["lease_ms"],
            subscription_id=row["subscription_id"],
            number=number,
            at_ms=at_ms,
            duration_ms=round((time.perf_counter() - started) * 1000),
            status_code=reply.status,
            error=reply.error,
            delivered=reply.delivered,
            next_ms=self._next_ms(row, number, reply),
            gone=reply.status == GONE,
            exchange=reply.exchange,
        )

    def _next_ms(self, row: Row, number: int, reply: Reply) -> int | None:
        last = reply.delivered or reply.status == GONE or reply.error == DROPPED
        if last or "no-retry" in quirks.stored(row["quirks"]):
            return None
        return self.schedule.next_ms(
            number - row["series_start"],
            self.clock.now_ms(),
            self.chance,
            reply.retry_after_seconds,
        )

    async def _send_or_fail(self, row: Row, number: int, at_ms: int) -> Reply:
        """Send the request, or simulate the fault that fires."""
        asked = await self.delivery_faults.before(row)
        if "drop" in asked:
            return Reply(error=DROPPED)
        signed = headers(_envelope(row), _secrets(row, at_ms), number, at_ms)
        if "bare-headers" in quirks.stored(row["quirks"]):
            signed = {name: signed[name] for name in BARE_HEADERS}
        if "corrupt-signature" in asked:
            signed = forge_signatures(signed)
        if "duplicate" in asked:
            await self._send(row, signed, at_ms)
        reply = await self._send(row, signed, at_ms)
        self.delivery_faults.sent(row["subscription_id"])
        return reply

    async def _send(self, row: Row, signed: dict[str, str], at_ms: int) -> Reply:
        url = URL(row["address"])
        if not self.allow_private and ssrf_guard.is_private_host(url.host or ""):
            return Reply(error="private address")
        asked = Exchange(row["address"], bounded(signed.items()))
        try:
            return await self._post(url, row["body"], signed, at_ms, asked)
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            late = isinstance(error, TimeoutError)
            word = "timeout" if late else type(error).__name__
            reached = not isinstance(error, NEVER_REACHED)
            return Reply(error=word, exchange=asked if reached else NOTHING)

    async def _post(
        self,
        url: URL,
        body: bytes,
        signed: dict[str, str],
        at_ms: int,
        asked: Exchange,
    ) -> Reply:
        async with self.session.post(
            url, data=body, headers=signed, timeout=TIMEOUT, allow_redirects=False
        ) as response:
            wait = retry_after_seconds(response.status, response.headers, at_ms)
            answered = bounded(response.headers.items())
            start = await _start_of(response)
            exchange = replace(
                asked,
                answered=answered,
                body=start[:BODY_BYTES],
                cut=len(start) > BODY_BYTES,
            )
            return Reply(response.status, None, wait, exchange)


async def _start_of(response: aiohttp.ClientResponse) -> bytes:
    """Return the stored part of a response body, plus a byte if it is longer."""
    start = b""
    # The status has been answered, and it alone counts.
    with suppress(TimeoutError, aiohttp.ClientError, OSError):
        async with asyncio.timeout(BODY_SECONDS):
            while len(start) <= BODY_BYTES and not response.content.at_eof():
                start += await response.content.read(BODY_BYTES + 1 - len(start))
    return start


def _envelope(row: Row) -> Envelope:
    words = quirks.stored(row["quirks"])
    return Envelope(
        event_id=row["event_id"],
        delivery_id=row["id"],
        subscription_id=row["subscription_id"],
        subdomain=row["subdomain"],
        topic=row["topic"],
        triggered_at=quirks.instant(words, row["created_ms"]),
        body=row["body"],
    )


def _secrets(row: Row, now_ms: int) -> list[str]:
    secrets = [row["secret"]]
    if row["previous_secret"] and now_ms < (row["previous_until_ms"] or 0):
        secrets.append(row["previous_secret"])
    return secrets
