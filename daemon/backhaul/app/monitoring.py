"""Wires metrics, heartbeat, alerts and the dashboard of the running daemon."""

from __future__ import annotations

import socket
from functools import partial
from typing import TYPE_CHECKING, Any

from backhaul.admin import routes
from backhaul.admin.context import Services
from backhaul.alerting.conditions import BACKUP, causes
from backhaul.alerting.notifications import Notifier
from backhaul.maintenance.self_monitoring import Heartbeat, Sampler, readings
from backhaul.observe.metrics import GaugeValue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

    from aiohttp import web

    from backhaul.app.actions import Action
    from backhaul.app.schedule import Schedule
    from backhaul.app.wiring import Shop
    from backhaul.core.clock import Clock
    from backhaul.observe.metrics import Metrics
    from backhaul.settings import Settings
    from backhaul.store import Store
    from backhaul.store.operations import Alert

OF_READING = frozenset(
    {
        "first_read_timestamp_seconds",
        "consistent_as_of_timestamp_seconds",
        "unrepaired_rows",
    }
)
"""Metrics about a store's syncs; they end with the store, or alarms would stay."""


class Monitoring:
    """Combines counters, database figures and the status of the running parts."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        caught_up: Callable[[], Awaitable[None]],
        status: Callable[[], Awaitable[dict[str, Any]]],
        instances: Callable[[], list[str]],
        metrics: Metrics,
        clock: Clock,
        schedule: Schedule,
    ) -> None:
        self._settings = settings
        wanted = self._wanted = settings.alerts
        self._silence = {
            name: each.silent_after
            for name, each in settings.connectors.items()
            if each.silent_after is not None
        }
        self._store = store
        self._gauges = store.gauges
        self._conditions = store.alert_conditions
        self._status = status
        self._instances = instances
        self._metrics = metrics
        self._clock = clock
        self._schedule = schedule
        self._sampler = Sampler(
            store.metric_samples,
            lambda: self._gauges.current(self._instances()),
            metrics,
            clock,
        )
        self._heartbeat = Heartbeat(store.kv, caught_up, metrics, clock)
        self._notifier = Notifier(
            wanted, store.alerts, self.causes, clock, socket.gethostname()
        )

    def loops(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """Return the loops that run as long as the daemon."""
        loops = [self._heartbeat.run, self._heartbeat.watch_loop, self._notifier.run]
        return [*loops, self._sampler.run]

    def serve_people(
        self,
        app: web.Application,
        changes: Mapping[str, Action],
        shops: Mapping[str, Shop],
    ) -> None:
        """Add the dashboard to the admin application."""
        subscriptions = {name: shop.subscription for name, shop in shops.items()}
        deliveries = {n: kept.deliveries for n, kept in subscriptions.items() if kept}
        given = Services(
            self._settings,
            self._clock,
            self._status,
            changes,
            self._store,
            self._sampler,
            deliveries,
        )
        routes.install(app, given)

    async def metrics_text(self) -> bytes:
        """Return the metrics in the text format of Prometheus."""
        gauges = [
            gauge
            for gauge in await self._gauges.current(self._instances())
            # A store that was removed from the settings is no longer compared.
            if gauge[0] not in OF_READING or gauge[2][0] in self._settings.stores
        ]
        live = readings(await self._status(), self._heartbeat.last_beat)
        return self._metrics.render([*(GaugeValue(*gauge) for gauge in gauges), *live])

    async def causes(self) -> dict[str, Alert]:
        """Return the present problems as alerts, by key. May raise Busy."""
        instances = [name for name in self._instances() if name in self._silence]
        found = await self._conditions.current(instances)
        return causes(
            self._wanted,
            await self._status(),
            found,
            self._silence,
            self._clock.now().timestamp(),
            partial(self._schedule.missed_twice, BACKUP),
        )
