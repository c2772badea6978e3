"""Looks whether webhooks come through, by the platform's own test delivery."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from backhaul.core import strict_json
from backhaul.doctor.result import Result, fail, ok, warn
from backhaul.errors import Unusable
from backhaul.reconcile.guardian import HOOKS, NO_API, REFUSED_BY_US, unsigned
from backhaul.shop import wire
from backhaul.shop.client import ReadRefused
from backhaul.shop.transport import InDoubt, NotSent
from backhaul.store.sqlite import examining

if TYPE_CHECKING:
    from backhaul.core.clock import Clock
    from backhaul.settings import Settings
    from backhaul.shop.client import ShopClient
    from backhaul.shop.transport import Answer, Transport

PATIENCE_SECONDS = 15.0
LOOK_SECONDS = 0.1
LOOKS_A_READ = 10
"""The platform's own record is read once in so many looks into the database."""


class RoundTrip:
    """Asks the platform for a test delivery to this daemon, and waits for it."""

    def __init__(
        self,
        settings: Settings,
        name: str,
        transport: Transport,
        client: ShopClient,
        clock: Clock,
        receives_at: str,
    ) -> None:
        self._settings = settings
        self._name = name
        self._transport = transport
        self._client = client
        self._clock = clock
        self._address = f"{settings.public.url or receives_at}/webhooks/{name}"

    async def look(self) -> Result:
        """Try it once; nothing else than the test is asked for."""
        try:
            hook = await self._ours()
            if hook is None:
                return self._unsubscribed()
            return await self._try(f"{HOOKS}/{quote(str(hook['id']), safe='')}")
        except ReadRefused as error:
            if error.status in NO_API:
                return self._untestable()
            return self._failed(str(error))
        except (NotSent, InDoubt, Unusable) as error:
            return self._failed(str(error))

    async def _ours(self) -> dict[str, Any] | None:
        """Return the subscription that leads to us.

        Without `public.url` nobody here knows how the platform reaches us: the path of
        its address has to do.
        """
        answer = await self._client.answer_of(HOOKS)
        if not answer.ok:
            raise ReadRefused(HOOKS, answer)
        for row in map(wire.resource, wire.rows(answer.json())):
            address = str(row.get("address"))
            if self._settings.public.url is None:
                address = urlsplit(address).path
            if address and self._address.endswith(address.rstrip("/")):
                return row
        return None

    async def _try(self, path: str) -> Result:
        database = self._settings.database_file
        before = examining.last_event(database)
        key = f"doctor-{secrets.token_hex(16)}"
        asked = await self._transport.send(f"{path}/test", b"{}", key)
        if asked.status in NO_API:
            return self._untestable()
        if not asked.ok:
            return self._failed(f"the test delivery was answered {asked.said()}")
        delivery = str(wire.resource(asked.json()).get("id") or "")
        began = self._clock.monotonic()
        for number in range(1, int(PATIENCE_SECONDS / LOOK_SECONDS)):
            if examining.test_came(database, before, self._name):
                seconds = self._clock.monotonic() - began
                said = f"a test delivery came through in {seconds:.1f} s"
                return ok("webhooks", said, self._name)
            if number % LOOKS_A_READ == 0:
                problem = await self._tried(path, delivery)
                if problem is not None:
                    return problem
            await self._clock.sleep(LOOK_SECONDS)
        return self._failed(f"no test delivery came in {PATIENCE_SECONDS:g} s")

    async def _tried(self, path: str, delivery: str) -> Result | None:
        """Read what became of the delivery at the platform; None while nothing did."""
        answer = await self._client.answer_of(f"{path}/deliveries/{delivery}")
        last = wire.last_attempt(wire.resource(answer.json())) if answer.ok else None
        if last is None or last.status_code == 200:
            return None
        if last.status_code == REFUSED_BY_US:
            said = "the platform's delivery was refused (401): signed by another secret"
            return fail("webhooks", said, self._secret(), self._name)
        return self._failed(_words(last.status_code, answer))

    def _secret(self) -> str:
        return (
            f"give the secret of that subscription as stores.{self._name}"
            ".webhook_secrets, and restart or reload (SIGHUP)"
        )

    def _failed(self, said: str) -> Result:
        fix = (
            f"the platform must reach {self._address}: look at [public] url, the proxy,"
            " the firewall, and at the subscription in the platform's dashboard"
        )
        return fail("webhooks", said, fix, self._name)

    def _unsubscribed(self) -> Result:
        said = f"no subscription of the platform leads to {self._address}"
        by_hand = unsigned(self._name, self._address)
        fix = f"set [public] url and it is made; else {by_hand}"
        return fail("webhooks", said, fix, self._name)

    def _untestable(self) -> Result:
        said = "this platform sends no test deliveries"
        if examining.last_event(self._settings.database_file):
            return ok("webhooks", f"{said}; deliveries have come before", self._name)
        fix = "place an order, then: backhaul events list"
        return warn("webhooks", f"{said}, and nothing has come yet", fix, self._name)


def _words(status: int | None, answer: Answer) -> str:
    if status is not None:
        return f"the platform's delivery was answered {status}, not by this daemon"
    attempts = (strict_json.decode_object(answer.body).get("data") or {}).get(
        "attempts"
    )
    error = attempts[-1].get("error") if attempts else None
    return f"the platform reached nobody: {error or 'no answer'}"
