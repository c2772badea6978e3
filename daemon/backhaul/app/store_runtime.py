"""The parts of one store, which start and stop while the daemon runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from loguru import logger
from msgspec import Struct

from backhaul.app.wiring import build_shop
from backhaul.connect import delivery_worker, registry
from backhaul.connect.host import START_SECONDS, Host, listen_all
from backhaul.connect.polling import PollSchedule
from backhaul.core.clock import to_text
from backhaul.errors import OtherStore
from backhaul.push.dispatcher import end_sending
from backhaul.push.response_classifier import interrupted
from backhaul.runtime.loop import retry_while_busy
from backhaul.runtime.signals import StoreContext, StoreSignals
from backhaul.settings.jobs import polling_job
from backhaul.sync.store_identity import known_facts, learn_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from backhaul.app.jobs import Jobs
    from backhaul.app.wiring import Shared, Shop
    from backhaul.connect.http_routes import ConnectorRoutes
    from backhaul.connect.record_matching import Matcher
    from backhaul.core.clock import Clock
    from backhaul.observe.metrics import Metrics
    from backhaul.platform.client import StoreFacts
    from backhaul.runtime.signals import SharedSignals
    from backhaul.runtime.tracing import Tracer
    from backhaul.settings import Settings

T = TypeVar("T")
LATEST_SEND_SECONDS = 5.0
"""How long after the claim of a command its request may leave, on a shared database."""


class ProcessParts(Struct, frozen=True):
    """What the daemon has once, and the parts of every store use.

    `retry_unmatched` tries the records again that wait for their order.
    """

    settings: Settings
    shared: Shared
    facts: dict[str, StoreFacts]
    clock: Clock
    chance: Callable[[], float]
    metrics: Metrics
    jobs: Jobs
    signals: SharedSignals
    matcher: Matcher
    retry_unmatched: Callable[[], None]
    routes: ConnectorRoutes
    tracer: Tracer | None = None


class StoreRuntime:
    """The parts of one store, from their start to their stop.

    Call `prepare`, `connect`, `run` and `close` in this order. `close` may follow at
    any point.
    """

    def __init__(self, name: str, process: ProcessParts) -> None:
        self.name = name
        self._process = process
        self._store = process.shared.store
        self.shop: Shop = build_shop(process.settings, self._context(), process.shared)
        settings = process.settings
        names = [
            each
            for each in settings.enabled_connectors
            if settings.connectors[each].store == name
        ]
        self.hosts = [self._host(each) for each in names]
        self.sinks = delivery_worker.delivery_workers(
            settings,
            self.hosts,
            self._store.deliveries,
            process.clock,
            process.chance,
            self.shop.sender.context.signals.delivery_ended.emit,
            process.tracer,
        )
        self._connected = ExitStack()

    def _context(self) -> StoreContext:
        process, signals = self._process, StoreSignals()
        self._count(signals)
        ended = partial(process.metrics.count_request, self.name)
        signals.request_ended.connect(ended)
        report = partial(process.jobs.report, self.name)
        lease = self._store.ownership.lease
        return StoreContext(
            self.name,
            process.clock,
            process.chance,
            signals,
            report,
            lease,
            process.tracer,
            self._store.open_work,
        )

    def _count(self, signals: StoreSignals) -> None:
        """Count what passes: commands, records and deliveries by their new state."""
        metrics = self._process.metrics
        commands = metrics.counter("commands_total")
        records = metrics.counter("records_total")
        deliveries = metrics.counter("deliveries_total")

        def reached(kind: str, state: str) -> None:
            commands[self.name, kind, state] += 1

        def stored(connection: str, state: str) -> None:
            records[connection, state] += 1

        def delivered(connection: str, state: str) -> None:
            deliveries[connection, state] += 1

        def sent(kind: str, seconds: float) -> None:
            metrics.time("command_sent_seconds", seconds, self.name, kind)

        signals.state_reached.connect(reached)
        signals.command_sent.connect(sent)
        signals.record_stored.connect(stored)
        signals.delivery_ended.connect(delivered)

    def _host(self, name: str) -> Host:
        process = self._process
        settings = process.settings.connectors[name]
        return Host(
            registry.build(name, settings.type, settings.options),
            self.shop.sender.context,
            PollSchedule(process.clock, None),
            self._store.records,
            self._store.documents,
            process.matcher,
            process.jobs.reporter(polling_job(name)),
        )

    async def prepare(self) -> None:
        """Mark what the last owner was sending; fetch the facts of a new store.

        Only the very first contact is waited for: a platform that hangs must not keep
        the daemon from receiving webhooks.
        """
        await self._mark_interrupted()
        known = await known_facts(self.name, self._store.kv)
        if known is None:
            await self._learn_facts()
        else:
            self._process.facts[self.name] = known

    async def _mark_interrupted(self) -> None:
        """Mark commands uncertain that were being sent when their owner died.

        Its requests may reach the platform for some time still, so that a check before
        would prove nothing.
        """
        due_at = None
        if self._store.ownership.is_shared:
            seconds = LATEST_SEND_SECONDS + self._process.settings.push.read_seconds
            due_at = to_text(self._process.clock.now() + timedelta(seconds=seconds))
        marked = await self._store.commands.mark_interrupted_uncertain(
            interrupted(due_at), self.name
        )
        for command in marked:
            logger.bind(action="command.interrupted", command=command).warning(
                "command {} was being sent when the daemon died, so its outcome is"
                " unknown; Backhaul checks the platform for its effect",
                command,
            )

    async def connect(self) -> None:
        """Connect the parts with the rest of the daemon, and take up the jobs."""
        clock = self._process.clock
        for sink in self.sinks:
            await retry_while_busy(sink.subscribe, clock)
        names = [host.connector.instance for host in self.hosts]
        routes = await listen_all(self.hosts, START_SECONDS)
        self._process.routes.serve(names, routes)
        self._connected.callback(self._process.routes.remove, names)
        self._process.matcher.hold([self.name])
        self._connect_signals()
        # Before the first job: the store may be given up while they are loaded.
        self._connected.callback(self._process.jobs.leave, self.name, names)
        self._connect_jobs()
        alone = not self._store.ownership.is_shared
        load = partial(self._process.jobs.load, self.name, names, alone=alone)
        await retry_while_busy(load, clock)

    def _connect_signals(self) -> None:
        """Let what other parts do wake the parts that have work after it."""
        signals, shop = self._process.signals, self.shop
        own = shop.sender.context.signals
        changed = own.command_changed.emit
        sinks = [sink.wake for sink in self.sinks]
        for signal, handlers in (
            (signals.events_folded, [*sinks, changed]),
            (signals.records_accepted, [changed]),
            (signals.operator_decided, [*sinks, changed, shop.sender.resolver.wake]),
            (signals.conflict_found, [shop.refetcher.wake]),
        ):
            self._connected.enter_context(signal.connected(*handlers))
        own.records_accepted.connect(self._process.retry_unmatched, changed)

    def _connect_jobs(self) -> None:
        """Connect each job of the store with the part that does its work."""
        jobs, reading = self._process.jobs, self.shop.reconciler
        jobs.sends(self.name, self.shop.sender.dispatcher)
        jobs.does("reconcile_incremental", self.name, reading.request_poll)
        jobs.does("reconcile_full", self.name, reading.request_full_sync)
        jobs.does("audit", self.name, self.shop.sender.auditor.wake)
        for host in self.hosts:
            jobs.polls(host.connector.instance, host.polls)

    async def run(self, stopping: asyncio.Event) -> None:
        """Run the parts until `stopping`, then finish the requests under way.

        Cancel it to end the parts at once.
        """
        shop, clock = self.shop, self._process.clock
        async with asyncio.TaskGroup() as group:

            def start(
                *runs: Callable[[], Coroutine[Any, Any, None]],
            ) -> list[asyncio.Task[None]]:
                # What the database refused to one part must not end the others.
                kept = [retry_while_busy(run, clock) for run in runs]
                return [group.create_task(each) for each in kept]

            endless = start(*(host.run for host in self.hosts))
            endless += start(self._catch_up, self._learn_facts_again)
            endless += start(shop.refetcher.run, shop.reconciler.run)
            endless += start(shop.target_worker.run, shop.sender.auditor.run)
            sinks = start(*(sink.run for sink in self.sinks))
            senders = start(shop.sender.dispatcher.run)
            checks = start(shop.sender.resolver.run)
            await end_sending(stopping, [shop.sender.dispatcher], senders, checks)
            await delivery_worker.stop_all(self.sinks, sinks)
            for task in (*senders, *sinks, *endless):
                task.cancel()

    async def _catch_up(self) -> None:
        """Let waiting records expire only after the mirror is up to date."""
        await self.shop.reconciler.filled.wait()
        await self._process.shared.fold_worker.caught_up()
        self._process.matcher.release(self.name)
        self.shop.refetcher.release()

    async def _learn_facts_again(self) -> None:
        """Fetch the facts of the store again: they may have changed."""
        # StoreIdentity reports another store and blocks all requests to it.
        with suppress(OtherStore):
            await self._learn_facts()

    async def _learn_facts(self) -> None:
        settings = self._process.settings
        base_url = settings.stores[self.name].base_url
        facts = await learn_facts(
            self.name,
            base_url,
            self.shop.free,
            self._store.kv,
            settings.database_name,
        )
        await self.shop.sender.idempotency.record(facts)
        self._process.facts[self.name] = facts

    def wake(self) -> None:
        """Fold the events that wait for the store."""
        self._process.shared.fold_worker.wake()

    async def disconnect(self) -> None:
        """Disconnect the parts from the rest of the daemon. Safe to call twice.

        Waits for the requests to its connections that are under way.
        """
        self._connected.close()
        await self._process.routes.idle(h.connector.instance for h in self.hosts)

    async def close(self) -> None:
        """Close the connectors and the connections to the platform."""
        await self.disconnect()
        for host in self.hosts:
            await host.close()
        await self.shop.client.transport.close()


class ShopsView(Mapping[str, T], Generic[T]):
    """One part of each store that runs now, by the store's name.

    A store whose part is None is not in it.
    """

    def __init__(
        self, shops: Mapping[str, Shop], part: Callable[[Shop], T | None]
    ) -> None:
        self._shops = shops
        self._part = part

    def __getitem__(self, name: str) -> T:
        if (found := self._part(self._shops[name])) is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter([n for n, s in self._shops.items() if self._part(s) is not None])

    def __len__(self) -> int:
        return len(list(iter(self)))
