"""Runs all checks in order."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from backhaul.app.wiring import build_client
from backhaul.doctor import (
    State,
    collector,
    configuration,
    daemon,
    platform,
    storage,
)
from backhaul.doctor.storage import Machine
from backhaul.doctor.webhooks import RoundTrip

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path
    from typing import Any

    from backhaul.core.clock import Clock
    from backhaul.doctor import Result
    from backhaul.settings import Settings


async def examine(
    settings: Settings,
    config: Path | None,
    environ: Mapping[str, str],
    clock: Clock,
    machine: Machine | None = None,
    *,
    deep: bool = False,
) -> AsyncIterator[Result]:
    """Yield the result of each check; change nothing and send no command.

    `deep` compares every index of the database with its table.
    """
    for found in configuration.check(settings, config, environ):
        yield found
    if settings.admin.oidc.is_configured:
        yield await configuration.check_provider(settings, clock)
    if settings.telemetry.is_on:
        for found in await collector.check(settings.telemetry):
            yield found
    place, live = settings.place, None
    for found in storage.check(settings.state_dir, place, machine or Machine()):
        yield found
    sound = not storage.is_closed(settings.state_dir)
    if sound:
        quorum = settings.cluster.durability == "quorum"
        for found in storage.check_database(place, deep=deep, quorum=quorum):
            sound = sound and found.state is State.OK
            yield found
        for found in storage.left_behind(place, settings.stores):
            yield found
        live, result = daemon.ask(settings)
        yield result
    for name in settings.stores:
        async for found in _store(settings, name, clock, live, sound=sound):
            yield found
    for name, own in settings.connectors.items():
        yield await configuration.check_connector(name, own)


async def _store(
    settings: Settings,
    name: str,
    clock: Clock,
    live: dict[str, Any] | None,
    *,
    sound: bool,
) -> AsyncIterator[Result]:
    transport, client = build_client(settings, name, clock)
    answers = True
    try:
        async for found in platform.check(settings, name, transport, client, clock):
            answers = answers and found.state is not State.FAIL
            yield found
        if sound:
            for found in daemon.writes(settings, name):
                yield found
        if live is None:
            return
        for found in daemon.check(live, name):
            yield found
        if settings.public.url:
            yield await daemon.public_address(settings.public.url, name)
        if answers and sound and transport.pause() is None:
            at, refused = live["public_url"], partial(daemon.refused, settings, name)
            trip = RoundTrip(settings, name, transport, client, clock, at, refused)
            yield await trip.run()
    finally:
        await transport.close()
