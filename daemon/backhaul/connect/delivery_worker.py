"""Delivers change notifications to one connection: in order, each once."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from loguru import logger

from backhaul.connect.health import (
    BASE_SECONDS,
    CAP_SECONDS,
    ConnectorFailed,
    guarded,
    words,
)
from backhaul.core.backoff import delay_seconds
from backhaul.core.clock import to_text
from backhaul.core.lifecycle import Cause
from backhaul.core.text import storable
from backhaul.errors import Busy
from backhaul.store.deliveries import Mark
from backhaul_sdk import (
    Absent,
    Applied,
    Change,
    Connector,
    Found,
    NotSent,
    Rejected,
    Uncertain,
    Unknown,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from backhaul.connect.health import Health
    from backhaul.core.clock import Clock
    from backhaul.store.deliveries import Deliveries, Outgoing, Subscriber

SLICE_SECONDS = 0.005
LOOK_SECONDS = 1.0
"""Even if nothing changes, what waited for a command or its time is looked for."""
IDLE_SECONDS = 30.0
"""Where nothing waits: a lost wake costs no more than this."""
PUSH_SECONDS = 120.0
"""Longer than that no answer is waited for: it may have arrived."""
LOOKUP_SECONDS = 720.0
"""A look lasts no longer; it may wait until a lost request has its end over there."""
LOOKS_SECONDS = (0.0, 120.0, 600.0)
"""When a change in doubt is looked up; what cannot be told at the last is parked."""


class Sink:
    """One instance's deliveries, one at a time; its failures are its own."""

    def __init__(
        self,
        connector: Connector[Any],
        subscriber: Subscriber,
        deliveries: Deliveries,
        health: Health,
        clock: Clock,
        opened: Callable[[], Awaitable[None]],
        *,
        dry_run: bool = False,
    ) -> None:
        self.health = health
        self._connector = connector
        self._subscriber = subscriber
        self._deliveries = deliveries
        self._clock = clock
        self._opened = opened
        self._dry_run = dry_run
        self._wake = asyncio.Event()
        self._stopping = False
        self._rests_until = 0.0
        self._shut = False
        self._log = logger.bind(instance=subscriber.instance)

    @property
    def instance(self) -> str:
        """Whom it tells."""
        return self._subscriber.instance

    def state(self) -> dict[str, object]:
        """Return whether the news get through, and if not, why."""
        return {"up": self.health.up, "reason": self.health.reason}

    def wake(self) -> None:
        """Tell that the mirror or a delivery has changed."""
        self._wake.set()

    def stop(self) -> None:
        """Ask `run` to end once what is under way is marked."""
        self._stopping = True
        self._wake.set()

    async def subscribe(self) -> None:
        """Count from now on, the first time; to be called before anything is folded."""
        await self._deliveries.subscribe(self._subscriber)

    async def run(self) -> None:
        """Deliver until `stop`. A cancellation leaves what is being sent in doubt."""
        while not self._stopping:
            self._wake.clear()
            if not await self._one_step():
                await self._rest()

    async def _one_step(self) -> bool:
        """Do one thing; where that meets what nobody foresaw, rest, and say so."""
        try:
            return await self.step()
        except Busy:
            raise
        except Exception as error:  # noqa: BLE001 - it must not end what others do
            if self.health.up:
                self._log.bind(action="delivery.failed").opt(exception=error).error(
                    "{}: a delivery met what nobody foresaw: {}; tried until it works",
                    self.instance,
                    words(error),
                )
            self._leave_alone(words(error))
            # What was under way is in doubt, as at a start.
            await self.subscribe()
            return False

    async def step(self) -> bool:
        """Do one thing; tell whether there may be more at once."""
        more = await self._deliveries.follow(self._subscriber, SLICE_SECONDS)
        if self._dry_run or self._clock.monotonic() < self._rests_until:
            return more
        if doubtful := await self._deliveries.doubtful(self._subscriber.instance):
            await self._clear_up(doubtful)
            return True
        if not await self._ready():
            return more
        if claimed := await self._deliveries.claim(self._subscriber):
            await self._push(claimed)
            return True
        return more

    async def _rest(self) -> None:
        waits = await self._deliveries.any_open(self._subscriber.instance)
        seconds = LOOK_SECONDS if waits else IDLE_SECONDS
        try:
            async with asyncio.timeout(self.health.look() or seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _ready(self) -> bool:
        """Open the connector; nothing is claimed for one that is not open."""
        try:
            await self._open()
        except ConnectorFailed as error:
            self._leave_alone(str(error))
            return False
        return True

    async def _open(self) -> None:
        """Open it unless it is open. Raises ConnectorFailed, and Busy."""
        try:
            await guarded(self._opened())
        except ConnectorFailed:
            self._shut = True
            raise
        # There may be no news for days that would tell that it can be reached.
        if self._shut:
            self._shut = False
            self.health.rose()

    async def _push(self, delivery: Outgoing) -> None:
        said: object
        try:
            async with asyncio.timeout(PUSH_SECONDS):
                said = await guarded(self._connector.push(_change(delivery)))
        except (ConnectorFailed, TimeoutError) as error:
            reason = str(error) or f"no answer within {PUSH_SECONDS:.0f} s"
            self._leave_alone(reason)
            said = Uncertain(reason)
        except Busy as error:
            said = Uncertain(str(error))
        await self._mark(delivery, self._judge_push(delivery, said))

    def _judge_push(self, delivery: Outgoing, said: object) -> Mark:
        if isinstance(said, Applied):
            self.health.rose()
            reference = _text(said.reference)
            return Mark(cause=Cause.CONFIRMED, reason="taken", reference=reference)
        if isinstance(said, Rejected):
            self.health.rose()
            return Mark(cause=Cause.REFUSED, reason=_text(said.reason) or "refused")
        if isinstance(said, NotSent):
            reason = _text(said.reason) or "not sent"
            return self._later(delivery, reason, said.retry_after_seconds)
        doubt = _text(said.reason) if isinstance(said, Uncertain) else None
        reason = doubt or f"push returned {type(said).__name__}"
        if self._connector.spec.takes_once:
            return self._later(delivery, reason)
        if type(self._connector).lookup is Connector.lookup:
            reason = f"{reason}; this system cannot be asked whether it arrived"
            return Mark(cause=Cause.UNDECIDABLE, reason=reason)
        failures = delivery.failures + 1
        return Mark(cause=Cause.UNKNOWN, reason=reason, failures=failures)

    def _later(
        self, delivery: Outgoing, reason: str, wanted: float | None = None
    ) -> Mark:
        """Hand it over again; it did not arrive, or arriving twice does no harm."""
        wait, failures = self._leave_alone(reason, wanted), delivery.failures + 1
        if wanted is None:
            wait += _alone_seconds(failures)
        return Mark(
            cause=Cause.NOT_SENT,
            reason=reason,
            due_at=self._in(wait),
            failures=failures,
        )

    async def _clear_up(self, delivery: Outgoing) -> None:
        """Find out what became of one in doubt, where that matters."""
        if self._connector.spec.takes_once:
            mark = Mark(cause=Cause.PROVED_ABSENT, reason="an id is taken once")
            await self._mark(delivery, mark)
        else:
            await self._look_up(delivery)

    async def _look_up(self, delivery: Outgoing) -> None:
        try:
            await self._open()
            async with asyncio.timeout(LOOKUP_SECONDS):
                said: object = await guarded(self._connector.lookup(_change(delivery)))
        except (ConnectorFailed, TimeoutError, Busy) as error:
            reason = str(error) or f"no answer within {LOOKUP_SECONDS:.0f} s"
            failures = delivery.failures + 1
            wait = self._leave_alone(reason) + _alone_seconds(failures)
            mark = Mark(
                cause=Cause.UNKNOWN,
                reason=reason,
                due_at=self._in(wait),
                failures=failures,
                looks=delivery.looks,
            )
        else:
            mark = self._judge_look(delivery, said)
        await self._mark(delivery, mark)

    def _judge_look(self, delivery: Outgoing, said: object) -> Mark:
        self.health.rose()
        if isinstance(said, Found):
            reference = _text(said.reference)
            return Mark(
                cause=Cause.PROVED_APPLIED, reason="found there", reference=reference
            )
        if isinstance(said, Absent):
            again = delivery.attempts - 1
            # What the system breaks on each time is not sent at once without end.
            due_at = self._in(_alone_seconds(again)) if again > 0 else None
            return Mark(
                cause=Cause.PROVED_ABSENT, reason="it is not there", due_at=due_at
            )
        reason = _text(said.reason) if isinstance(said, Unknown) else None
        reason = reason or f"lookup returned {type(said).__name__}"
        looks = delivery.looks + 1
        if looks >= len(LOOKS_SECONDS):
            return Mark(cause=Cause.UNDECIDABLE, reason=reason, looks=looks)
        wait = LOOKS_SECONDS[looks] - LOOKS_SECONDS[looks - 1]
        return Mark(
            cause=Cause.UNKNOWN, reason=reason, due_at=self._in(wait), looks=looks
        )

    async def _mark(self, delivery: Outgoing, mark: Mark) -> None:
        """Write down what became of it, however long the database refuses."""
        while True:
            try:
                instance = self._subscriber.instance
                if not await self._deliveries.mark(instance, delivery, mark):
                    return  # a person has decided meanwhile, and was told
                break
            except Busy as error:
                self._log.bind(action="delivery.busy").warning("{}", error)
                await self._clock.sleep(LOOK_SECONDS)
        state, level = _TOLD[mark.cause]
        logger.bind(action=f"delivery.{state}", instance=self.instance).log(
            level,
            "{} {} {}: {}",
            self._subscriber.instance,
            delivery.topic,
            delivery.object_id,
            mark.reason,
        )

    def _leave_alone(self, reason: str, wanted: float | None = None) -> float:
        wait = self.health.fell(reason, wanted)
        self._rests_until = self._clock.monotonic() + wait
        return wait

    def _in(self, seconds: float) -> str:
        return to_text(self._clock.now() + timedelta(seconds=seconds))


def _alone_seconds(failures: int) -> float:
    """Return for how long one that fails again and again lets news of others pass."""
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
    """Return a connector's words as text that can be stored."""
    if said is None:
        return None
    return storable(str(said))
