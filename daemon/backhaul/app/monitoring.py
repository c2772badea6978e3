"""Wires metrics, heartbeat, alerts and the dashboard of the running daemon."""

from __future__ import annotations

import shutil
import socket
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web
from loguru import logger

from backhaul.admin import routes
from backhaul.admin.context import Services
from backhaul.alerting import find_alerts, find_problems
from backhaul.alerting.notifications import Notifier
from backhaul.alerting.operation_problems import BACKUP
from backhaul.alerting.problem import Facts
from backhaul.app.store_runtime import ShopsView
from backhaul.errors import Busy
from backhaul.maintenance.self_monitoring import Heartbeat, Sampler, cluster, readings
from backhaul.observe.metrics import GaugeValue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence

    from backhaul.alerting.problem import Problem
    from backhaul.app.actions import Action
    from backhaul.app.schedule import Schedule
    from backhaul.app.wiring import Shop
    from backhaul.core.clock import Clock
    from backhaul.observe.metrics import Metrics
    from backhaul.settings import Settings
    from backhaul.store import Store
    from backhaul.store.operations import Alert, Gauge

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
        self._metrics = metrics
        self._clock = clock
        self._schedule = schedule
        self._sampler = Sampler(
            store.metric_samples,
            self._current_gauges,
            metrics,
            clock,
        )
        self._heartbeat = Heartbeat(store.kv, caught_up, metrics, clock)
        self._notifier = Notifier(
            wanted, store.alerts, self.alerts, clock, socket.gethostname()
        )

    async def _connections(self) -> list[str]:
        """Return the names of the connections that run."""
        return list((await self._status())["connectors"])

    async def _current_gauges(self) -> Sequence[Gauge]:
        return await self._gauges.current(await self._connections())

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
        deliveries = ShopsView(shops, _deliveries)
        given = Services(
            self._settings,
            self._clock,
            self._status,
            self.problems,
            changes,
            self._store,
            self._sampler,
            deliveries,
        )
        routes.install(app, given)

    async def metrics_text(self) -> bytes:
        """Return the metrics in the text format of Prometheus.

        Those of the database are missing while it cannot be read.
        """
        live = readings(await self._status(), self._heartbeat.last_beat)
        try:
            live += await self._stored_gauges()
        except Busy as error:  # what this process knows is most wanted then
            logger.bind(action="metrics.incomplete").warning("{}", error)
        return self._metrics.render(live)

    async def _stored_gauges(self) -> list[GaugeValue]:
        found = [
            GaugeValue(*gauge)
            for gauge in await self._current_gauges()
            # A store that was removed from the settings is no longer compared.
            if gauge[0] not in OF_READING or gauge[2][0] in self._settings.stores
        ]
        return found + cluster(await self._store.ownership.members())

    async def alerts(self) -> dict[str, Alert]:
        """Return the alerts about present problems, by key. May raise Busy."""
        return find_alerts(await self._facts())

    async def problems(self) -> list[Problem]:
        """Return all present problems, the worst first. May raise Busy."""
        return find_problems(await self._facts())

    async def list_problems(self, _: web.Request) -> web.Response:
        """Answer with the problems. Only for the daemon's own user: no login."""
        try:
            found = msgspec.to_builtins(await self.problems())
        except Busy as error:
            return web.json_response({"error": str(error)}, status=503)
        return web.json_response(found)

    async def _facts(self) -> Facts:
        running = await self._connections()
        instances = [name for name in running if name in self._silence]
        return Facts(
            status=await self._status(),
            conditions=await self._conditions.current(instances),
            drift_rows=self._wanted.drift_rows,
            silence=self._silence,
            now=self._clock.now().timestamp(),
            backups_missed=partial(self._schedule.missed_twice, BACKUP),
            free_bytes=shutil.disk_usage(self._settings.data_folder).free,
        )


def _deliveries(shop: Shop) -> Callable[[], Awaitable[Sequence[Any]]] | None:
    """Return what reads the platform's list of webhook deliveries, if it can."""
    return None if shop.subscription is None else shop.subscription.deliveries
