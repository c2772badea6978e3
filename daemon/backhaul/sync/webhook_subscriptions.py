"""Creates and repairs each store's webhook subscription to this daemon."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from loguru import logger
from msgspec import Struct

from backhaul.core import strict_json
from backhaul.core.rate_limit import Priority
from backhaul.core.webhook import TOPICS
from backhaul.errors import Busy, Unusable
from backhaul.platform import decoding, schemas
from backhaul.platform.client import ReadRefused
from backhaul.platform.transport import NotSent, OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from backhaul.platform.client import PlatformClient
    from backhaul.platform.responses import Response
    from backhaul.platform.store_credentials import Keyring
    from backhaul.store.operations import KeyValues

HOOKS = "/webhooks"
NO_API = frozenset({404, 405, 501})
REFUSED = 401
MOST_PAGES = 100


class AcceptedSecrets(Struct, frozen=True):
    """The webhook secrets that the receiver accepts for one store.

    `admit` accepts the platform's secrets, `accepts_any` returns whether there is one,
    and `why_kept` why a refused delivery is no reason to replace it.
    """

    admit: Callable[[list[bytes]], Awaitable[None]]
    accepts_any: Callable[[], bool]
    why_kept: Callable[[], str] = lambda: ""


class SubscriptionManager:
    """Manages the webhook subscription of one store; call `check` periodically."""

    def __init__(
        self,
        store: str,
        public_url: str,
        client: PlatformClient,
        keyring: Keyring,
        marks: KeyValues,
        accepted: AcceptedSecrets,
    ) -> None:
        self._store = store
        self.address = f"{public_url}/webhooks/{store}"
        self._client = client
        self._transport = client.transport
        self._keyring = keyring
        self._marks = marks
        self._accepted = accepted
        self._attention = ""

    def state(self) -> str:
        """Return what an operator should know or do; empty if all is well."""
        return self._attention

    async def check(self) -> None:
        """Create or repair the subscription; log a failure once and retry later."""
        try:
            hooks = await self._hooks()
        except ReadRefused as error:
            self._report(self._manual_text() if error.status in NO_API else str(error))
            return
        except Unusable as error:
            self._report(_failed_text(error))
            return
        except (NotSent, OutcomeUnknown):
            return
        try:
            self._report(await self._create_or_repair(hooks))
        except (NotSent, OutcomeUnknown, Unusable, Busy, OSError) as error:
            self._report(_failed_text(error))

    async def deliveries(self) -> list[schemas.Delivery]:
        """Return the newest deliveries to this daemon from the platform's log.

        Raises NotSent, OutcomeUnknown, Unusable; ReadRefused if there is no log.
        """
        found: list[schemas.Delivery] = []
        for hook in self._ours(await self._hooks()):
            path = f"{_path(hook)}/deliveries"
            page = await self._client.page(path, 1, Priority.REREAD)
            rows = [decoding.resource(strict_json.decode(body)) for body in page.rows]
            found += map(decoding.delivery, rows)
        return found

    async def send_test(self) -> None:
        """Let the platform send a test webhook to this daemon.

        Raises NotSent, OutcomeUnknown, Unusable; ReadRefused if that is not offered.
        """
        await self._ask(f"{_path(await self._own())}/test")

    async def redeliver(self, delivery: str) -> None:
        """Let the platform send a delivery of its log again; raises as `send_test`."""
        own = _path(await self._own())
        await self._ask(f"{own}/deliveries/{quote(delivery, safe='')}/redeliver")

    async def _own(self) -> schemas.Hook:
        hooks = self._ours(await self._hooks())
        if not hooks:
            raise Unusable(
                f"the platform has no webhook subscription for {self.address}; Backhaul"
                " creates one within some minutes"
            )
        return hooks[0]

    async def _ask(self, path: str) -> None:
        answer = await self._send("POST", path, {})
        if not answer.ok:
            raise ReadRefused(path, answer)

    def _ours(self, hooks: list[dict[str, Any]]) -> list[schemas.Hook]:
        ours = (hook for hook in hooks if hook.get("address") == self.address)
        return [decoding.hook(hook) for hook in ours]

    async def _hooks(self) -> list[dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for number in range(1, MOST_PAGES + 1):
            page = await self._client.page(HOOKS, number, Priority.INCREMENTAL)
            rows = [decoding.resource(strict_json.decode(body)) for body in page.rows]
            # Rows change between pages. If the platform ignores page numbers, the ids
            # show that nothing new comes.
            fresh = {_identity(row): row for row in rows if _identity(row) not in found}
            found |= fresh
            if not fresh or page.has_more is False:
                return list(found.values())
        raise Unusable(
            f"the platform's list of webhook subscriptions has more than {MOST_PAGES}"
            " pages, so Backhaul did not read the rest"
        )

    async def _create_or_repair(self, hooks: list[dict[str, Any]]) -> str:
        """Create or repair our subscription; return what an operator has to do."""
        ours = self._ours(hooks)
        if not ours:
            return await self._create()
        said = [await self._repair(hook) for hook in ours]
        return "; ".join(filter(None, said))

    async def _create(self) -> str:
        """Subscribe to all topics, or to those that the key's scopes allow."""
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
                return f"no webhook subscription could be created: {answer.said()}"
        await self._keep(answer)
        self._log("subscription.created", "a webhook subscription was created")
        if not parts:
            return self._lacking(topics)
        made = decoding.hook(decoding.resource(answer.json()))
        return await self._change(_path(made), {}, topics, parts)

    async def _repair(self, hook: schemas.Hook) -> str:
        status = (hook.status or "").upper()
        if status == "PAUSED":
            return (
                f"the webhook subscription {hook.id} is paused at the platform:"
                " resume it in the platform's dashboard"
            )
        kept = ""
        if not self._accepted.accepts_any():
            await self._replace_secret(_path(hook))
        elif hook.consecutive_failures:
            kept = await self._check_secret(hook)
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
        """Change the subscription, and add the allowed topics part by part."""
        is_changed, failed = False, ""
        while parts:
            part = parts.pop(0)
            body = wanted | ({"topics": [*topics, *part]} if part else {})
            if not body:
                continue
            answer = await self._send("PUT", path, body)
            if answer.status == 403 and part:
                # Apply the other changes alone, before another part of the topics.
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

    async def _check_secret(self, hook: schemas.Hook) -> str:
        """Replace the secret after a refused delivery, once for each delivery.

        A store without traffic shows the same refusal at every check. Keeps the secret
        if nothing shows that it is wrong, and returns what an operator should know.
        """
        path, mark = _path(hook), f"refused:{self._store}:{hook.id}"
        refused_at = await self._refused_last(path)
        if refused_at <= (await self._marks.get(mark) or ""):
            return ""
        if why := self._accepted.why_kept():
            return f"a delivery was refused with 401, and its secret is kept: {why}"
        await self._replace_secret(path)
        await self._marks.put(mark, refused_at)
        return ""

    async def _refused_last(self, path: str) -> str:
        """Return when Backhaul refused the newest delivery for its signature, or "".

        The time is the platform's.
        """
        page = await self._client.page(f"{path}/deliveries", 1, Priority.INCREMENTAL)
        for body in page.rows:
            last = decoding.last_attempt(decoding.resource(strict_json.decode(body)))
            if last is not None:
                return last.at if last.status_code == REFUSED else ""
        return ""

    async def _replace_secret(self, path: str) -> None:
        answer = await self._send("POST", f"{path}/rotate-secret", {})
        if not answer.ok:
            raise Unusable(
                "the platform did not replace the webhook secret of the"
                f" subscription: {answer.said()}"
            )
        await self._keep(answer)
        self._log("subscription.secret_replaced", "a webhook secret was replaced")

    async def _keep(self, answer: Response) -> None:
        """Accept the secret at once and save it: the platform never shows it again."""
        secret = str(decoding.resource(answer.json()).get("secret") or "").encode()
        if not secret:
            raise Unusable("the platform's response contains no webhook secret")
        await self._accepted.admit(await self._keyring.keep(secret))

    async def _send(self, method: str, path: str, body: Mapping[str, Any]) -> Response:
        key = f"guardian-{secrets.token_hex(16)}"
        return await self._transport.send(path, strict_json.encode(body), key, method)

    def _lacking(self, topics: tuple[str, ...]) -> str:
        lacking = [topic for topic in TOPICS if topic not in topics]
        if not lacking:
            return ""
        return (
            f"the API key may not subscribe to {', '.join(lacking)}: Backhaul polls"
            " these changes instead"
        )

    def _manual_text(self) -> str:
        said = "the platform's API does not offer webhook subscriptions"
        if not self._accepted.accepts_any():
            return said
        return f"{said}: in its dashboard, enter {_entry(self.address)}"

    def _report(self, said: str) -> None:
        """Set what an operator should know, and log it once."""
        if said and not self._accepted.accepts_any():
            said = f"{said}; {no_secret_text(self._store, self.address)}"
        if said and said != self._attention:
            logger.bind(action="subscription.attention", store=self._store).warning(
                "store {}: {}", self._store, said
            )
        self._attention = said

    def _log(self, action: str, words: str) -> None:
        logger.bind(action=action, store=self._store).info(
            "store {}: {}: {}", self._store, words, self.address
        )


def no_secret_text(store: str, address: str) -> str:
    """Return what to do when no webhook secret of a store is known."""
    return (
        "no webhook secret is known, so every webhook is refused: in the platform's"
        f" dashboard, enter {_entry(address)}, and put the secret that it shows into"
        f" stores.{store}.webhook_secrets"
    )


def _entry(address: str) -> str:
    return f"{address} for {', '.join(TOPICS)}"


def _failed_text(error: Exception) -> str:
    return f"the webhook subscription could not be checked or repaired: {error}"


def _identity(row: dict[str, Any]) -> str:
    return str(row.get("id") or row.get("address"))


def _path(hook: schemas.Hook) -> str:
    return f"{HOOKS}/{quote(hook.id, safe='')}"


def _fewer(topics: tuple[str, ...], answer: Response) -> list[tuple[str, ...]]:
    """Return the parts of refused topics to try next, without the missing scopes.

    If the answer names no scope, each resource is tried alone. The result never equals
    the refused topics.
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
