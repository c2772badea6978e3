"""All instances together: what each is told, asking one, and the end of the day."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from backhaul.connect.health import Health
from backhaul.connect.sink import Sink
from backhaul.errors import BackhaulError
from backhaul.store.deliveries import Subscriber
from backhaul_sdk import Capability

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from backhaul.connect.host import Host
    from backhaul.core.clock import Clock
    from backhaul.settings import Settings
    from backhaul.store.deliveries import Deliveries

END_SECONDS = 5.0
"""How long the end waits for what is being handed over."""


def sinks_of(
    settings: Settings,
    hosts: Sequence[Host],
    deliveries: Deliveries,
    clock: Clock,
    chance: Callable[[], float],
) -> list[Sink]:
    """Build what carries news out, for each connector that takes any."""
    return [
        Sink(
            host.connector,
            subscription(settings, host.connector.instance, host.connector.topics()),
            deliveries,
            Health(host.connector.instance, " (news)", clock, chance),
            clock,
            host.open,
            dry_run=bool({"*", host.connector.instance} & set(settings.rehearsed)),
        )
        for host in hosts
        if Capability.PUSH in host.connector.spec.capabilities
    ]


def subscription(
    settings: Settings, instance: str, offered: frozenset[str]
) -> Subscriber:
    """Return what an instance is told, of all that its connector takes."""
    own = settings.connectors[instance]
    return Subscriber(
        instance=instance,
        store=own.store,
        topics=offered & frozenset(own.topics or offered),
        begin=own.begin,
        release_when=settings.stores[own.store].release_when,
    )


async def ask(hosts: Sequence[Host], name: str) -> dict[str, int]:
    """Ask one instance for its records now. Raises BackhaulError."""
    for host in hosts:
        if host.connector.instance == name:
            return await host.once()
    raise BackhaulError(f"connector {name} does not run: it is not enabled")


async def end(sinks: Sequence[Sink], tasks: Sequence[asyncio.Task[None]]) -> None:
    """Let what is being handed over be answered: else it would be in doubt."""
    for sink in sinks:
        sink.stop()
    if tasks:
        await asyncio.wait(tasks, timeout=END_SECONDS)
