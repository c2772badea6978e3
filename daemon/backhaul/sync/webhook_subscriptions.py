"""Keeps each store's webhook subscription to this daemon alive."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from loguru import logger

from backhaul.core import strict_json
from backhaul.core.rate_limit import Priority
from backhaul.core.webhook import TOPICS
from backhaul.errors import Busy, Unusable
from backhaul.platform import decoding, schemas
from backhaul.platform.client import ReadRefused
from backhaul.platform.transport import InDoubt, NotSent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from backhaul.platform.client import ShopClient
    from backhaul.platform.secret_files import Keyring
    from backhaul.platform.transport import Answer, Transport
    from backhaul.store.contract import Marks

HOOKS = "/webhooks"
NO_API = frozenset({404, 405, 501})
REFUSED_BY_US = 401
MOST_PAGES = 100


class SubscriptionManager:
    """The subscription of one store; `check` it now and then."""

    def __init__(
        self,
        store: str,
        public_url: str,
        client: ShopClient,
        transport: Transport,
        keyring: Keyring,
        marks: Marks,
        admit: Callable[[str, list[bytes]], Awaitable[None]],
        accepts_any: Callable[[], bool],
        why_kept: Callable[[], str] = lambda: "",
    ) -> None:
        self._store = store
        self.address = f"{public_url}/webhooks/{store}"
        self._client = client
        self._transport = transport
        self._keyring = keyring
        self._marks = marks
        self._admit = admit
        self._accepts_any = accepts_any
        self._why_kept = why_kept
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
        except Unusable as error:
            self._tell(_unkept(error))
            return
        except (NotSent, InDoubt):
            return
        try:
            self._tell(await self._mend(hooks))
        except (NotSent, InDoubt, Unusable, Busy, OSError) as error:
            self._tell(_unkept(error))

    async def deliveries(self) -> list[schemas.Delivery]:
        """Return the newest deliveries to this daemon, as the platform tells them.

        Raises NotSent, InDoubt, Unusable, and ReadRefused where it tells nothing.
        """
        found: list[schemas.Delivery] = []
        for hook in self._ours(await self._hooks()):
            path = f"{_path(hook)}/deliveries"
            page = await self._client.page(path, 1, Priority.REREAD)
            rows = [decoding.resource(strict_json.decode(body)) for body in page.rows]
            found += map(decoding.delivery, rows)
        return found

    def _ours(self, hooks: list[dict[str, Any]]) -> list[schemas.Hook]:
        ours = (hook for hook in hooks if hook.get("address") == self.address)
        return [decoding.hook(hook) for hook in ours]

    async def _hooks(self) -> list[dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for number in range(1, MOST_PAGES + 1):
            page = await self._client.page(HOOKS, number, Priority.INCREMENTAL)
            rows = [decoding.resource(strict_json.decode(body)) for body in page.rows]
            # Their counters move from page to page; where pages are ignored, the ids
            # tell that nothing new comes.
            fresh = {_identity(row): row for row in rows if _identity(row) not in found}
            found |= fresh
            if not fresh or page.has_more is False:
                return list(found.values())
        raise Unusable(f"the list of subscriptions has no end after {MOST_PAGES} pages")

    async def _mend(self, hooks: list[dict[str, Any]]) -> str:
        """Make or repair what is ours; return what is left to a person."""
        ours = self._ours(hooks)
        if not ours:
            return await self._create()
        said = [await self._repair(hook) for hook in ours]
        return "; ".join(filter(None, said))

    async def _create(self) -> str:
        """Subscribe to all topics, or to those that the key may have."""
        parts: list[tuple[str, ...]] = [TOPICS]
        while True:
            topics = parts.pop(0)
            body = {"address": self.address, "topics": list(topics)}
            answer = await self._send("POST", HOOKS, body)
            if answer.ok:
                break
            if answer.status == 403:
                parts = [*_fewer(topics, answer), *parts]
            if answer.status != 403 or not parts:
                return f"no webhook subscription could be made: {answer.said()}"
        await self._keep(answer)
        self._log("subscription.created", "a webhook subscription was made")
        if not parts:
            return self._lacking(topics)
        made = decoding.hook(decoding.resource(answer.json()))
        return await self._change(_path(made), {}, topics, parts)

    async def _repair(self, hook: schemas.Hook) -> str:
        status = (hook.status or "").upper()
        if status == "PAUSED":
            return f"the webhook subscription {hook.id} is paused by somebody"
        kept = ""
        if not self._accepts_any():
            await self._replace_secret(_path(hook))
        elif hook.consecutive_failures:
            kept = await self._mind_secret(hook)
        wanted = {"status": "ACTIVE"} if status == "DISABLED" else {}
        topics = tuple(hook.topics or ())
        lacking = tuple(topic for topic in TOPICS if topic not in topics)
        left = await self._change(_path(hook), wanted, topics, [lacking])
        return "; ".join(filter(None, (kept, left)))

    async def _change(
        self,
        path: str,
        wanted: dict[str, Any],
        topics: tuple[str, ...],
        parts: list[tuple[str, ...]],
    ) -> str:
        """Change what is wanted and add, part by part, the topics the key may have."""
        is_changed, failed = False, ""
        while parts:
            part = parts.pop(0)
            body = wanted | ({"topics": [*topics, *part]} if part else {})
            if not body:
                continue
            answer = await self._send("PUT", path, body)
            if answer.status == 403 and part:
                # What else is wanted goes alone before any other part is tried.
                parts = [(), *_fewer(part, answer), *parts]
            elif not answer.ok:
                said = answer.said()
                failed = f"a webhook subscription could not be repaired: {said}"
                break
            else:
                wanted, topics, is_changed = {}, (*topics, *part), True
        if is_changed:
            self._log("subscription.repaired", "the webhook subscription was repaired")
        return failed or self._lacking(topics)

    async def _mind_secret(self, hook: schemas.Hook) -> str:
        """Replace a secret with which a delivery was refused, once for each delivery.

        A quiet store shows the same refusal at every check. Returns what a person
        should know where nothing shows that the secret is wrong; the secret stays then.
        """
        path, mark = _path(hook), f"refused:{self._store}:{hook.id}"
        refused_at = await self._refused_last(path)
        if refused_at <= (await self._marks.get(mark) or ""):
            return ""
        if why := self._why_kept():
            return f"a delivery was refused with 401, and its secret is kept: {why}"
        await self._replace_secret(path)
        await self._marks.put(mark, refused_at)
        return ""

    async def _refused_last(self, path: str) -> str:
        """Tell when the last delivery was refused by us, for its signature, if it was.

        It is the platform's time.
        """
        page = await self._client.page(f"{path}/deliveries", 1, Priority.INCREMENTAL)
        for body in page.rows:
            last = decoding.last_attempt(decoding.resource(strict_json.decode(body)))
            if last is not None:
                return last.at if last.status_code == REFUSED_BY_US else ""
        return ""

    async def _replace_secret(self, path: str) -> None:
        answer = await self._send("POST", f"{path}/rotate-secret", {})
        if not answer.ok:
            raise Unusable(f"its secret cannot be replaced: {answer.said()}")
        await self._keep(answer)
        self._log("subscription.secret_replaced", "a webhook secret was replaced")

    async def _keep(self, answer: Answer) -> None:
        """Accept the secret at once, and remember it: it is never shown again."""
        secret = str(decoding.resource(answer.json()).get("secret") or "").encode()
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
        said = "the platform lets nobody subscribe by its API"
        if not self._accepts_any():
            return said
        return f"{said}: in its dashboard, enter {_entry(self.address)}"

    def _tell(self, said: str) -> None:
        """Say what a person should know, once."""
        if said and not self._accepts_any():
            said = f"{said}; {no_secret_text(self._store, self.address)}"
        if said and said != self._said:
            logger.bind(action="subscription.attention", store=self._store).warning(
                "store {}: {}", self._store, said
            )
        self._said = said

    def _log(self, action: str, words: str) -> None:
        logger.bind(action=action, store=self._store).info(
            "store {}: {}: {}", self._store, words, self.address
        )


def no_secret_text(store: str, address: str) -> str:
    """Say what to do where no secret is known that a delivery could be signed with."""
    return (
        "no webhook secret is known, and every webhook is refused until then: in the"
        f" platform's dashboard, enter {_entry(address)}, and give the secret that it"
        f" shows as stores.{store}.webhook_secrets"
    )


def _entry(address: str) -> str:
    return f"{address} for {', '.join(TOPICS)}"


def _unkept(error: Exception) -> str:
    return f"the webhook subscription cannot be kept in order: {error}"


def _identity(row: dict[str, Any]) -> str:
    return str(row.get("id") or row.get("address"))


def _path(hook: schemas.Hook) -> str:
    return f"{HOOKS}/{quote(hook.id, safe='')}"


def _fewer(topics: tuple[str, ...], answer: Answer) -> list[tuple[str, ...]]:
    """Return the parts of refused topics to try: without what the key lacks.

    Where the answer names no scope each resource is tried alone. Never the same again.
    """
    named = (answer.problem() or {}).get("requiredScopes")
    missing = named if isinstance(named, list) else []
    resources = {str(scope).partition(":")[0] for scope in missing}
    by_resource: dict[str, tuple[str, ...]] = {}
    for topic in topics:
        resource = topic.partition("/")[0]
        by_resource[resource] = (*by_resource.get(resource, ()), topic)
    if not resources:
        return list(by_resource.values()) if len(by_resource) > 1 else []
    rest = tuple(t for t in topics if t.partition("/")[0] not in resources)
    return [rest] if rest and len(rest) < len(topics) else []
