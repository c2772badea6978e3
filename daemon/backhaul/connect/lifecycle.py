"""Starts, queries and stops all connections."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from backhaul.connect import http_routes
from backhaul.connect.delivery_worker import Sink
from backhaul.connect.health import Health
from backhaul.errors import BackhaulError
from backhaul.store.deliveries import Subscriber
from backhaul_sdk import Capability

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aiohttp import web

    from backhaul.connect.host import Host
    from backhaul.core.clock import Clock
    from backhaul.settings import Settings
    from backhaul.store.deliveries import Deliveries

START_SECONDS = 10.0
"""For so long the daemon's start waits for connectors, for all at the same time."""
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
            dry_run=bool(
                {"*", host.connector.instance} & set(settings.dry_run_connections)
            ),
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


async def subscribe_all(sinks: Sequence[Sink], deliveries: Deliveries) -> None:
    """Subscribe each connection, and retire those that are not configured any more."""
    await deliveries.retire([sink.instance for sink in sinks])
    for sink in sinks:
        await sink.subscribe()


async def listen_all(hosts: Sequence[Host], seconds: float) -> list[web.RouteDef]:
    """Let each instance listen; return the routes for the public listener.

    None is waited for longer, and none waits for another.
    """
    wanted = await asyncio.gather(*(host.listen(seconds) for host in hosts))
    pairs = zip(hosts, wanted, strict=True)
    return [
        one
        for host, own in pairs
        for one in http_routes.routes(host.connector.instance, own)
    ]


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
