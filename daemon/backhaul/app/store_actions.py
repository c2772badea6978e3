"""Tests of the outside: a webhook of the platform, a redelivery, a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from backhaul.connect import registry
from backhaul.connect.health import ConnectorFailed, guarded, read_findings
from backhaul.core.clock import normalize, to_text
from backhaul.errors import BackhaulError
from backhaul.platform.transport import NotSent, OutcomeUnknown
from backhaul.store.operations import AuditEntry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from backhaul.core.clock import Clock
    from backhaul.settings import Settings
    from backhaul.store import Store

T = TypeVar("T")

NOT_SINCE = "write a day, such as 2026-03-01, or a time, such as 2026-03-01T12:00Z"
Check: TypeAlias = "Callable[[str], Awaitable[list[str]]]"
"""Tests the connection with a name; returns what was found, and its notices."""


class Subscription(Protocol):
    """A webhook subscription: backhaul.sync.webhook_subscriptions has it."""

    async def send_test(self) -> None: ...

    async def redeliver(self, delivery: str) -> None: ...


class OrderBackfill(Protocol):
    """Reads orders since a time: backhaul.sync.order_backfill has it."""

    async def count(self, since: str) -> int | None: ...

    async def request(self, since: str) -> None: ...


class StoreContext(Protocol):
    """What the actions work on."""

    @property
    def store(self) -> Store: ...
    @property
    def subscriptions(self) -> Mapping[str, Subscription]: ...
    @property
    def check_connector(self) -> Check: ...
    @property
    def order_backfills(self) -> Mapping[str, OrderBackfill]: ...
    @property
    def clock(self) -> Clock: ...


async def send_test(parts: StoreContext, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Let the platform send a test webhook to this daemon for `who`."""
    name = asked["store"]
    subscription = _subscription_of(parts, name)
    entry = AuditEntry(asked["who"], "stores test", name)
    await parts.store.users.record_action(entry)
    await _ask(name, subscription.send_test())
    return {"store": name}


async def redeliver(parts: StoreContext, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Let the platform send the webhook delivery `delivery` again for `who`."""
    name, delivery = asked["store"], asked["delivery"]
    subscription = _subscription_of(parts, name)
    entry = AuditEntry(asked["who"], "stores redeliver", f"{name}: {delivery}")
    await parts.store.users.record_action(entry)
    await _ask(name, subscription.redeliver(delivery))
    return {"store": name, "delivery": delivery}


async def count_orders(parts: StoreContext, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return how many orders of `store` a backfill `since` a time reads."""
    name, since = asked["store"], _since_of(parts, asked["since"])
    number = await _ask(name, _backfill_of(parts, name).count(since))
    return {"store": name, "since": since, "orders": number}


async def backfill_orders(
    parts: StoreContext, asked: Mapping[str, Any]
) -> dict[str, Any]:
    """Read the orders of `store` `since` a time for `who`."""
    name, since = asked["store"], _since_of(parts, asked["since"])
    backfill = _backfill_of(parts, name)
    entry = AuditEntry(asked["who"], "stores backfill", f"{name}: orders since {since}")
    await parts.store.users.record_action(entry)
    await backfill.request(since)
    return {"store": name, "since": since}


def _since_of(parts: StoreContext, text: str) -> str:
    try:
        since = normalize(text)
    except ValueError:
        raise BackhaulError(f"since cannot be {text[:40]!r}; {NOT_SINCE}") from None
    if since > to_text(parts.clock.now()):
        raise BackhaulError(f"since {text} is in the future; choose a day in the past")
    return since


def _backfill_of(parts: StoreContext, store: str) -> OrderBackfill:
    found = parts.order_backfills.get(store)
    if found is None:
        raise BackhaulError(
            f"no daemon reads store {store}; start one with: backhaul run"
        )
    return found


async def check_connector(
    parts: StoreContext, asked: Mapping[str, Any]
) -> dict[str, Any]:
    """Test the connection `name` for `who`; the test changes nothing."""
    name = asked["name"]
    entry = AuditEntry(asked["who"], "connectors check", name)
    await parts.store.users.record_action(entry)
    return {"name": name, "notices": await parts.check_connector(name)}


async def cannot_check(name: str) -> list[str]:
    """Raise BackhaulError: without a daemon, the command line tests connections."""
    raise BackhaulError(
        f"no daemon runs connection {name}; type: backhaul connectors check {name}"
    )


async def test_connection(settings: Settings, name: str) -> list[str]:
    """Test a connection as configured; return what was found, and its notices.

    Raises BackhaulError.
    """
    own = settings.connectors[name]
    connector = registry.build(name, own.type, own.options)
    try:
        await guarded(connector.check())
        return read_findings(connector)
    except ConnectorFailed as error:
        raise BackhaulError(f"{name}: {error}") from None


def _subscription_of(parts: StoreContext, store: str) -> Subscription:
    found = parts.subscriptions.get(store)
    if found is None:
        raise BackhaulError(
            f"Backhaul manages no webhook subscription of store {store}; set `url` in"
            " [public] of the configuration, restart the daemon, and try again"
        )
    return found


async def _ask(store: str, request: Awaitable[T]) -> T:
    try:
        return await request
    except (NotSent, OutcomeUnknown) as error:
        raise BackhaulError(
            f"the platform of store {store} did not answer: {error}; try again"
        ) from None
