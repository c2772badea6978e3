"""Starts, queries and stops all connections."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from backhaul.connect import http_routes
from backhaul.connect.delivery_worker import DeliveryWorker
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
"""How long the start of the daemon waits for all connectors together."""
STOP_SECONDS = 5.0
"""How long a stop waits for deliveries in progress."""


def delivery_workers(
    settings: Settings,
    hosts: Sequence[Host],
    deliveries: Deliveries,
    clock: Clock,
    chance: Callable[[], float],
) -> list[DeliveryWorker]:
    """Return a delivery worker for each connection that receives changes."""
    return [
        DeliveryWorker(
            host.connector,
            subscription(settings, host.connector.instance, host.connector.topics()),
            deliveries,
            Health(host.connector.instance, " (deliveries)", clock, chance),
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
    """Return the changes that a connection receives, limited by its settings."""
    own = settings.connectors[instance]
    return Subscriber(
        instance=instance,
        store=own.store,
        topics=offered & frozenset(own.topics or offered),
        begin=own.begin,
        release_when=settings.stores[own.store].release_when,
    )


async def subscribe_all(
    workers: Sequence[DeliveryWorker], deliveries: Deliveries
) -> None:
    """Subscribe each connection; retire those that are no longer configured."""
    await deliveries.retire([worker.instance for worker in workers])
    for worker in workers:
        await worker.subscribe()


async def listen_all(hosts: Sequence[Host], seconds: float) -> list[web.RouteDef]:
    """Start listening on every connection; return the routes for the public listener.

    Each connection gets at most `seconds`; no connection waits for another.
    """
    wanted = await asyncio.gather(*(host.listen(seconds) for host in hosts))
    pairs = zip(hosts, wanted, strict=True)
    return [
        one
        for host, own in pairs
        for one in http_routes.routes(host.connector.instance, own)
    ]


async def poll_now(hosts: Sequence[Host], name: str) -> dict[str, int]:
    """Poll one connection now. Raises BackhaulError."""
    for host in hosts:
        if host.connector.instance == name:
            return await host.once()
    raise BackhaulError(
        f"connection {name} does not run, because the setting enabled is false for it"
    )


async def stop_all(
    workers: Sequence[DeliveryWorker], tasks: Sequence[asyncio.Task[None]]
) -> None:
    """Wait for the answers of deliveries in progress, which would become uncertain."""
    for worker in workers:
        worker.stop()
    if tasks:
        await asyncio.wait(tasks, timeout=STOP_SECONDS)
