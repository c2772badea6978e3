"""Tests of the outside: a webhook of the platform, a redelivery, a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from backhaul.connect import registry
from backhaul.connect.health import ConnectorFailed, guarded, read_notices
from backhaul.errors import BackhaulError
from backhaul.platform.transport import NotSent, OutcomeUnknown
from backhaul.store.operations import AuditEntry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from backhaul.settings import Settings
    from backhaul.store import Store


Check: TypeAlias = "Callable[[str], Awaitable[list[str]]]"
"""Tests the connection with a name, and returns its notices."""


class Subscription(Protocol):
    """A webhook subscription: backhaul.sync.webhook_subscriptions has it."""

    async def send_test(self) -> None: ...

    async def redeliver(self, delivery: str) -> None: ...


class StoreContext(Protocol):
    """What the actions work on."""

    @property
    def store(self) -> Store: ...
    @property
    def subscriptions(self) -> Mapping[str, Subscription]: ...
    @property
    def check_connector(self) -> Check: ...


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
    """Test a connection as configured; return its notices. Raises BackhaulError."""
    own = settings.connectors[name]
    connector = registry.build(name, own.type, own.options)
    try:
        await guarded(connector.check())
        return read_notices(connector)
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


async def _ask(store: str, request: Awaitable[object]) -> None:
    try:
        await request
    except (NotSent, OutcomeUnknown) as error:
        raise BackhaulError(
            f"the platform of store {store} did not answer: {error}; try again"
        ) from None
