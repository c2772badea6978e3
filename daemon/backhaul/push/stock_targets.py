"""Turns the stock counts of one store into adjustments."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Protocol

from loguru import logger
from msgspec.structs import replace

from backhaul.core.backoff import delay_seconds
from backhaul.core.clock import from_text, rest, to_text
from backhaul.core.lifecycle import Cause, State
from backhaul.core.stock import (
    Policy,
    compute,
    objection,
    reach_back,
    strays,
    understand,
)
from backhaul.errors import Busy, Unusable
from backhaul.platform.transport import InDoubt, NotSent
from backhaul.push.retry_store import insist
from backhaul.store.outbox import Settlement
from backhaul.store.targets import Correct, Rest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

    from backhaul.core.clock import Clock
    from backhaul.core.stock import Computation, Seen, Shelf
    from backhaul.store.contract import Command
    from backhaul.store.targets import Reading, Target, Targets

AT_ONCE = 4
IDLE_SECONDS = 30.0
ROUNDS_SECONDS = (0.5, 2.0, 5.0)
"""Rests before a level is read again whose movements are not known."""
LANDING_SECONDS = 5.0
TOLD_AFTER = 3
"""Readings in vain after which a person hears of it; fewer may be a blip."""
RETRY_BASE_SECONDS = 1.0
RETRY_CAP_SECONDS = 60.0
TROUBLE = (NotSent, InDoubt, Unusable, Busy)


class StockReader(Protocol):
    """Reads one product's stock. Raises NotSent, InDoubt or Unusable."""

    async def look(self, product_id: str) -> Seen:
        """Read the levels of all variants; empty where the product is gone."""
        ...

    async def study(self, product_id: str, since: str) -> Seen:
        """Read levels and movements since then, and fold them, before they are told."""
        ...


class Targeter:
    """Works off one store's targets, each product on its own."""

    def __init__(
        self,
        store: str,
        targets: Targets,
        reader: StockReader,
        policies: Mapping[str, Policy],
        expects: Callable[[], bool],
        fenced: Callable[[], bool],
        clock: Clock,
        chance: Callable[[], float],
        planned: Callable[[], None],
    ) -> None:
        self._store = store
        self._targets = targets
        self._reader = reader
        self._policies = policies
        self._expects = expects
        self._fenced = fenced
        self._clock = clock
        self._chance = chance
        self._planned = planned
        self._failures: dict[str, int] = {}
        self._bugs: dict[str, int] = {}
        self._stopped = False
        self._looked_at = ""
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Tell that a count came in, or that something of a product has ended."""
        self._wake.set()

    async def run(self) -> None:
        """Work for ever. Cancel to stop: what waits stands in the database."""
        while True:
            self._wake.clear()
            while await self.work_off():
                pass
            due = await self._targets.next_due(self._store, self._looked_at)
            seconds = IDLE_SECONDS
            if due is not None:
                wait = (from_text(due) - self._clock.now()) / timedelta(seconds=1)
                seconds = min(max(wait, 0.0), IDLE_SECONDS)
            await rest(self._wake, seconds, self._clock)

    async def work_off(self) -> int:
        """Work on what is due now; return how much that was."""
        self._looked_at = to_text(self._clock.now())
        if self._fenced() or await self._is_stopped():
            return 0
        readings = await self._targets.readings(self._store, AT_ONCE)
        targets = await self._targets.due(self._store, AT_ONCE)
        async with asyncio.TaskGroup() as group:
            for reading in readings:
                later = partial(self._read_later, reading)
                work = self._attempt(reading.target, self._read_back(reading), later)
                group.create_task(work)
            for target in targets:
                later = partial(self._rest, target)
                work = self._attempt(target.command, self._work(target), later)
                group.create_task(work)
        return len(readings) + len(targets)

    async def _attempt(
        self,
        command: Command,
        work: Coroutine[None, None, None],
        later: Callable[[str, str], Awaitable[None]],
    ) -> None:
        """Let what meets something that nobody foresaw wait, and say so once."""
        try:
            await work
        except Busy:
            raise
        except Exception as error:  # noqa: BLE001 - it must not stop all other counts
            failures = self._bugs[command.id] = self._bugs.get(command.id, 0) + 1
            reason = f"cannot be worked on: {type(error).__name__}: {error}"
            if failures == 1:
                logger.bind(
                    action="target.failed", store=self._store, command=command.id
                ).opt(exception=error).error(
                    "count of product {} {}; tried until it works",
                    command.target,
                    reason,
                )
            await later(reason, self._after(failures))
        else:
            self._bugs.pop(command.id, None)

    async def _is_stopped(self) -> bool:
        reason = await self._targets.stopped(self._store)
        if reason is not None and not self._stopped:
            logger.bind(action="target.stopped", store=self._store).error(
                "store {}: counts are set on the platform no more: {}; once that is"
                " mended: backhaul stock resume {}",
                self._store,
                reason,
                self._store,
            )
        self._stopped = reason is not None
        return self._stopped

    async def _work(self, target: Target) -> None:
        policy = self._policies.get(target.command.instance, Policy())
        since, product = reach_back(target.count, policy), target.command.target
        began = to_text(self._clock.now())
        try:
            seen = await self._see(product, since, target.tries)
        except TROUBLE as error:
            await self._unread(target, error)
            return
        self._failures.pop(product, None)
        if self._fenced():
            return  # the history may tell of steps that are not known here
        decide = partial(self._decide, target, policy, seen)
        level = seen.levels.get(target.variant_id, 0)
        studied_at = began if seen.is_studied else None
        write = partial(self._targets.decide, target, level, since, studied_at, decide)
        state, reason = await insist(write, self._store, self._clock)
        self._tell(target, state, reason)
        self._planned()

    async def _see(self, product: str, since: str, tries: int) -> Seen:
        if tries:
            return await self._reader.study(product, since)
        return await self._reader.look(product)

    def _decide(
        self, target: Target, policy: Policy, seen: Seen, shelf: Shelf
    ) -> Correct | Rest | Settlement:
        """Say what to do about a count, with all that is known of its variant."""
        if target.variant_id not in seen.levels:
            reason = "the platform shows no such variant of the product"
            return self._not_understood(target, reason)
        shelf = replace(shelf, is_proved=seen.is_proved, is_studied=seen.is_studied)
        understood = understand(target.count, shelf)
        if isinstance(understood, str):
            return self._not_understood(target, understood)
        computation = compute(target.count, understood, policy)
        strange = objection(computation, policy, self._clock.now())
        if strange and not target.is_allowed:
            return _for_a_person(strange, computation)
        if computation.delta and computation.level + computation.delta < 0:
            reason = f"{computation.in_words()}; waits for what is on its way"
            return Rest(reason, self._in(LANDING_SECONDS), counts=False)
        expects = computation.level if self._expects() else None
        return Correct(computation, expects, seen.levels)

    def _not_understood(self, target: Target, reason: str) -> Rest | Settlement:
        if target.tries < len(ROUNDS_SECONDS):
            seconds = ROUNDS_SECONDS[target.tries]
            return Rest(reason, self._in(seconds), counts=True)
        said = f"{reason}, after {len(ROUNDS_SECONDS)} more rounds of reading"
        return Settlement((Cause.UNDECIDABLE,), said)

    def _in(self, seconds: float) -> str:
        return to_text(self._clock.now() + timedelta(seconds=seconds))

    async def _unread(self, target: Target, error: Exception) -> None:
        """Let a count rest whose product cannot be read; say so once if that lasts."""
        product = target.command.target
        due_at = self._failed(product, error)
        await self._rest(target, f"the product cannot be read: {error}", due_at)

    async def _rest(self, target: Target, reason: str, due_at: str) -> None:
        waits = Rest(reason, due_at, counts=False)
        write = partial(self._targets.rest, target, waits)
        await insist(write, self._store, self._clock)

    def _failed(self, product: str, error: Exception) -> str:
        """Count a reading in vain; return when to try again."""
        failures = self._failures[product] = self._failures.get(product, 0) + 1
        if failures == TOLD_AFTER:
            logger.bind(action="target.unread", store=self._store).warning(
                "product {}: a count waits, and its stock cannot be read: {}; tried"
                " until it works",
                product,
                error,
            )
        return self._after(failures)

    def _after(self, failures: int) -> str:
        """Return when to try again after so many failures."""
        return self._in(
            delay_seconds(
                failures,
                base_seconds=RETRY_BASE_SECONDS,
                cap_seconds=RETRY_CAP_SECONDS,
                chance=self._chance(),
            )
        )

    async def _read_back(self, reading: Reading) -> None:
        """See that a step moved the variant it was addressed to, and no other."""
        product = reading.target.target
        try:
            seen = await self._see(product, reading.as_of, reading.tries)
        except TROUBLE as error:
            due_at = self._failed(product, error)
            await self._note(reading, due_at)
            return
        self._failures.pop(product, None)
        around = await self._targets.surroundings(reading)
        others = {v: n for v, n in seen.levels.items() if v != reading.variant_id}
        moved = strays(reading.delta, others, around.expected, around.shown_by)
        if moved and not around.shown_by and reading.tries < len(ROUNDS_SECONDS):
            await self._note(reading, self._in(ROUNDS_SECONDS[reading.tries]))
            return
        if moved:
            reason = (
                f"the step of target {reading.target.id[:8]} for variant"
                f" {reading.variant_id} moved {', '.join(moved)} of product {product}"
            )
            await self._targets.stop(self._store, reason)
        await self._note(reading, None)

    async def _read_later(self, reading: Reading, _: str, due_at: str) -> None:
        await self._note(reading, due_at)

    async def _note(self, reading: Reading, due_at: str | None) -> None:
        write = partial(self._targets.read_back, reading, due_at)
        await insist(write, self._store, self._clock)

    def _tell(self, target: Target, state: State, reason: str) -> None:
        if state is State.PLANNED:
            return
        level = "WARNING" if state is State.PARKED else "INFO"
        command = target.command
        logger.bind(
            action=f"target.{state}", store=self._store, command=command.id
        ).log(level, "count of product {} is {}: {}", command.target, state, reason)


def _for_a_person(strange: str, computation: Computation) -> Settlement:
    reason = f"{strange}; {computation.in_words()}"
    return Settlement((Cause.UNDECIDABLE,), reason)
