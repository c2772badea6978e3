"""Reads the stock of one store and turns its stock counts into adjustments."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Protocol

from loguru import logger

from backhaul.core import strict_json
from backhaul.core.backoff_and_circuit import delay_seconds
from backhaul.core.clock import to_text
from backhaul.core.lifecycle import OPEN_TARGETS, TargetState
from backhaul.core.rate_limit import Priority
from backhaul.core.stock import Policy, ProductStock, misdirected_variants, reach_back
from backhaul.core.stock_decision import ROUNDS_SECONDS, StockReading, Wait
from backhaul.errors import Busy, Unusable
from backhaul.platform import decoding, responses, schemas
from backhaul.platform.client import NOT_OFFERED, ReadRefused
from backhaul.platform.history import MOST_PAGES, PATH, is_past, move_of
from backhaul.platform.transport import NotSent, OutcomeUnknown
from backhaul.push import retry_until_stored
from backhaul.runtime.loop import Loop, seconds_until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence

    from backhaul.core.clock import Clock
    from backhaul.core.stock_decision import Target
    from backhaul.platform.client import PlatformClient
    from backhaul.platform.history import HistoryMove
    from backhaul.runtime.signals import StoreContext
    from backhaul.store.stock_targets import Reading, Targets


class MirrorUpdates(Protocol):
    """Appends what is read to the inbox; `caught_up` waits until it is folded."""

    caught_up: Callable[[], Awaitable[None]]

    async def append_body(self, topic: str, read_at: str, body: bytes) -> int:
        """Append one document; return the event's id."""
        ...

    async def append_moves(self, moves: Sequence[HistoryMove], read_at: str) -> None:
        """Append the moves of stock that the ledger lacks."""
        ...


class StockReader:
    """Reads one store. Raises NotSent, OutcomeUnknown, ReadRefused or Unusable."""

    def __init__(
        self,
        client: PlatformClient,
        repair: MirrorUpdates,
        clock: Clock,
        currency: Callable[[], str],
        read_orders: Callable[[], Awaitable[object]],
    ) -> None:
        self._client = client
        self._repair = repair
        self._clock = clock
        self._currency = currency
        self._read_orders = read_orders

    async def read_levels(self, product_id: str) -> ProductStock:
        """Read the levels of all variants; empty where the product is gone."""
        _, bodies = await self._bodies(product_id)
        return ProductStock(self._levels(product_id, bodies))

    async def read_with_history(self, product_id: str, since: str) -> ProductStock:
        """Read levels and movements since then, and fold them.

        Where there is no history the orders may tell of a sale.
        """
        began = to_text(self._clock.now())
        topic, bodies = await self._bodies(product_id)
        levels = self._levels(product_id, bodies)
        for body in bodies:
            await self._repair.append_body(topic, began, body)
        moves = await self._moves(product_id, since)
        if moves is None:
            await self._read_orders()
        else:
            whole = [move for move in moves if move.is_whole]
            await self._repair.append_moves(whole, to_text(self._clock.now()))
            # Newer than the levels: it was read after them.
            levels |= {
                move.variant_id: move.entry.stock_after
                for move in moves
                if move.entry.stock_after is not None
            }
        await self._repair.caught_up()
        return ProductStock(levels, is_proved=moves is not None, is_studied=True)

    async def _bodies(self, product_id: str) -> tuple[str, Sequence[bytes]]:
        """Read the levels of a product; what lists none may show them with it."""
        answer = await self._client.ask("/inventory", product_id, Priority.PROOF)
        if answer.ok:
            return "inventory/reread", responses.rows(answer)
        if answer.status not in NOT_OFFERED:
            raise ReadRefused(f"/inventory/{product_id}", answer)
        shown = await self._client.find("/products", product_id, Priority.PROOF)
        bodies = [] if shown is None else [responses.read_object(shown, product_id)]
        return "inventory/shown/reread", bodies

    async def _moves(self, product_id: str, since: str) -> list[HistoryMove] | None:
        """Return the product's moves since then, the oldest first; None without any
        history to read.
        """
        found: dict[str, schemas.Entry] = {}
        for number in range(1, MOST_PAGES + 1):
            filters = {"productId": product_id}
            try:
                page = await self._client.page(PATH, number, Priority.PROOF, filters)
            except ReadRefused as error:
                if error.status in NOT_OFFERED:
                    return None
                raise
            rows = [decoding.entry(strict_json.decode_object(row)) for row in page.rows]
            fresh = [row for row in rows if row.id not in found]
            found |= {row.id: row for row in fresh}
            ended = is_past([row.created_at for row in rows], since)
            if not fresh or ended or page.has_more is False:
                break
        moves = [move_of(row) for row in reversed(found.values())]
        return [m for m in moves if m is not None and m.product_id == product_id]

    def _levels(self, product_id: str, bodies: Sequence[bytes]) -> dict[str, int]:
        """Return the stock by variant, of levels or of the product that shows them."""
        found: dict[str, int] = {}
        for body in bodies:
            document = strict_json.decode_object(body)
            if "variants" in document:
                levels = decoding.product(document, self._currency()).levels
                found |= {level.variant_id: level.stock for level in levels}
                continue
            level, _ = decoding.level(document)
            if level.product_id == product_id:
                found[level.variant_id] = level.stock
        return found


AT_ONCE = 4
REPORTED_AFTER = 3
"""Failed reads in a row before they are logged; fewer may be a short outage."""
RETRY_BASE_SECONDS = 1.0
RETRY_CAP_SECONDS = 60.0
TROUBLE = (NotSent, OutcomeUnknown, Unusable, Busy)


class TargetWorker:
    """Turns one store's stock targets into adjustments, each product on its own."""

    def __init__(
        self,
        context: StoreContext,
        targets: Targets,
        reader: StockReader,
        policies: Mapping[str, Policy],
        sends_expected_stock: Callable[[], bool],
        on_hold: Callable[[], bool],
    ) -> None:
        self._store = context.name
        self._clock = context.clock
        self._chance = context.chance
        self._adjustment_planned = context.signals.adjustment_planned
        self._targets = targets
        self._reader = reader
        self._policies = policies
        self._sends_expected_stock = sends_expected_stock
        self._on_hold = on_hold
        self._failures: dict[str, int] = {}
        self._bugs: dict[str, int] = {}
        self._stopped = False
        self._checked_at = ""
        self._loop = Loop(context.clock, has_work=context.has_work)
        context.signals.command_changed.connect(self.wake)
        context.signals.sending_resumed.connect(self.wake)

    def wake(self) -> None:
        """Check now for a new stock count, or for a command that ended."""
        self._loop.wake()

    async def run(self) -> None:
        """Work until cancelled. The database keeps the targets that wait."""
        await self._loop.run(self._process_all)

    async def _process_all(self) -> float:
        while await self.process_due():
            pass
        due = await self._targets.next_due(self._store, self._checked_at)
        return seconds_until(due, self._clock)

    async def process_due(self) -> int:
        """Process the reads and targets that are due now; return their number."""
        self._checked_at = to_text(self._clock.now())
        if self._on_hold() or await self._is_stopped():
            return 0
        readings = await self._targets.readings(self._store, AT_ONCE)
        targets = await self._targets.due(self._store, AT_ONCE)
        async with asyncio.TaskGroup() as group:
            for reading in readings:
                later = partial(self._read_later, reading)
                work = self._attempt(reading, self._read_back(reading), later)
                group.create_task(work)
            for target in targets:
                later = partial(self._wait, target)
                work = self._attempt(target, self._work(target), later)
                group.create_task(work)
        return len(readings) + len(targets)

    async def _attempt(
        self,
        about: Target | Reading,
        work: Coroutine[None, None, None],
        later: Callable[[str, str], Awaitable[None]],
    ) -> None:
        """Retry later after an unexpected error, and log the first one."""
        try:
            await work
        except Busy:
            raise
        except Exception as error:  # noqa: BLE001 - it must not stop all other counts
            failures = self._bugs[about.id] = self._bugs.get(about.id, 0) + 1
            reason = f"cannot be processed: {type(error).__name__}: {error}"
            if failures == 1:
                logger.bind(
                    action="target.failed", store=self._store, command=about.id
                ).opt(exception=error).error(
                    "stock count of product {} {}; Backhaul keeps retrying",
                    about.product_id,
                    reason,
                )
            await later(reason, self._after(failures))
        else:
            self._bugs.pop(about.id, None)

    async def _is_stopped(self) -> bool:
        reason = await self._targets.stopped(self._store)
        if reason is not None and not self._stopped:
            logger.bind(action="target.stopped", store=self._store).error(
                "store {}: stock counts are no longer applied: {}; once you have"
                " corrected that, run: backhaul stock resume {}",
                self._store,
                reason,
                self._store,
            )
        self._stopped = reason is not None
        return self._stopped

    async def _work(self, target: Target) -> None:
        policy = self._policies.get(target.instance, Policy())
        since, product = reach_back(target.count, policy), target.product_id
        began_at = to_text(self._clock.now())
        try:
            seen = await self._see(product, since, target.tries)
        except TROUBLE as error:
            due_at = self._failed(product, error)
            await self._wait(target, f"the product cannot be read: {error}", due_at)
            return
        self._failures.pop(product, None)
        if self._on_hold():
            return  # the history may show adjustments that are not known here
        names_level = self._sends_expected_stock()
        reading = StockReading(seen, policy, since, began_at, names_level)
        write = partial(self._targets.decide, target, reading)
        state, reason = await retry_until_stored(write, self._store, self._clock)
        self._log_state(target, state, reason)
        self._adjustment_planned.emit()

    async def _see(self, product: str, since: str, tries: int) -> ProductStock:
        if tries:
            return await self._reader.read_with_history(product, since)
        return await self._reader.read_levels(product)

    def _in(self, seconds: float) -> str:
        return to_text(self._clock.now() + timedelta(seconds=seconds))

    async def _wait(self, target: Target, reason: str, due_at: str) -> None:
        waits = Wait(reason, due_at, counts=False)
        write = partial(self._targets.wait, target, waits)
        await retry_until_stored(write, self._store, self._clock)

    def _failed(self, product: str, error: Exception) -> str:
        """Count a failed read and log the third one; return when to retry."""
        failures = self._failures[product] = self._failures.get(product, 0) + 1
        if failures == REPORTED_AFTER:
            logger.bind(action="target.unread", store=self._store).warning(
                "product {}: a stock count waits because the stock cannot be read: {};"
                " Backhaul keeps retrying",
                product,
                error,
            )
        return self._after(failures)

    def _after(self, failures: int) -> str:
        """Return when to retry after that many failures."""
        return self._in(
            delay_seconds(
                failures,
                base_seconds=RETRY_BASE_SECONDS,
                cap_seconds=RETRY_CAP_SECONDS,
                chance=self._chance(),
            )
        )

    async def _read_back(self, reading: Reading) -> None:
        """Verify that an adjustment moved its own variant and no other."""
        product = reading.product_id
        try:
            seen = await self._see(product, reading.as_of, reading.tries)
        except TROUBLE as error:
            due_at = self._failed(product, error)
            await self._note(reading, due_at)
            return
        self._failures.pop(product, None)
        around = await self._targets.other_variants(reading)
        others = {v: n for v, n in seen.levels.items() if v != reading.variant_id}
        moved = misdirected_variants(
            reading.delta, others, around.expected, around.shown_by
        )
        if moved and not around.shown_by and reading.tries < len(ROUNDS_SECONDS):
            await self._note(reading, self._in(ROUNDS_SECONDS[reading.tries]))
            return
        if moved:
            reason = (
                f"the adjustment of target {reading.id[:8]} for variant"
                f" {reading.variant_id} moved {', '.join(moved)} of product {product}"
            )
            await self._targets.stop(self._store, reason)
        await self._note(reading, None)

    async def _read_later(self, reading: Reading, _: str, due_at: str) -> None:
        await self._note(reading, due_at)

    async def _note(self, reading: Reading, due_at: str | None) -> None:
        write = partial(self._targets.read_back, reading, due_at)
        await retry_until_stored(write, self._store, self._clock)

    def _log_state(self, target: Target, state: TargetState, reason: str) -> None:
        if state in OPEN_TARGETS and state is not TargetState.HELD:
            return
        level = "WARNING" if state is TargetState.PARKED else "INFO"
        logger.bind(action=f"target.{state}", store=self._store, command=target.id).log(
            level,
            "stock count of product {} is {}: {}",
            target.product_id,
            state,
            reason,
        )
