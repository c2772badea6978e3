"""Wires metrics, heartbeat, alerts and the dashboard of the running daemon."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections import defaultdict
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from aiohttp import web
from loguru import logger

from backhaul.admin import routes
from backhaul.admin.context import Services
from backhaul.alerting import find_alerts, find_problems
from backhaul.alerting.notifications import Notifier
from backhaul.alerting.operation_problems import BACKUP
from backhaul.alerting.problem import Facts
from backhaul.app import jobs
from backhaul.errors import BackhaulError, Busy
from backhaul.maintenance.self_monitoring import (
    RATES,
    Heartbeat,
    Sampler,
    cluster,
    readings,
)
from backhaul.observe.metrics import GaugeValue
from backhaul.push.send_switch import ALL
from backhaul.settings.jobs import polling_job
from backhaul.store import database_at
from backhaul.store.operators import BEGIN_SECONDS
from backhaul.store.ownership import DATABASE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence

    from prometheus_client.core import Metric

    from backhaul.alerting.problem import Problem
    from backhaul.app.actions import Action
    from backhaul.app.schedule import Schedule
    from backhaul.core.clock import Clock
    from backhaul.observe.metrics import Metrics
    from backhaul.settings import Settings
    from backhaul.store import Store
    from backhaul.store.operations import Alert, Gauge
    from backhaul.store.operators import PublishedState, Requests
    from backhaul.sync.on_demand import SyncEndpoint

Status: TypeAlias = dict[str, Any]
OF_READING = frozenset(
    {
        "first_read_timestamp_seconds",
        "consistent_as_of_timestamp_seconds",
        "unrepaired_rows",
    }
)
"""Metrics about a store's syncs; they end with the store, or alarms would stay."""


ARCHIVE_SECONDS = 60.0
"""How long an answer about the archive of a server's log is used."""
ARCHIVE_FAILURES = frozenset({"archive_command", "pg_replication_slots"})
"""What of the archive is worth an alert, and not only a line of `doctor`."""


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
        self._archive, self._archive_due = "", 0.0
        self._store = store
        self._gauges = store.gauges
        self._conditions = store.alert_conditions
        self._own_status = status
        self._metrics = metrics
        self._clock = clock
        self._schedule = schedule
        is_ours = partial(store.ownership.owns, DATABASE)
        self._sampler = Sampler(
            store.metric_samples,
            self._current_gauges,
            metrics,
            clock,
            is_ours,
        )
        self._heartbeat = Heartbeat(store.kv, caught_up, metrics, clock)
        self._notifier = Notifier(
            wanted, store.alerts, self.alerts, clock, socket.gethostname(), is_ours
        )

    async def _connections(self) -> list[str]:
        """Return the names of the connections that run."""
        return list((await self.status())["connectors"])

    async def _current_gauges(self) -> Sequence[Gauge]:
        return await self._gauges.current(await self._connections())

    def loops(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """Return the loops that run as long as the daemon."""
        loops = [self._heartbeat.run, self._heartbeat.watch_loop, self._notifier.run]
        return [*loops, self._sampler.run]

    async def status(self) -> Status:
        """Return the status of this daemon, with what the owners of stores publish."""
        own = await self._own_status()
        requests, owns = self._store.requests, self._store.ownership.owns
        if requests is None:
            return own
        published: Sequence[PublishedState] = ()
        with suppress(Busy):  # what this daemon knows of itself is wanted most then
            published = await requests.published()
        return merged(self._settings, published, own, owns)

    def applications(
        self,
        state: Callable[[], str],
        changes: Mapping[str, Action],
        deliveries: Mapping[str, Callable[[], Awaitable[Sequence[Any]]]],
        sync: SyncEndpoint,
    ) -> tuple[web.Application, web.Application]:
        """Return the admin application, and that of the control socket.

        Only a member with the role `admin` serves the dashboard. `state` is what
        /readyz answers. `deliveries` read, per store, the platform's list of webhook
        deliveries.
        """
        own = self.status, changes, self.metrics_text, self.problems
        control = routes.build_app(state, *own)
        control.router.add_get("/api/problems", self.list_problems)
        control.router.add_routes(sync.routes())
        admin = routes.build_app(
            state, self.status, {}, self.metrics_text, self.problems
        )
        if "admin" in self._settings.cluster.roles:
            given = Services(
                self._settings,
                self._clock,
                self.status,
                self.problems,
                changes,
                self._store,
                deliveries,
            )
            routes.install(admin, given)
        return admin, control

    def activity(self) -> dict[str, Mapping[str, float]]:
        """Return the rates per minute, and how many objects are mirrored."""
        return {"rates": self._sampler.rates(), "mirrored": self._sampler.mirrored}

    async def metrics_text(self) -> bytes:
        """Return the metrics in the text format of Prometheus."""
        return self._metrics.render(await self._all_gauges())

    async def metric_families(self) -> list[Metric]:
        """Return the same metrics as values, for an export."""
        return self._metrics.families(await self._all_gauges())

    async def _all_gauges(self) -> list[GaugeValue]:
        """Return the gauges of this daemon; one daemon adds those of the database.

        Those of the database are missing while it cannot be read.
        """
        live = readings(await self._own_status(), self._heartbeat.last_beat)
        ownership = self._store.ownership
        try:
            live += cluster(await ownership.members(), await ownership.owners())
            if ownership.owns(DATABASE):  # or a sum would count it for each member
                live += await self._stored_gauges()
        except Busy as error:  # what this process knows is most wanted then
            logger.bind(action="metrics.incomplete").warning("{}", error)
        return live

    async def _stored_gauges(self) -> list[GaugeValue]:
        return [
            GaugeValue(*gauge)
            for gauge in await self._current_gauges()
            # A store that was removed from the settings is no longer compared.
            if gauge[0] not in OF_READING or gauge[2][0] in self._settings.stores
        ]

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
            status=await self.status(),
            conditions=await self._conditions.current(instances),
            drift_rows=self._wanted.drift_rows,
            silence=self._silence,
            now=self._clock.now().timestamp(),
            backups_missed=partial(self._schedule.missed_twice, BACKUP),
            free_bytes=shutil.disk_usage(self._settings.data_folder).free,
            archive=await self._archive_failure(),
        )

    async def _archive_failure(self) -> str:
        """Return why a server cannot archive its log, as of the last minute."""
        now = self._clock.monotonic()
        if isinstance(self._settings.place, str) and now >= self._archive_due:
            self._archive_due = now + ARCHIVE_SECONDS
            with suppress(BackhaulError):  # it is away: others say so
                read = database_at(self._settings.place).archiving
                _, wrong = await asyncio.to_thread(read)
                serious = (str(each) for each in wrong if each.key in ARCHIVE_FAILURES)
                self._archive = next(serious, "")
        return self._archive


PUBLISH_SECONDS = 1.0
LONGEST_PUBLISH_SECONDS = 5.0
PUBLISH_SHARE = 0.01
"""How much of its time a daemon of thousands of stores collects their states."""
BY_STORE = ("stores", "subscriptions")
BY_CONNECTOR = ("connectors", "news")
BY_JOB = ("jobs", "plans", "rules")
OF_DAEMON = ("rates", "mirrored")


def split(settings: Settings, status: Mapping[str, Any]) -> dict[str, Status]:
    """Return the published parts of a status by store, and those of the whole."""
    stores = {name: each.store for name, each in settings.connectors.items()}
    polling = {polling_job(name): store for name, store in stores.items()}

    def store_of(section: str, name: str) -> str:
        if section in BY_CONNECTOR:
            return stores[name]
        if section in BY_JOB:
            return name.partition(":")[2] or polling.get(name, DATABASE)
        return name if section in BY_STORE else DATABASE

    parts: dict[str, Status] = defaultdict(dict)
    for section in (*BY_STORE, *BY_CONNECTOR, *BY_JOB, *OF_DAEMON):
        for name, value in status[section].items():
            parts[store_of(section, name)].setdefault(section, {})[name] = value
    return parts


def merged(
    settings: Settings,
    states: Sequence[PublishedState],
    own: Status,
    owns: Callable[[str], bool],
) -> Status:
    """Return a status with what others published, and `own` for what is owned here."""
    sections = (*BY_STORE, *BY_CONNECTOR, *BY_JOB, *OF_DAEMON)
    status = {**own, **unpublished(settings)}
    others = [each for each in states if not owns(each.store)]
    parts = [msgspec.json.decode(each.content) for each in others]
    parts += [part for store, part in split(settings, own).items() if owns(store)]
    for part in parts:
        for section in sections:
            status[section] |= part.get(section, {})
    known = {DATABASE, *settings.stores}
    silent = [x.store for x in others if x.store in known and not x.is_alive]
    owned = [store for store in settings.stores if owns(store)]
    standby = "" if owned else _standby_text(others)
    return {**status, "standby": standby, "ownerless": silent}


class StatePublisher:
    """Publishes the status of the stores owned here, when it has changed."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        requests: Requests,
        status: Callable[[], Awaitable[dict[str, Any]]],
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._owns = store.ownership.owns
        self._requests = requests
        self._status = status
        self._clock = clock
        self._published: dict[str, bytes] = {}

    async def run(self) -> None:
        """Publish until cancelled."""
        while True:
            began = self._clock.monotonic()
            parts = split(self._settings, await self._status())
            states = {
                store: msgspec.json.encode(each)
                for store, each in parts.items()
                if self._owns(store)
            }
            rest = (self._clock.monotonic() - began) / PUBLISH_SHARE
            changed = dict(states.items() - self._published.items())
            self._published = {n: s for n, s in self._published.items() if n in states}
            if changed:
                try:
                    await self._requests.publish(changed)
                except Busy as error:
                    logger.bind(action="request.busy").debug("{}", error)
                else:
                    self._published |= changed
            rest = min(max(PUBLISH_SECONDS, rest), LONGEST_PUBLISH_SECONDS)
            await self._clock.sleep(rest)


def _standby_text(states: Sequence[PublishedState]) -> str:
    owners = sorted({each.host for each in states if each.is_alive})
    if owners:
        return (
            "This daemon is a standby: it owns no store. The owners are on"
            f" {', '.join(owners)}. You see their state here, and your requests go to"
            " them"
        )
    return (
        "No daemon owns a store now. The states of stores, connectors and jobs are the"
        f" last known ones. A change waits up to {BEGIN_SECONDS:g} s for an owner"
    )


def unpublished(settings: Settings) -> Status:
    """Return the sections of a status before an owner has published them."""
    stopped = {ALL: "not known yet, because no owner has published its state"}
    names = [name for name, each in settings.connectors.items() if each.enabled]
    return {
        "stores": {
            name: {"sending": 0, "stopped": stopped, "paused": None}
            for name in settings.stores
        },
        "news": {name: {"up": None, "reason": None} for name in names},
        "plans": jobs.plans(settings),
        "rules": jobs.rules(settings),
        "dry_run": settings.dry_run_connections,
        "rates": dict.fromkeys(RATES, 0.0),
        **{name: {} for name in ("subscriptions", "connectors", "jobs", "mirrored")},
    }
