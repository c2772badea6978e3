"""Keeps each store's webhook subscription to this daemon alive.

Only subscriptions with our own address are ours. What anybody else made is left alone,
and a pause too: somebody wanted it. The secret is shown once, when it is made; one that
got lost or was changed shows as deliveries that we refused, and is replaced.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from loguru import logger

from backhaul.core import strict_json
from backhaul.core.budget import Priority
from backhaul.errors import Busy, Unusable
from backhaul.shop import wire
from backhaul.shop.client import ReadRefused
from backhaul.shop.transport import InDoubt, NotSent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from backhaul.reconcile.keyring import Keyring
    from backhaul.shop.client import ShopClient
    from backhaul.shop.transport import Answer, Transport

HOOKS = "/webhooks"
TOPICS = (
    *("orders/create", "orders/updated", "orders/fulfilled", "orders/cancelled"),
    *("products/create", "products/update", "products/delete"),
    *("inventory/level_update", "customers/create"),
)
"""Everything that the fold knows."""
NO_API = frozenset({404, 405, 501})
REFUSED_BY_US = 401
Hook = dict[str, Any]


class Guardian:
    """The subscription of one store; `check` it now and then."""

    def __init__(
        self,
        store: str,
        public_url: str,
        client: ShopClient,
        transport: Transport,
        keyring: Keyring,
        admit: Callable[[str, list[bytes]], Awaitable[None]],
    ) -> None:
        self._store = store
        self.address = f"{public_url}/webhooks/{store}"
        self._client = client
        self._transport = transport
        self._keyring = keyring
        self._admit = admit
        self._said = ""

    def state(self) -> str:
        """Return what a person should know or do; empty where all is well."""
        return self._said

    async def check(self) -> None:
        """Look after the subscription; what fails is told once and tried next time."""
        try:
            hooks = await self._hooks()
        except ReadRefused as error:
            self._tell(self._by_hand() if error.status in NO_API else str(error))
            return
        except (NotSent, InDoubt, Unusable):
            return
        try:
            self._tell(await self._mend(hooks))
        except (NotSent, InDoubt, Unusable, Busy, OSError) as error:
            self._tell(f"the webhook subscription cannot be kept in order: {error}")

    async def _hooks(self) -> list[Hook]:
        found: list[Hook] = []
        number = 0
        while True:
            number += 1
            page = await self._client.page(HOOKS, number, Priority.INCREMENTAL)
            rows = [wire.resource(strict_json.decode(body)) for body in page.rows]
            fresh = [row for row in rows if row not in found]
            found += fresh
            if not fresh or page.has_more is False:
                return found

    async def _mend(self, hooks: list[Hook]) -> str:
        """Make or repair what is ours; return what is left to a person."""
        ours = [hook for hook in hooks if hook.get("address") == self.address]
        if not ours:
            return await self._create(TOPICS)
        said = [await self._repair(hook) for hook in ours]
        return "; ".join(filter(None, said))

    async def _create(self, topics: tuple[str, ...]) -> str:
        body = {"address": self.address, "topics": list(topics)}
        answer = await self._send("POST", HOOKS, body)
        if answer.status == 403 and (rest := _without(topics, answer)):
            return await self._create(rest)
        if not answer.ok:
            return f"no webhook subscription could be made: {answer.said()}"
        await self._keep(wire.resource(answer.json()))
        self._log("subscription.created", "a webhook subscription was made")
        return self._lacking(topics)

    async def _repair(self, hook: Hook) -> str:
        status = str(hook.get("status", "")).upper()
        path = f"{HOOKS}/{hook['id']}"
        if status == "PAUSED":
            return f"the webhook subscription {hook['id']} is paused by somebody"
        if hook.get("consecutiveFailures") and await self._refused_last(path):
            await self._replace_secret(path)
        wanted: dict[str, Any] = {}
        if status == "DISABLED":
            wanted["status"] = "ACTIVE"
        lacking = [topic for topic in TOPICS if topic not in hook.get("topics", ())]
        if not wanted and not lacking:
            return ""
        if lacking:
            wanted["topics"] = [*hook.get("topics", ()), *lacking]
        return await self._change(path, wanted, lacking)

    async def _change(
        self, path: str, wanted: dict[str, Any], lacking: list[str]
    ) -> str:
        answer = await self._send("PUT", path, wanted)
        if answer.status == 403 and lacking:
            # The key may not read all that our topics carry: keep those it has.
            del wanted["topics"]
            if wanted:
                answer = await self._send("PUT", path, wanted)
            return self._lacking(tuple(t for t in TOPICS if t not in lacking))
        if not answer.ok:
            return f"a webhook subscription could not be repaired: {answer.said()}"
        self._log("subscription.repaired", "the webhook subscription was repaired")
        return ""

    async def _refused_last(self, path: str) -> bool:
        """Tell whether the last delivery was refused by us: its signature was wrong."""
        page = await self._client.page(f"{path}/deliveries", 1, Priority.INCREMENTAL)
        for body in page.rows:
            attempts = wire.resource(strict_json.decode(body)).get("attempts") or ()
            if attempts:
                return bool(attempts[-1].get("statusCode") == REFUSED_BY_US)
        return False

    async def _replace_secret(self, path: str) -> None:
        answer = await self._send("POST", f"{path}/rotate-secret", {})
        if not answer.ok:
            raise Unusable(f"its secret cannot be replaced: {answer.said()}")
        await self._keep(wire.resource(answer.json()))
        self._log("subscription.secret_replaced", "a webhook secret was replaced")

    async def _keep(self, hook: Hook) -> None:
        """Accept the secret at once, and remember it: it is never shown again."""
        secret = str(hook.get("secret") or "").encode()
        if not secret:
            raise Unusable("the platform told no secret")
        self._keyring.keep(secret)
        await self._admit(self._store, self._keyring.secrets())

    async def _send(self, method: str, path: str, body: Mapping[str, Any]) -> Answer:
        key = f"guardian-{secrets.token_hex(16)}"
        return await self._transport.send(path, strict_json.encode(body), key, method)

    def _lacking(self, topics: tuple[str, ...]) -> str:
        lacking = [topic for topic in TOPICS if topic not in topics]
        if not lacking:
            return ""
        return f"the key may not subscribe to {', '.join(lacking)}: they are read only"

    def _by_hand(self) -> str:
        return (
            "the platform lets nobody subscribe by its API: in its dashboard, enter "
            f"{self.address} for {', '.join(TOPICS)}"
        )

    def _tell(self, said: str) -> None:
        """Say what a person should know, once."""
        if said and said != self._said:
            logger.bind(action="subscription.attention", store=self._store).warning(
                "store {}: {}", self._store, said
            )
        self._said = said

    def _log(self, action: str, words: str) -> None:
        logger.bind(action=action, store=self._store).info(
            "store {}: {}: {}", self._store, words, self.address
        )


def _without(topics: tuple[str, ...], answer: Answer) -> tuple[str, ...]:
    """Return the topics that do not need a scope the key lacks; never the same."""
    missing = (answer.problem() or {}).get("requiredScopes") or ()
    resources = {str(scope).partition(":")[0] for scope in missing}
    rest = tuple(t for t in topics if t.partition("/")[0] not in resources)
    return rest if len(rest) < len(topics) else ()
