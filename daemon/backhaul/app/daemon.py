"""Builds every part of the daemon once and starts and stops them in order."""

from __future__ import annotations

import asyncio
import contextlib
import random
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from loguru import logger
from msgspec import Struct, field

from backhaul.app import cluster, requests, sockets, telemetry
from backhaul.app import public_http as public_site
from backhaul.app.actions import ActionContext
from backhaul.app.cluster import OwnedStores
from backhaul.app.control_socket import SOCKET_NAME
from backhaul.app.jobs import Jobs
from backhaul.app.monitoring import Monitoring
from backhaul.app.public_http import RequestLimits
from backhaul.app.receivers import Receivers
from backhaul.app.reload import Reloader
from backhaul.app.schedule import Schedule
from backhaul.app.store_actions import test_connection
from backhaul.app.store_runtime import ProcessParts, ShopsView, StoreRuntime
from backhaul.app.systemd import ServiceManager
from backhaul.app.wiring import (
    Shared,
    build_receiving,
    load_secrets,
    unsigned_stores,
)
from backhaul.connect import registry
from backhaul.connect.host import poll_now
from backhaul.connect.http_routes import ConnectorRoutes
from backhaul.connect.quarantine_retry import UnmatchedRetry
from backhaul.connect.record_matching import Matcher
from backhaul.connect.submissions import Submissions
from backhaul.core.clock import SystemClock, is_cancelled, to_text
from backhaul.errors import Busy
from backhaul.ingest.fold_worker import FoldWorker, Reprocessor
from backhaul.maintenance.database_jobs import BackupPlan, BackupWorker, Pruner
from backhaul.maintenance.search_indexer import Indexer
from backhaul.observe.metrics import Metrics
from backhaul.runtime.loop import Loop, retry_while_busy
from backhaul.runtime.signals import SharedSignals
from backhaul.store import open_store
from backhaul.store.database import sole_writer

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable

    import httpx
    from aiohttp import web

    from backhaul.app.wiring import Shop
    from backhaul.connect.host import Host
    from backhaul.core.clock import Clock
    from backhaul.observe.otel.telemetry import Telemetry
    from backhaul.platform.client import StoreFacts
    from backhaul.runtime.tracing import Tracer
    from backhaul.settings import Settings
    from backhaul.store import OpenStore, Store

Run: TypeAlias = "Callable[[], Coroutine[Any, Any, None]]"
LISTENERS = ("public", "admin")
"""The names of the sockets that a service manager may bind for the daemon."""


class Environment(Struct, frozen=True):
    """What the daemon runs on. Tests replace it; `transport` is HTTP to the stores."""

    clock: Clock = field(default_factory=SystemClock)
    chance: Callable[[], float] = random.SystemRandom().random
    transport: httpx.AsyncBaseTransport | None = None
    open: OpenStore = open_store


class Daemon:
    """The whole daemon.

    `hide` receives new secrets at run time, so that no log shows them. `read` loads
    the configuration again.
    """

    def __init__(
        self,
        settings: Settings,
        environment: Environment | None = None,
        *,
        hide: Callable[[Iterable[str]], None] = lambda _: None,
        read: Callable[[], Settings] | None = None,
        supervisor: ServiceManager | None = None,
    ) -> None:
        environment = environment or Environment()
        self._settings = settings
        self._read = read or (lambda: settings)
        self._supervisor = supervisor or ServiceManager({}, 0)
        self._clock = environment.clock
        self._chance = environment.chance
        self._environment = environment
        self._stopping = asyncio.Event()
        self._reloading = Loop(self._clock, at_start=False)
        self._facts: dict[str, StoreFacts] = {}
        self._hide = hide
        self._shops: dict[str, Shop] = {}
        self._stores: OwnedStores | None = None
        self._has_database = asyncio.Event()
        self._routes = ConnectorRoutes()
        self._signals = SharedSignals()
        self._matcher = Matcher(self._clock, settings.connect.match_wait)
        self._schedule = Schedule(self._clock, self._chance)
        self._telemetry: Telemetry | None = None
        self._started_at = to_text(self._clock.now())
        self.metrics = Metrics()
        self._receivers = Receivers(settings, self._clock, self.metrics, self._stopping)
        self.ready = asyncio.Event()
        self.public_url = ""
        self.admin_url = ""

    def stop(self) -> None:
        """Stop `run`: send nothing new, and finish the requests that are under way."""
        self._stopping.set()

    def reload(self) -> None:
        """Ask for the configuration to be read again."""
        self._reloading.wake()

    def poll_stores(self) -> None:
        """Poll every store now, as the scheduled job does."""
        for shop in self._shops.values():
            shop.reconciler.request_poll()

    @property
    def _tracer(self) -> Tracer | None:
        return None if self._telemetry is None else self._telemetry.tracer

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stopping.is_set()

    async def run(self) -> None:
        """Run until stopped. Raises Fatal when it cannot start."""
        settings = self._settings
        with sole_writer(settings.state_dir), contextlib.ExitStack() as bound:
            await self._receivers.end_orphans()
            public, admin = self._bind(bound)
            self.public_url = "" if public is None else sockets.url_of(public)
            self.admin_url = sockets.url_of(admin)
            exporting = telemetry.exporting(settings.telemetry, self.metrics)
            async with exporting as self._telemetry, self._opened() as store:
                given = settings, store, self._clock, self.metrics, self._hide
                self._receiving = build_receiving(*given, self._tracer)
                if (forwarder := self._receiving.forwarder) is not None:
                    self._routes = ConnectorRoutes(forwarder.forward)
                async with cluster.receiving(self._receiving):
                    await self._serve(store, public, admin)
        logger.bind(action="daemon.stopped").info("stopped")

    def _bind(
        self, bound: contextlib.ExitStack
    ) -> tuple[socket.socket | None, socket.socket]:
        """Bind the listeners; the public one only if the roles need it."""
        settings = self._settings
        handed = self._supervisor.sockets(LISTENERS)
        public = handed.get("public")
        if not self._serves_public():
            if public is not None:
                public.close()
            public = None
        elif public is None:
            given = settings.public
            public = sockets.bind_tcp(given.host, given.port, "public")
        if public is not None:
            bound.enter_context(contextlib.closing(public))
        admin = handed.get("admin") or sockets.bind_tcp(
            settings.admin.host, settings.admin.port, "admin"
        )
        return public, bound.enter_context(contextlib.closing(admin))

    def _serves_public(self) -> bool:
        """Return whether webhooks, or requests for connections, may arrive here."""
        settings, roles = self._settings, self._settings.cluster.roles
        running = {n: settings.connectors[n] for n in settings.enabled_connectors}
        return "receiver" in roles or ("worker" in roles and registry.listens(running))

    def _public_routes(self) -> list[web.RouteDef]:
        is_receiver = "receiver" in self._settings.cluster.roles
        webhooks = self._receiving.receiver.routes() if is_receiver else []
        return [*webhooks, self._routes.route()]

    @contextlib.asynccontextmanager
    async def _opened(self) -> AsyncIterator[Store]:
        settings, notify = self._settings, self._supervisor.busy
        member = cluster.joining(settings, self.public_url, self.admin_url)
        store = self._environment.open(settings.place, self._clock, notify, member)
        store.start()
        try:
            async with cluster.kept(store):
                yield store
        finally:
            if self._stores is not None:
                await self._stores.close()
            await store.stop()

    async def _serve(
        self, store: Store, public: socket.socket | None, admin: socket.socket
    ) -> None:
        """Start the inner parts first; at the stop, stop the outer parts first."""
        self._jobs = Jobs(self._settings, store.job_runs, self._clock, self._schedule)
        fold_worker, ownership = self._build_process(store), store.ownership
        given = ownership, self._settings, self._clock, self._stopping
        if not await cluster.join(*given):
            return
        if not ownership.is_shared:
            await store.commands.begin_epoch()
        receiving = self._receiving
        await load_secrets(self._settings, receiving.signers, receiving.keyrings)
        receiving.arrived.connect(fold_worker.wake)
        await self._receivers.move_left(store.inbox)
        self._connect_signals()
        stores = self._stores = self._owned_stores(store, fold_worker)
        self._shops = stores.shops
        await stores.start()
        if self.stopping:
            return
        for name, said in self._unsigned().items():
            logger.bind(action="secrets.none", store=name).error(
                "store {}: {}", name, said
            )
        reloader = Reloader(
            self._settings,
            self._read,
            self._shops,
            self._receiving.signers,
            self._jobs,
            self._backer,
            self._supervisor,
        )
        applications, serving = self._applications(store)
        async with (
            self._tasks(store, stores, fold_worker, reloader, serving),
            self._listeners(applications, public, admin),
        ):
            await stores.wait_ready()
            self.ready.set()
            logger.bind(action="daemon.started").info(
                "receives at {}, dashboard at {}", self.public_url, self.admin_url
            )
            if ownership.is_shared and not self._shops:
                logger.bind(action="daemon.standby").info(
                    "this daemon owns no store; its roles: {}",
                    ", ".join(self._settings.cluster.roles),
                )
            self._supervisor.ready(f"receives at {self.public_url}")
            await self._stopping.wait()
            self._supervisor.stopping()
            logger.bind(action="daemon.stopping").info("stopping")

    def _build_process(self, store: Store) -> FoldWorker:
        """Build the parts that the daemon has once, whatever stores it owns."""
        fold_worker = FoldWorker(
            store.inbox,
            self._clock,
            self._facts,
            self._signals,
            self.metrics,
            self._tracer,
        )
        self._monitoring = Monitoring(
            self._settings,
            store,
            fold_worker.caught_up,
            self._status,
            self.metrics,
            self._clock,
            self._schedule,
        )
        jobs, settings = self._jobs, self._settings
        days = settings.database.retention_days
        self._pruner = Pruner(
            store.retention, days, self._clock, jobs.reporter("prune")
        )
        keep, folder = settings.jobs.backup.keep, settings.backup_folder
        plan = BackupPlan(settings.place, folder, keep)
        self._backer = BackupWorker(
            plan, self._clock, jobs.reporter("backup"), self._receivers.move_all
        )
        self._indexer = Indexer(store.search, self._clock)
        self._waiting = UnmatchedRetry(
            store.records, self._matcher, self._clock, self._signals
        )
        return fold_worker

    def _owned_stores(self, store: Store, fold_worker: FoldWorker) -> OwnedStores:
        """Build what runs the parts of the stores that this daemon owns."""
        shared = Shared(
            store,
            fold_worker,
            self._facts,
            self._receiving.signers,
            self._receiving.keyrings,
            self._hide,
            self._environment.transport,
        )
        process = ProcessParts(
            self._settings,
            shared,
            self._facts,
            self._clock,
            self._chance,
            self.metrics,
            self._jobs,
            self._signals,
            self._matcher,
            self._waiting.wake,
            self._routes,
            self._tracer,
        )
        return OwnedStores(
            store.ownership,
            self._clock,
            partial(StoreRuntime, process=process),
            partial(self._begin_on_database, store),
            self._stopping,
        )

    async def _begin_on_database(self, store: Store) -> None:
        """Begin the duties of the whole database, which one daemon has."""
        for left in await store.orphaned_work(self._settings.stores):
            logger.bind(action="store.stranded", store=left.store).error(
                "the configuration has no store {}, but the database has its {}: {}",
                *(left.store, left, left.remedy),
            )
        await store.deliveries.retire(registry.receivers(self._settings))
        self._jobs.does("prune", "", self._pruner.wake)
        self._jobs.does("backup", "", self._backer.wake)
        await self._jobs.load("", alone=not store.ownership.is_shared)
        self._has_database.set()

    async def _run_on_database(self) -> None:
        """Run what one daemon does for the whole database, once it is this one."""
        await self._has_database.wait()
        async with asyncio.TaskGroup() as group:
            for run in (self._pruner.run, self._backer.run):
                group.create_task(retry_while_busy(run, self._clock))

    @property
    def _hosts(self) -> list[Host]:
        """The connections that run here now."""
        runtimes = self._stores.runtimes if self._stores is not None else {}
        return [host for runtime in runtimes.values() for host in runtime.hosts]

    def _wake_records(self, store: str) -> None:
        if (shop := self._shops.get(store)) is not None:
            shop.sender.context.signals.records_accepted.emit()

    def _unsigned(self) -> dict[str, str]:
        live = self._receiving.signers.live()
        return unsigned_stores(self._shops, live, self.public_url)

    def _connect_signals(self) -> None:
        """Let what one part does wake the parts of all stores with work after it."""
        signals, retry = self._signals, self._waiting.wake
        signals.search_changed.connect(self._indexer.wake)
        signals.events_folded.connect(self._indexer.wake, retry)
        # A command that an order or variant was missing for may be planned now.
        signals.records_accepted.connect(retry)
        signals.operator_decided.connect(retry)

    def _applications(
        self, store: Store
    ) -> tuple[tuple[web.Application, web.Application], list[Run]]:
        """Return the admin and the control application, and loops beside them."""
        given = ActionContext(
            store,
            self._clock,
            self._receiving.signers,
            Reprocessor(store.reprocessing, self._facts, self._signals),
            self._signals,
            ShopsView(self._shops, lambda shop: shop.sender.dialect),
            self._jobs,
            lambda name: poll_now(self._hosts, name),
            Submissions(store.records, self._matcher, self._wake_records, self._tracer),
            ShopsView(self._shops, lambda shop: shop.subscription),
            partial(test_connection, self._settings),
            ShopsView(self._shops, lambda shop: shop.reconciler.orders),
            self._receivers,
        )
        assert self._stores is not None  # noqa: S101 - it is built before
        parts = given, self._shops, self._stores.using, self._monitoring
        return requests.site(self._settings, *parts, self._status, self.ready.is_set)

    @contextlib.asynccontextmanager
    async def _tasks(
        self,
        store: Store,
        stores: OwnedStores,
        fold_worker: FoldWorker,
        reloader: Reloader,
        serving: Iterable[Run],
    ) -> AsyncIterator[None]:
        """Run every loop; at the stop, let the stores finish and cancel the rest."""
        loops = [fold_worker.run, self._waiting.run, self._indexer.run]
        loops += [self._run_on_database, self._receiving.signers.run]
        loops += [self._schedule.watch, partial(self._reloading.run, reloader.run)]
        families = self._monitoring.metric_families
        exports = telemetry.loops(self._telemetry, families, self._clock)
        loops += [*self._monitoring.loops(), *serving, *exports]
        loops += [
            partial(cluster.watch_durability, self._settings, self._clock),
            partial(store.ownership.watch_arrivals, fold_worker.wake),
        ]
        if self._supervisor.watchdog_seconds:
            loops.append(partial(self._supervisor.feed, store, self._clock))
        async with asyncio.TaskGroup() as group:
            # What the database refused to one part must not end the others.
            kept = [retry_while_busy(run, self._clock) for run in loops]
            endless = [group.create_task(each) for each in kept]
            running = group.create_task(stores.run())
            self._schedule.start()
            try:
                yield
            finally:
                self._schedule.stop()
                self.stop()
                if not is_cancelled():  # a repeated stop request skips the waiting
                    await asyncio.wait([running])
                for task in (running, *endless):
                    task.cancel()
                with contextlib.suppress(Busy):
                    await asyncio.gather(
                        self._jobs.close(), self._receiving.signers.save()
                    )

    @contextlib.asynccontextmanager
    async def _listeners(
        self,
        applications: tuple[web.Application, web.Application],
        public: socket.socket | None,
        admin: socket.socket,
    ) -> AsyncIterator[None]:
        limits = self._settings.public
        path = self._settings.state_dir / SOCKET_NAME
        arrivals = RequestLimits.of(limits, self._receiving.answers.add_at)
        routes = self._public_routes()
        public = self._receivers.take_public_socket(public)
        public_app = public_site.build(routes, limits.max_body_bytes, arrivals)
        admin_app, own_app = applications
        self.served = {"public": public_app, "admin": admin_app, "control": own_app}
        bad = self.metrics.counter("bad_requests_total")
        listen = partial(sockets.Listener, bad_requests=bad)
        served = [
            (listen(public_app, limits.max_connections, arrivals), public),
            (listen(admin_app), admin),
            (listen(own_app), sockets.bind_unix(path)),
        ]
        try:
            receiving = self._receivers.running(self._receiving)
            async with sockets.serving(served), receiving:
                yield
        finally:
            path.unlink(missing_ok=True)

    def _own_status(self) -> dict[str, Any]:
        """Return what every daemon knows of itself."""
        return {
            "started_at": self._started_at,
            "public_url": self.public_url,
            "admin_url": self.admin_url,
            "dry_run": self._settings.dry_run_connections,
            "refused": self._receiving.answers.refused(),
            "spooled": self._receiving.spooled,
            "receivers": self._receivers.state(),
        }

    async def _status(self) -> dict[str, Any]:
        return {
            **self._own_status(),
            **self._monitoring.activity(),
            **self._jobs.status(),
            "stores": {n: s.sender.dispatcher.state() for n, s in self._shops.items()},
            "subscriptions": self._unsigned()
            | {
                name: shop.subscription.state()
                for name, shop in self._shops.items()
                if shop.subscription is not None
            },
            "connectors": {
                host.connector.instance: host.state() for host in self._hosts
            },
            "news": {
                sink.instance: sink.state()
                for runtime in (self._stores.runtimes if self._stores else {}).values()
                for sink in runtime.sinks
            },
        }
