"""Checks with a test delivery that webhooks arrive."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from backhaul.core import strict_json
from backhaul.doctor import Result, fail, ok, warn
from backhaul.errors import Unusable
from backhaul.platform import decoding
from backhaul.platform.client import ReadRefused
from backhaul.platform.transport import NotSent, OutcomeUnknown
from backhaul.store import database_at
from backhaul.sync.webhook_subscriptions import HOOKS, NO_API, no_secret_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from backhaul.core.clock import Clock
    from backhaul.platform.client import PlatformClient
    from backhaul.platform.responses import Response
    from backhaul.platform.transport import Transport
    from backhaul.settings import Settings
    from backhaul.store.database import StoredWebhook

PATIENCE_SECONDS = 15.0
CHECK_SECONDS = 0.1
CHECKS_PER_READ = 10
"""The platform's record of the delivery is read once per so many checks."""


REFUSALS: Mapping[str, tuple[int, str, str]] = {
    "refused": (
        401,
        "it was signed with another secret",
        "set stores.{store}.webhook_secrets to the secret of that subscription, and"
        " restart or reload (SIGHUP)",
    ),
    "doubled": (
        401,
        "the signature header was there twice, with different values",
        "pass X-Service-Hmac-Sha256 through the proxy unchanged; the secret is right",
    ),
    "unsigned": (
        401,
        "the signature header was missing",
        "pass X-Service-Hmac-Sha256 through the proxy; the secret does not matter",
    ),
    "encoded": (
        415,
        "the body was compressed",
        "turn off the compression of request bodies at the proxy",
    ),
    "large": (
        413,
        "the body is too large",
        "raise [public] max_body_bytes",
    ),
    "slow": (
        408,
        "the request took too long to arrive",
        "check the network and the proxy, or raise [public] request_seconds",
    ),
    "busy": (
        503,
        "the daemon could not store the delivery",
        "backhaul status: is the disk full or the database locked? The platform sends"
        " it again",
    ),
}
"""The daemon's refusals by kind: status, reason and fix."""


class RoundTrip:
    """Requests a test delivery from the platform and waits for its arrival."""

    def __init__(
        self,
        settings: Settings,
        name: str,
        transport: Transport,
        client: PlatformClient,
        clock: Clock,
        receives_at: str,
        refused: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        self._settings = settings
        self._name = name
        self._transport = transport
        self._client = client
        self._clock = clock
        self._refused = refused
        self._address = f"{settings.public.url or receives_at}/webhooks/{name}"

    async def run(self) -> Result:
        """Request one test delivery and return the result."""
        try:
            hook = await self._own_subscription()
            if hook is None:
                return self._unsubscribed()
            return await self._try(str(hook["id"]))
        except ReadRefused as error:
            if error.status in NO_API:
                return self._untestable()
            return self._failed(str(error))
        except (NotSent, OutcomeUnknown, Unusable) as error:
            return self._failed(str(error))

    async def _own_subscription(self) -> dict[str, Any] | None:
        """Return the subscription that leads to this daemon.

        Without `public.url` the daemon's public address is unknown, so only the path of
        the subscription's address is compared.
        """
        answer = await self._client.answer_of(HOOKS)
        if not answer.ok:
            raise ReadRefused(HOOKS, answer)
        for row in map(decoding.resource, decoding.rows(answer.json())):
            address = str(row.get("address"))
            if self._settings.public.url is None:
                address = urlsplit(address).path
            if address and self._address.endswith(address.rstrip("/")):
                return row
        return None

    async def _try(self, hook: str) -> Result:
        path = f"{HOOKS}/{quote(hook, safe='')}"
        inbox = database_at(self._settings.place)
        before, refused = inbox.last_event(), self._refused()
        key = f"doctor-{secrets.token_hex(16)}"
        asked = await self._transport.send(f"{path}/test", b"{}", key)
        if asked.status in NO_API:
            return self._untestable()
        if not asked.ok:
            return self._failed(f"the test delivery was answered {asked.said()}")
        made = decoding.resource(asked.json())
        names = [hook, *(str(made.get(name) or "") for name in ("id", "eventId"))]
        began, came = self._clock.monotonic(), None
        for number in range(1, int(PATIENCE_SECONDS / CHECK_SECONDS)):
            came = inbox.find_test_webhook(before, self._name, names)
            if came is not None and came.is_test:
                return self._came(came, self._clock.monotonic() - began)
            if number % CHECKS_PER_READ == 0:
                problem = await self._refusal(path, names[1], refused)
                if problem is not None:
                    return problem
            await self._clock.sleep(CHECK_SECONDS)
        if came is not None:
            return self._unrecognized(came)
        return self._failed(f"no test delivery arrived in {PATIENCE_SECONDS:g} s")

    def _came(self, came: StoredWebhook, seconds: float) -> Result:
        said = f"a test delivery arrived in {seconds:.1f} s"
        if came.topic:
            return ok("webhooks", said, self._name)
        said += ", without a topic: each object is fetched before it is mirrored"
        fix = "let the platform send the topic in the body or in X-Service-Topic"
        return warn("webhooks", said, fix, self._name)

    def _unrecognized(self, came: StoredWebhook) -> Result:
        said = (
            f"no test delivery was recognized in {PATIENCE_SECONDS:g} s, but event"
            f" {came.event} arrived: webhooks reach this daemon"
        )
        fix = f"backhaul events show {came.event} shows the form in which they arrive"
        return warn("webhooks", said, fix, self._name)

    async def _refusal(
        self, path: str, delivery: str, refused: Mapping[str, int]
    ) -> Result | None:
        """Return why the platform's delivery failed; None if it did not fail yet.

        `refused` is the daemon's count of refusals from before the delivery.
        """
        answer = await self._client.answer_of(f"{path}/deliveries/{delivery}")
        last = (
            decoding.last_attempt(decoding.resource(answer.json()))
            if answer.ok
            else None
        )
        if last is None or last.status_code == 200:
            return None
        now = self._refused()
        for kind, (status, why, fix) in REFUSALS.items():
            is_own = now.get(kind, 0) > refused.get(kind, 0)
            if status == last.status_code and is_own:
                said = f"this daemon refused the platform's delivery ({status}): {why}"
                fix = fix.format(store=self._name)
                return fail("webhooks", said, fix, self._name)
        return self._failed(_words(last.status_code, answer))

    def _failed(self, said: str) -> Result:
        fix = (
            f"the platform must reach {self._address}: check [public] url, the proxy,"
            " the firewall, and the subscription in the platform's dashboard"
        )
        return fail("webhooks", said, fix, self._name)

    def _unsubscribed(self) -> Result:
        said = f"no subscription of the platform leads to {self._address}"
        manual = no_secret_text(self._name, self._address)
        fix = f"set [public] url, and the daemon creates it; otherwise {manual}"
        return fail("webhooks", said, fix, self._name)

    def _untestable(self) -> Result:
        said = "this platform sends no test deliveries"
        if database_at(self._settings.place).last_event():
            return ok("webhooks", f"{said}; webhooks have arrived before", self._name)
        fix = "place an order, then: backhaul events list"
        return warn(
            "webhooks", f"{said}, and no webhook has arrived yet", fix, self._name
        )


def _words(status: int | None, answer: Response) -> str:
    if status is not None:
        return f"the platform's delivery was answered {status}, not by this daemon"
    attempts = (strict_json.decode_object(answer.body).get("data") or {}).get(
        "attempts"
    )
    error = attempts[-1].get("error") if attempts else None
    return f"the platform could not deliver: {error or 'no response'}"
