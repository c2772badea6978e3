"""Builds every part of the daemon once and starts and stops them in order."""

from __future__ import annotations

import asyncio
import contextlib
import random
from functools import partial
from typing import TYPE_CHECKING, Any

from loguru import logger
from msgspec import Struct, field

from backhaul.admin import routes as admin_site
from backhaul.app import cluster, sockets
from backhaul.app import public_http as public_site
from backhaul.app.actions import ActionContext, actions
from backhaul.app.cluster import Standby
from backhaul.app.control_socket import SOCKET_NAME
from backhaul.app.first_contact import FirstContact, mark_interrupted
from backhaul.app.jobs import Jobs
from backhaul.app.monitoring import Monitoring
from backhaul.app.public_http import RequestLimits
from backhaul.app.reload import Reloader
from backhaul.app.schedule import Schedule
from backhaul.app.systemd import ServiceManager
from backhaul.app.wiring import (
    Shared,
    build_receiving,
    build_secret_files,
    build_shop,
    load_secrets,
    unsigned_stores,
)
from backhaul.connect import delivery_worker, registry
from backhaul.connect.host import START_SECONDS, Host, listen_all, poll_now
from backhaul.connect.polling import PollSchedule
from backhaul.connect.quarantine_retry import UnmatchedRetry
from backhaul.connect.record_matching import Matcher
from backhaul.core.clock import SystemClock, is_cancelled, to_text
from backhaul.errors import Busy
from backhaul.ingest.fold_worker import FoldWorker, Reprocessor
from backhaul.maintenance.backup import BackupPlan, BackupWorker
from backhaul.maintenance.retention import Pruner
from backhaul.maintenance.search_indexer import Indexer
from backhaul.observe.metrics import Metrics
from backhaul.push.dispatcher import end_sending
from backhaul.runtime.loop import Loop, retry_while_busy
from backhaul.runtime.signals import SharedSignals, StoreContext, StoreSignals
from backhaul.settings.jobs import polling_job
from backhaul.store import open_store
from backhaul.store.database import sole_writer
from backhaul.sync.on_demand import SyncEndpoint

if TYPE_CHECKING:
    import socket
    from collections.abc import (
        AsyncIterator,
        Callable,
        Coroutine,
        Iterable,
    )

    import httpx
    from aiohttp import web

    from backhaul.app.wiring import Shop
    from backhaul.connect.delivery_worker import DeliveryWorker
    from backhaul.core.clock import Clock
    from backhaul.platform.client import StoreFacts
    from backhaul.runtime.signals import Lease
    from backhaul.settings import Settings
    from backhaul.store import OpenStore, Store

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
        self._http = environment.transport
        self._open = environment.open
        self._stopping = asyncio.Event()
        self._reloading = Loop(self._clock, at_start=False)
        self._facts: dict[str, StoreFacts] = {}
        self._hide = hide
        self._secret_files = build_secret_files(settings, hide)
        self._shops: dict[str, Shop] = {}
        self._hosts: list[Host] = []
        self._sinks: list[DeliveryWorker] = []
        self._signals = SharedSignals()
        self._matcher = Matcher(self._clock, settings.connect.match_wait)
        self._schedule = Schedule(self._clock, self._chance)
        self._started_at = to_text(self._clock.now())
        self.metrics = Metrics()
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
    def stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stopping.is_set()

    async def run(self) -> None:
        """Run until stopped. Raises Fatal when it cannot start."""
        settings = self._settings
        with sole_writer(settings.state_dir):
            handed = self._supervisor.sockets(LISTENERS)
            public = handed.get("public") or sockets.bind_tcp(
                settings.public.host, settings.public.port, "public"
            )
            admin = handed.get("admin") or sockets.bind_tcp(
                settings.admin.host, settings.admin.port, "admin"
            )
            with contextlib.closing(public), contextlib.closing(admin):
                self.public_url = sockets.url_of(public)
                self.admin_url = sockets.url_of(admin)
                async with self._opened() as store:
                    self._receiving = build_receiving(store, self._clock, self.metrics)
                    async with self._stand_by(store, public, admin) as is_owner:
                        if is_owner:
                            await self._serve(store, public, admin)
        logger.bind(action="daemon.stopped").info("stopped")

    @contextlib.asynccontextmanager
    async def _opened(self) -> AsyncIterator[Store]:
        settings, notify = self._settings, self._supervisor.busy
        member = cluster.joining(settings, self.public_url, self.admin_url)
        store = self._open(settings.place, self._clock, notify, member)
        store.start()
        try:
            async with cluster.kept(store.ownership):
                yield store
        finally:
            for host in self._hosts:
                await host.close()
            for shop in self._shops.values():
                await shop.client.transport.close()
            await store.stop()

    @contextlib.asynccontextmanager
    async def _stand_by(
        self, store: Store, public: socket.socket, admin: socket.socket
    ) -> AsyncIterator[bool]:
        """Yield True once this daemon may write; receive webhooks until it does."""
        standby = self._standby = Standby(
            self._settings, store, self._clock, self._receiving
        )
        async with standby:
            if await standby.take():
                yield True
                return
            signers = self._receiving.signers
            await load_secrets(self._settings, signers, self._secret_files)
            await standby.serve(public, admin)
            self.ready.set()
            self._supervisor.ready("standby: receives webhooks")
            yield await standby.wait_until_owner(self._stopping)

    async def _serve(
        self, store: Store, public: socket.socket, admin: socket.socket
    ) -> None:
        """Start the inner parts first; at the stop, stop the outer parts first."""
        self._jobs = Jobs(self._settings, store.job_runs, self._clock, self._schedule)
        fold_worker = self._build_shops(store)
        await mark_interrupted(store, self._settings.stores)
        self._first_contact = FirstContact(
            self._settings, self._shops, store.kv, self._facts
        )
        if not await self._first_contact.first(self._stopping):
            return
        await load_secrets(self._settings, self._receiving.signers, self._secret_files)
        for name, said in self._unsigned().items():
            logger.bind(action="secrets.none", store=name).error(
                "store {}: {}", name, said
            )
        self._build_workers(store)
        await delivery_worker.subscribe_all(self._sinks, store.deliveries)
        self._receiving.arrived.connect(fold_worker.wake)
        routes = self._receiving.receiver.routes()
        routes += await listen_all(self._hosts, START_SECONDS)
        self._connect_signals()
        self._connect_jobs()
        await self._jobs.load()
        reloader = Reloader(
            self._settings,
            self._read,
            self._shops,
            self._receiving.signers,
            self._jobs,
            self._backer,
            self._supervisor,
        )
        async with (
            self._tasks(store, fold_worker, reloader),
            self._listeners(store, routes, public, admin),
        ):
            await self._standby.end()
            self.ready.set()
            logger.bind(action="daemon.started").info(
                "receives at {}, admin at {}", self.public_url, self.admin_url
            )
            self._supervisor.ready(f"receives at {self.public_url}")
            await self._stopping.wait()
            self._supervisor.stopping()
            logger.bind(action="daemon.stopping").info("stopping")

    def _build_shops(self, store: Store) -> FoldWorker:
        fold_worker = FoldWorker(
            store.inbox,
            self._clock,
            self._facts,
            self._signals,
            self.metrics,
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
        shared = Shared(
            store,
            fold_worker,
            self._facts,
            self._receiving.signers,
            self._secret_files,
            self._hide,
            self._http,
        )
        for name in self._settings.stores:
            context = self._context(name, store.ownership.lease)
            self._shops[name] = build_shop(self._settings, context, shared)
        return fold_worker

    def _context(self, name: str, lease: Lease) -> StoreContext:
        signals = StoreSignals()
        count = self.metrics.counter("commands_total")

        def reached(kind: str, state: str) -> None:
            count[name, kind, state] += 1

        signals.state_reached.connect(reached)
        signals.request_ended.connect(partial(self.metrics.count_request, name))
        report = partial(self._jobs.report, name)
        return StoreContext(name, self._clock, self._chance, signals, report, lease)

    def _build_workers(self, store: Store) -> None:
        """Build the maintenance workers and the connections."""
        jobs, settings = self._jobs, self._settings
        days = settings.database.retention_days
        self._pruner = Pruner(
            store.retention, days, self._clock, jobs.reporter("prune")
        )
        keep, folder = settings.jobs.backup.keep, settings.backup_folder
        plan = BackupPlan(settings.place, folder, keep)
        self._backer = BackupWorker(plan, self._clock, jobs.reporter("backup"))
        self._indexer = Indexer(store.search, self._clock)
        self._waiting = UnmatchedRetry(
            store.records, self._matcher, self._clock, self._signals
        )
        self._hosts = [self._host(n, store) for n in settings.enabled_connectors]
        self._sinks = delivery_worker.delivery_workers(
            settings, self._hosts, store.deliveries, self._clock, self._chance
        )

    def _host(self, name: str, store: Store) -> Host:
        settings = self._settings.connectors[name]
        return Host(
            registry.build(name, settings.type, settings.options),
            self._shops[settings.store].sender.context,
            PollSchedule(self._clock, None),
            store.records,
            store.documents,
            self._matcher,
            self._jobs.reporter(polling_job(name)),
        )

    async def _ask_connector(self, name: str) -> dict[str, int]:
        return await poll_now(self._hosts, name)

    def _unsigned(self) -> dict[str, str]:
        live = self._receiving.signers.live()
        return unsigned_stores(self._shops, live, self.public_url)

    def _connect_jobs(self) -> None:
        """Connect each scheduled job with the part that does its work."""
        jobs = self._jobs
        jobs.does("prune", "", self._pruner.wake)
        jobs.does("backup", "", self._backer.wake)
        for name, shop in self._shops.items():
            reading = shop.reconciler
            jobs.sends(name, shop.sender.dispatcher)
            jobs.does("reconcile_incremental", name, reading.request_poll)
            jobs.does("reconcile_full", name, reading.request_full_sync)
            jobs.does("audit", name, shop.sender.auditor.wake)
        for host in self._hosts:
            jobs.polls(host.connector.instance, host.polls)

    def _connect_signals(self) -> None:
        """Let what one part does wake the parts that have work after it."""
        signals = self._signals
        signals.search_changed.connect(self._indexer.wake)
        signals.events_folded.connect(self._indexer.wake)
        sinks = [sink.wake for sink in self._sinks]
        signals.events_folded.connect(*sinks)
        signals.operator_decided.connect(*sinks)
        # A command that an order or variant was missing for may be planned now.
        planning = signals.events_folded, signals.records_accepted
        for signal in (*planning, signals.operator_decided):
            signal.connect(self._waiting.wake)
        for shop in self._shops.values():
            changed = shop.sender.context.signals.command_changed.emit
            for signal in (*planning, signals.operator_decided):
                signal.connect(changed)
            signals.operator_decided.connect(shop.sender.resolver.wake)
            signals.conflict_found.connect(shop.refetcher.wake)
            shop.sender.context.signals.records_accepted.connect(
                self._waiting.wake, changed
            )

    @contextlib.asynccontextmanager
    async def _tasks(
        self, store: Store, fold_worker: FoldWorker, reloader: Reloader
    ) -> AsyncIterator[None]:
        """Run every loop; at the stop, finish the dispatchers and cancel the rest."""
        loops = [fold_worker.run, self._waiting.run, self._indexer.run]
        loops += [self._pruner.run, self._backer.run, self._receiving.signers.run]
        loops += [self._schedule.watch, partial(self._reloading.run, reloader.run)]
        loops += [store.watch, *self._monitoring.loops()]
        loops += [
            partial(cluster.watch_durability, self._settings, self._clock),
            partial(store.ownership.watch_arrivals, fold_worker.wake),
        ]
        if self._supervisor.watchdog_seconds:
            loops.append(partial(self._supervisor.feed, store, self._clock))
        loops += [host.run for host in self._hosts]
        self._matcher.hold(self._shops)
        loops += [partial(self._catch_up, name, fold_worker) for name in self._shops]
        loops += [partial(self._first_contact.again, name) for name in self._shops]
        loops += [shop.refetcher.run for shop in self._shops.values()]
        loops += [shop.reconciler.run for shop in self._shops.values()]
        loops += [shop.target_worker.run for shop in self._shops.values()]
        looks = [shop.sender.resolver.run for shop in self._shops.values()]
        loops += [shop.sender.auditor.run for shop in self._shops.values()]
        async with asyncio.TaskGroup() as group:

            def start(
                runs: Iterable[Callable[[], Coroutine[Any, Any, None]]],
            ) -> list[asyncio.Task[None]]:
                # What the database refused to one part must not end the others.
                kept = [retry_while_busy(run, self._clock) for run in runs]
                return [group.create_task(each) for each in kept]

            endless = start(loops)
            sinks = start(sink.run for sink in self._sinks)
            dispatchers = [shop.sender.dispatcher for shop in self._shops.values()]
            senders = start(one.run for one in dispatchers)
            looking = start(looks)
            ending = group.create_task(
                end_sending(self._stopping, dispatchers, senders, looking)
            )
            self._schedule.start()
            try:
                yield
            finally:
                self._schedule.stop()
                self.stop()
                if not is_cancelled():  # a repeated stop request skips the waiting
                    await ending
                    await delivery_worker.stop_all(self._sinks, sinks)
                for task in (*senders, *endless, *sinks):
                    task.cancel()
                with contextlib.suppress(Busy):
                    await asyncio.gather(
                        self._jobs.close(), self._receiving.signers.save()
                    )

    async def _catch_up(self, name: str, fold_worker: FoldWorker) -> None:
        """Let waiting records expire only after the mirror is up to date."""
        await self._shops[name].reconciler.filled.wait()
        await fold_worker.caught_up()
        self._matcher.release(name)
        self._shops[name].refetcher.release()

    @contextlib.asynccontextmanager
    async def _listeners(
        self,
        store: Store,
        routes: list[web.RouteDef],
        public: socket.socket,
        admin: socket.socket,
    ) -> AsyncIterator[None]:
        limits = self._settings.public
        path = self._settings.state_dir / SOCKET_NAME
        arrivals = RequestLimits.of(limits, self._receiving.answers.add_at)
        public_app = public_site.build(routes, limits.max_body_bytes, arrivals)
        metrics = self._monitoring.metrics_text
        problems = self._monitoring.problems
        admin_app = admin_site.build_app(
            self.ready.is_set, self._status, {}, metrics, problems
        )
        parts = ActionContext(
            store,
            self._clock,
            self._receiving.signers,
            Reprocessor(store.reprocessing, self._facts, self._signals),
            self._signals,
            {name: shop.sender.dialect for name, shop in self._shops.items()},
            self._jobs,
            self._ask_connector,
        )
        changing = actions(parts)
        self._monitoring.serve_people(admin_app, changing, self._shops)
        own_app = admin_site.build_app(
            self.ready.is_set, self._status, changing, metrics, problems
        )
        own_app.router.add_get("/api/problems", self._monitoring.list_problems)
        reconcilers = {name: shop.reconciler for name, shop in self._shops.items()}
        own_app.router.add_routes(SyncEndpoint(reconcilers).routes())
        self.served = {"public": public_app, "admin": admin_app, "control": own_app}
        bad = self.metrics.counter("bad_requests_total")
        listen = partial(sockets.Listener, bad_requests=bad)
        served = [
            (listen(public_app, limits.max_connections, arrivals), public),
            (listen(admin_app), admin),
            (listen(own_app), sockets.bind_unix(path)),
        ]
        try:
            async with sockets.serving(served):
                yield
        finally:
            path.unlink(missing_ok=True)

    async def _status(self) -> dict[str, Any]:
        return {
            "started_at": self._started_at,
            "public_url": self.public_url,
            "admin_url": self.admin_url,
            "dry_run": self._settings.dry_run_connections,
            "refused": self._receiving.answers.refused(),
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
            "news": {sink.instance: sink.state() for sink in self._sinks},
        }
