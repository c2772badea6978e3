"""Delivers change notifications to each connection: in order, each once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from loguru import logger

from backhaul.connect.health import (
    BASE_SECONDS,
    CAP_SECONDS,
    ConnectorFailed,
    Health,
    error_text,
    guarded,
)
from backhaul.core.backoff_and_circuit import delay_seconds
from backhaul.core.clock import to_text
from backhaul.core.lifecycle import Cause
from backhaul.core.strict_json import storable
from backhaul.errors import Busy
from backhaul.runtime.loop import IDLE_SECONDS, Loop, retry_while_busy
from backhaul.runtime.tracing import (
    CONNECTION,
    STORE,
    attributes_of_object,
    working_on,
)
from backhaul.store.deliveries import DeliveryOutcome, Subscriber
from backhaul_sdk import (
    Absent,
    Applied,
    Capability,
    Change,
    Connector,
    Found,
    NotSent,
    Rejected,
    Uncertain,
    Unknown,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from backhaul.connect.host import Host
    from backhaul.core.clock import Clock
    from backhaul.runtime.tracing import Attributes, Tracer
    from backhaul.settings import Settings
    from backhaul.store.deliveries import Deliveries, Outgoing

SLICE_SECONDS = 0.005
POLL_SECONDS = 1.0
"""How often due deliveries are polled, even if nothing wakes the worker."""
PUSH_SECONDS = 120.0
"""Timeout of a push. After it the change may have arrived."""
LOOKUP_SECONDS = 720.0
"""Timeout of a lookup; it may wait until a lost request has ended in the system."""
CHECK_AFTER_SECONDS = (0.0, 120.0, 600.0)
"""When an uncertain delivery is checked; if the last check cannot determine the
outcome, the delivery is parked."""
STOP_SECONDS = 5.0
"""How long a stop waits for deliveries in progress."""


class DeliveryWorker:
    """Delivers to one connection, one change at a time; its failures stay its own."""

    def __init__(
        self,
        connector: Connector[Any],
        subscriber: Subscriber,
        deliveries: Deliveries,
        health: Health,
        opened: Callable[[], Awaitable[None]],
        ended: Callable[[str, str], None] = lambda *_: None,
        tracer: Tracer | None = None,
    ) -> None:
        self.health = health
        self._connector = connector
        self._subscriber = subscriber
        self._deliveries = deliveries
        self._clock = health.clock
        self._opened = opened
        self._ended = ended
        self._tracer = tracer
        self._loop = Loop(health.clock, self._log_busy)
        self._rests_until = 0.0
        self._shut = False
        self._log = logger.bind(instance=subscriber.instance)

    @property
    def instance(self) -> str:
        """The name of the connection that it delivers to."""
        return self._subscriber.instance

    def state(self) -> dict[str, object]:
        """Return whether deliveries succeed, and if not, why."""
        return {"up": self.health.up, "reason": self.health.reason}

    def wake(self) -> None:
        """Check for work now: the mirror or a delivery has changed."""
        self._loop.wake()

    def stop(self) -> None:
        """Ask `run` to end once the outcome of the current delivery is stored."""
        self._loop.stop()

    async def subscribe(self) -> None:
        """Receive changes from now on, if the connection is new.

        Call it before the first event is folded.
        """
        await self._deliveries.subscribe(self._subscriber)

    async def run(self) -> None:
        """Deliver until `stop`. A cancelled delivery becomes uncertain."""
        await self._loop.run(self._work)

    async def _work(self) -> float:
        """Do one step; return 0.0 if more may be due now."""
        if await self._one_step():
            return 0.0
        waits = await self._deliveries.has_open(self._subscriber.instance)
        seconds = POLL_SECONDS if waits else IDLE_SECONDS
        return self.health.log_recovery() or seconds

    async def _one_step(self) -> bool:
        """Do one step; after an unexpected error, log it and wait."""
        try:
            return await self.step()
        except Busy:
            raise
        except Exception as error:  # noqa: BLE001 - one connection must not end the others
            if self.health.up:
                self._log.bind(action="delivery.failed").opt(exception=error).error(
                    "{}: unexpected error in a delivery: {}; retrying",
                    self.instance,
                    error_text(error),
                )
            self._wait_after(error_text(error))
            # The interrupted delivery is uncertain, as after a restart.
            await self.subscribe()
            return False

    async def step(self) -> bool:
        """Do one step; return True if more work may be due now."""
        more = await self._deliveries.fan_out(self._subscriber, SLICE_SECONDS)
        if self._subscriber.dry_run or self._clock.monotonic() < self._rests_until:
            return more
        if uncertain := await self._deliveries.next_uncertain(
            self._subscriber.instance
        ):
            await self._resolve(uncertain)
            return True
        if not await self._ready():
            return more
        if claimed := await self._deliveries.claim(self._subscriber):
            await self._push(claimed)
            return True
        return more

    async def _ready(self) -> bool:
        """Open the connector; nothing is claimed for a connector that is not open."""
        try:
            await self._open()
        except ConnectorFailed as error:
            self._wait_after(str(error))
            return False
        return True

    async def _open(self) -> None:
        """Open the connector unless it is open. Raises ConnectorFailed and Busy."""
        try:
            await guarded(self._opened())
        except ConnectorFailed:
            self._shut = True
            raise
        # No delivery may come for days that would show that it is reachable.
        if self._shut:
            self._shut = False
            self.health.worked()

    async def _push(self, delivery: Outgoing) -> None:
        if self._tracer is None:
            await self._deliver(_change(delivery), delivery)
            return
        try:
            parent = await self._deliveries.traceparent_of(delivery)
        except Busy:  # it is claimed already: it goes out, in a trace of its own
            parent = None
        span = self._tracer.begin(
            f"deliver {delivery.topic}", "client", self._attributes(delivery), parent
        )
        change = replace(_change(delivery), traceparent=span.traceparent)
        with working_on(span):
            state = await self._deliver(change, delivery)
        span.put("backhaul.delivery.state", state)
        span.end("" if state == "applied" else state)

    def _attributes(self, delivery: Outgoing) -> Attributes:
        kind = delivery.topic.partition(".")[0]
        return {
            STORE: delivery.store,
            CONNECTION: self.instance,
            "backhaul.topic": delivery.topic,
            "backhaul.delivery": delivery.id,
            **attributes_of_object(kind, delivery.object_id),
        }

    async def _deliver(self, change: Change, delivery: Outgoing) -> str:
        """Deliver once; return the delivery's new state."""
        said: object
        try:
            async with asyncio.timeout(PUSH_SECONDS):
                said = await guarded(self._connector.push(change))
        except (ConnectorFailed, TimeoutError) as error:
            reason = str(error) or f"no answer within {PUSH_SECONDS:.0f} s"
            self._wait_after(reason)
            said = Uncertain(reason)
        except Busy as error:
            said = Uncertain(str(error))
        outcome = self._handle_push(delivery, said)
        await self._store_outcome(delivery, outcome)
        return _TOLD[outcome.cause][0]

    def _handle_push(self, delivery: Outgoing, said: object) -> DeliveryOutcome:
        if isinstance(said, Applied):
            self.health.worked()
            reference = _text(said.reference)
            return DeliveryOutcome(
                cause=Cause.CONFIRMED, reason="taken", reference=reference
            )
        if isinstance(said, Rejected):
            self.health.worked()
            return DeliveryOutcome(
                cause=Cause.REFUSED, reason=_text(said.reason) or "refused"
            )
        if isinstance(said, NotSent):
            reason = _text(said.reason) or "not sent"
            return self._retry_later(delivery, reason, said.retry_after_seconds)
        doubt = _text(said.reason) if isinstance(said, Uncertain) else None
        reason = doubt or f"push returned {type(said).__name__}"
        if self._connector.spec.takes_once:
            return self._retry_later(delivery, reason)
        if type(self._connector).lookup is Connector.lookup:
            reason = f"{reason}; this connector cannot check whether it arrived"
            return DeliveryOutcome(cause=Cause.UNDECIDABLE, reason=reason)
        failures = delivery.failures + 1
        return DeliveryOutcome(cause=Cause.UNKNOWN, reason=reason, failures=failures)

    def _retry_later(
        self, delivery: Outgoing, reason: str, wanted: float | None = None
    ) -> DeliveryOutcome:
        """Deliver it again later: it did not arrive, or a repeat does no harm."""
        wait, failures = self._wait_after(reason, wanted), delivery.failures + 1
        if wanted is None:
            wait += _yield_seconds(failures)
        return DeliveryOutcome(
            cause=Cause.NOT_SENT,
            reason=reason,
            due_at=self._time_in(wait),
            failures=failures,
        )

    async def _resolve(self, delivery: Outgoing) -> None:
        """Determine the outcome of an uncertain delivery, where it matters."""
        if self._connector.spec.takes_once:
            outcome = DeliveryOutcome(
                cause=Cause.PROVED_ABSENT, reason="the receiver ignores a repeated id"
            )
            await self._store_outcome(delivery, outcome)
        else:
            await self._lookup(delivery)

    async def _lookup(self, delivery: Outgoing) -> None:
        try:
            await self._open()
            async with asyncio.timeout(LOOKUP_SECONDS):
                said: object = await guarded(self._connector.lookup(_change(delivery)))
        except (ConnectorFailed, TimeoutError, Busy) as error:
            reason = str(error) or f"no answer within {LOOKUP_SECONDS:.0f} s"
            failures = delivery.failures + 1
            wait = self._wait_after(reason) + _yield_seconds(failures)
            outcome = DeliveryOutcome(
                cause=Cause.UNKNOWN,
                reason=reason,
                due_at=self._time_in(wait),
                failures=failures,
                checks=delivery.checks,
            )
        else:
            outcome = self._handle_lookup(delivery, said)
        await self._store_outcome(delivery, outcome)

    def _handle_lookup(self, delivery: Outgoing, said: object) -> DeliveryOutcome:
        self.health.worked()
        if isinstance(said, Found):
            reference = _text(said.reference)
            return DeliveryOutcome(
                cause=Cause.PROVED_APPLIED,
                reason="found in the receiving system",
                reference=reference,
            )
        if isinstance(said, Absent):
            again = delivery.attempts - 1
            # A change that breaks the system each time is not sent in a tight loop.
            due_at = self._time_in(_yield_seconds(again)) if again > 0 else None
            return DeliveryOutcome(
                cause=Cause.PROVED_ABSENT,
                reason="not found in the receiving system",
                due_at=due_at,
            )
        reason = _text(said.reason) if isinstance(said, Unknown) else None
        reason = reason or f"lookup returned {type(said).__name__}"
        checks = delivery.checks + 1
        if checks >= len(CHECK_AFTER_SECONDS):
            return DeliveryOutcome(
                cause=Cause.UNDECIDABLE, reason=reason, checks=checks
            )
        wait = CHECK_AFTER_SECONDS[checks] - CHECK_AFTER_SECONDS[checks - 1]
        return DeliveryOutcome(
            cause=Cause.UNKNOWN,
            reason=reason,
            due_at=self._time_in(wait),
            checks=checks,
        )

    async def _store_outcome(
        self, delivery: Outgoing, outcome: DeliveryOutcome
    ) -> None:
        """Store the outcome; retry for as long as the database refuses."""
        write = partial(
            self._deliveries.record_outcome, self.instance, delivery, outcome
        )
        if not await retry_while_busy(write, self._clock, self._log_busy):
            return  # an operator has decided it in the meantime
        state, level = _TOLD[outcome.cause]
        self._ended(self.instance, state)
        logger.bind(action=f"delivery.{state}", instance=self.instance).log(
            level,
            "{} {} {}: {}",
            self._subscriber.instance,
            delivery.topic,
            delivery.object_id,
            outcome.reason,
        )

    def _log_busy(self, error: Exception) -> None:
        self._log.bind(action="delivery.busy").warning("{}", error)

    def _wait_after(self, reason: str, wanted: float | None = None) -> float:
        wait = self.health.failed(reason, wanted)
        self._rests_until = self._clock.monotonic() + wait
        return wait

    def _time_in(self, seconds: float) -> str:
        return to_text(self._clock.now() + timedelta(seconds=seconds))


def _yield_seconds(failures: int) -> float:
    """Return how long a change that keeps failing lets other objects' changes pass."""
    return delay_seconds(
        failures, base_seconds=BASE_SECONDS, cap_seconds=CAP_SECONDS, chance=1.0
    )


_TOLD = {
    Cause.CONFIRMED: ("applied", "INFO"),
    Cause.PROVED_APPLIED: ("applied", "INFO"),
    Cause.PROVED_ABSENT: ("planned", "INFO"),
    Cause.NOT_SENT: ("planned", "DEBUG"),
    Cause.UNKNOWN: ("uncertain", "DEBUG"),
    Cause.REFUSED: ("rejected", "WARNING"),
    Cause.UNDECIDABLE: ("parked", "WARNING"),
}


def _change(delivery: Outgoing) -> Change:
    return Change(
        id=delivery.id,
        store=delivery.store,
        topic=delivery.topic,
        object_id=delivery.object_id,
        occurred_at=delivery.occurred_at,
        document=delivery.document,
    )


def _text(said: object) -> str | None:
    """Return a connector's text in a form that the database can store."""
    if said is None:
        return None
    return storable(str(said))


def delivery_workers(
    settings: Settings,
    hosts: Sequence[Host],
    deliveries: Deliveries,
    clock: Clock,
    chance: Callable[[], float],
    ended: Callable[[str, str], None],
    tracer: Tracer | None = None,
) -> list[DeliveryWorker]:
    """Return a delivery worker for each connection that receives changes.

    `ended` takes the connection and the new state after each attempt to deliver.
    """
    return [
        DeliveryWorker(
            host.connector,
            subscription(settings, host.connector.instance, host.connector.topics()),
            deliveries,
            Health(host.connector.instance, " (deliveries)", clock, chance),
            host.open,
            ended,
            tracer,
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
        dry_run=bool({"*", instance} & set(settings.dry_run_connections)),
    )


async def subscribe_all(
    workers: Sequence[DeliveryWorker], deliveries: Deliveries
) -> None:
    """Subscribe each connection; retire those that are no longer configured."""
    await deliveries.retire([worker.instance for worker in workers])
    for worker in workers:
        await worker.subscribe()


async def stop_all(
    workers: Sequence[DeliveryWorker], tasks: Sequence[asyncio.Task[None]]
) -> None:
    """Wait for the answers of deliveries in progress, which would become uncertain."""
    for worker in workers:
        worker.stop()
    if tasks:
        await asyncio.wait(tasks, timeout=STOP_SECONDS)
