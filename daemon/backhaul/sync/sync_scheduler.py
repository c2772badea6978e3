"""Schedules the syncs that keep one store's mirror equal to the platform."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from math import inf
from typing import TYPE_CHECKING

from loguru import logger
from msgspec import Struct
from msgspec.structs import replace

from backhaul.core.backoff_and_circuit import delay_seconds
from backhaul.core.clock import to_text
from backhaul.core.rate_limit import Priority
from backhaul.errors import Fatal
from backhaul.platform.client import NOT_OFFERED, ReadRefused
from backhaul.runtime.loop import Loop
from backhaul.sync.deletion_check import DeletionCheck
from backhaul.sync.full_sync import FailureLog, FullSync, GivenUp, StallTimer
from backhaul.sync.incremental_sync import POLL, Poll
from backhaul.sync.list_pass import NotOffered, first_offered
from backhaul.sync.order_backfill import FEATURE, OrderBackfill
from backhaul.sync.resource_types import (
    BACKFILL,
    CUSTOMERS,
    FULL,
    KINDS,
    LEVELS,
    PRODUCTS,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable

    from backhaul.platform.client import PlatformClient, StoreFacts
    from backhaul.runtime.signals import StoreContext
    from backhaul.settings import Reconcile
    from backhaul.store.inbox import RefetchQueue
    from backhaul.store.mirror import Pass, Passes
    from backhaul.store.operations import KeyValues
    from backhaul.sync.diff_repair import MirrorRepair
    from backhaul.sync.full_sync import PassProgress
    from backhaul.sync.resource_types import ResourceType

RETRY_BASE_SECONDS = 1.0
RETRY_CAP_SECONDS = 60.0
LATE_SECONDS = 600.0
"""Nothing waits any longer for the first read of a list that made no progress."""


class SyncState(Struct, frozen=True):
    """Where the syncs of a store keep what they have read, and what they still read."""

    passes: Passes
    refetch_queue: RefetchQueue
    marks: KeyValues


async def nothing() -> None:
    """Do nothing: no subscription is to be checked."""


class Reconciler:
    """Runs backfill, polls and full syncs of one store."""

    def __init__(
        self,
        context: StoreContext,
        client: PlatformClient,
        repair: MirrorRepair,
        state: SyncState,
        facts: Callable[[], StoreFacts],
        settings: Reconcile,
        check_subscription: Callable[[], Awaitable[None]] = nothing,
    ) -> None:
        self._store = context.name
        self._clock = clock = context.clock
        self._chance = context.chance
        self._refetch_queued = context.signals.refetch_queued
        self._report = context.report
        self._client = client
        self.repair = repair
        self._passes = state.passes
        self._refetch_queue = state.refetch_queue
        self._marks = state.marks
        self._facts = facts
        self._settings = settings
        self._check_subscription = check_subscription
        polls = (client, repair, state.passes, state.marks, clock)
        times = (settings.grace, settings.overlap)
        self._incremental = Poll(*polls, *times)
        self._poll_loop = Loop(clock, at_start=False)
        self._full_loops = {name: Loop(clock, at_start=False) for name in KINDS}
        self._read = {name: asyncio.Event() for name in KINDS}
        self._full_sync: tuple[str, set[str]] | None = None
        self._shrunk: dict[str, int] = {}
        self._failures = FailureLog(repair.store)
        self.orders = OrderBackfill(
            Poll(*polls, *times, Priority.SWEEP),
            state.marks,
            facts,
            self._failures,
            clock,
            self._chance,
        )
        self._awaited = set(KINDS)
        self.filled = asyncio.Event()
        self._busy: defaultdict[tuple[str, str], asyncio.Lock] = defaultdict(
            asyncio.Lock
        )

    def request_poll(self) -> None:
        """Start a poll soon; the scheduled job calls this."""
        self._poll_loop.wake()

    async def poll(self, kinds: Collection[str] = tuple(KINDS)) -> list[Pass]:
        """Read once what changed since the last poll; return the finished passes."""
        async with self._busy[POLL, ""]:
            return await self._poll_lists(kinds)

    async def _poll_lists(self, kinds: Collection[str]) -> list[Pass]:
        ended: list[Pass] = []
        # Levels first: reading a product refetches its levels too.
        for name in sorted(kinds, key=lambda name: name != LEVELS.name):
            try:
                ended += await self._poll_offered(KINDS[name])
            except Fatal:
                raise
            except Exception as error:  # noqa: BLE001 - logged, then retried
                self._failures.add((POLL, name), error)
            else:
                self._failures.resolve((POLL, name))
        return ended

    def request_full_sync(self) -> None:
        """Start a full sync of every list soon; the scheduled job calls this."""
        if self._full_sync is None:
            self._full_sync = to_text(self._clock.now()), set(KINDS)
        self._request(KINDS)

    def _request(self, kinds: Iterable[str]) -> None:
        for name in kinds:
            self._full_loops[name].wake()

    async def run(self) -> None:
        """Backfill, then poll and fully sync on request. Runs until cancelled."""
        # First: webhooks have to report what changes during a long backfill.
        await self._check_subscription()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._backfill_first())
            group.create_task(self._poll_loop.run(self._run_poll))
            group.create_task(self.orders.run())
            for name in KINDS:
                group.create_task(self._sync_fully(name))

    async def _backfill_first(self) -> None:
        if self._settings.backfill_on_start:
            await self.backfill()
        self._mark_read(KINDS)

    def _mark_read(self, kinds: Iterable[str]) -> None:
        """Record that lists were read completely; they are polled from now on."""
        for name in kinds:
            self._read[name].set()
        self._stop_waiting(kinds)
        self.request_poll()

    def _stop_waiting(self, kinds: Iterable[str]) -> None:
        self._awaited.difference_update(kinds)
        if not self._awaited:
            self.filled.set()

    async def _run_poll(self) -> None:
        began = to_text(self._clock.now())
        await self._check_subscription()
        ended = await self.poll([n for n in KINDS if self._read[n].is_set()])
        await self._report("reconcile_incremental", began, _summary(ended))

    async def _sync_fully(self, name: str) -> None:
        """Read a list on each request, after it was read for the first time."""

        async def sync() -> None:
            await self.read_lists(FULL, [name])
            await self._report_full_sync(name)

        await self._read[name].wait()
        await self._full_loops[name].run(sync)

    async def _report_full_sync(self, name: str) -> None:
        """Report the end of a full sync after the last of its lists."""
        if self._full_sync is None:
            return
        began, left = self._full_sync
        left.discard(name)
        if not left:
            self._full_sync = None
            said = f"read {len(KINDS)} of {len(KINDS)} lists"
            await self._report("reconcile_full", began, said)

    async def backfill(self) -> None:
        """Read every list that was never read completely; then request a full sync.

        A backfill that was interrupted continues where it stopped. The full sync is
        needed because the store changed meanwhile.
        """
        mark = f"backfill:{self._store}"
        if await self._marks.get(mark):
            return
        began = to_text(self._clock.now())
        ended = await self.repair.lookup.last_passes(self._store)
        done = {each.kind for each in ended if each.job == BACKFILL}
        self._mark_read(done)
        await asyncio.gather(*(self._fill(name) for name in KINDS.keys() - done))
        await self._marks.put(mark, began)
        self.request_full_sync()

    async def _fill(self, name: str) -> None:
        await self.read_lists(BACKFILL, [name])
        self._mark_read([name])

    async def read_lists(
        self,
        job: str,
        kinds: Collection[str],
        watch: Callable[[PassProgress], None] = lambda _: None,
        patience_seconds: float = inf,
    ) -> list[Pass]:
        """Read whole lists concurrently; each is retried until it succeeds.

        Raises GivenUp if a list fails for `patience_seconds` without a new page.
        """
        return await asyncio.gather(
            *(
                self._retry_until_read(job, KINDS[name], watch, patience_seconds)
                for name in sorted(kinds)
            )
        )

    async def _retry_until_read(
        self,
        job: str,
        kind: ResourceType,
        watch: Callable[[PassProgress], None],
        patience_seconds: float,
    ) -> Pass:
        failures, stalled = 0, StallTimer(self._clock)

        def see(step: PassProgress) -> None:
            stalled.note(step)
            watch(step)

        while True:
            try:
                ended = await self._read_list(job, kind, see)
            except Fatal:
                raise
            except Exception as error:  # noqa: BLE001 - logged, then retried
                self._failures.add((job, kind.name), error)
                if stalled.seconds() >= patience_seconds:
                    self._failures.drop((job, kind.name))
                    raise GivenUp(str(error)) from None
            else:
                self._failures.resolve((job, kind.name))
                return ended
            failures += 1
            if stalled.seconds() >= LATE_SECONDS:
                self._stop_waiting_if_late(kind.name)
            await self._clock.sleep(
                delay_seconds(
                    failures,
                    base_seconds=RETRY_BASE_SECONDS,
                    cap_seconds=RETRY_CAP_SECONDS,
                    chance=self._chance(),
                )
            )

    def _stop_waiting_if_late(self, name: str) -> None:
        """Stop waiting for a list that cannot be read, unless no list can be read."""
        if name in self._awaited and self._has_read_any():
            logger.bind(action="reconcile.not_awaited", store=self._store).warning(
                "store {}: {} could not be read for ten minutes; records that wait for"
                " them may now expire. Backhaul keeps retrying",
                self._store,
                name,
            )
            self._stop_waiting([name])

    def _has_read_any(self) -> bool:
        return any(read.is_set() for read in self._read.values())

    async def _read_list(
        self, job: str, kind: ResourceType, watch: Callable[[PassProgress], None]
    ) -> Pass:
        """Read one list; at most one pass of a job and list runs at a time."""
        async with self._busy[job, kind.name]:
            return await self._read_offered(job, kind, watch)

    async def _read_offered(
        self, job: str, kind: ResourceType, watch: Callable[[PassProgress], None]
    ) -> Pass:
        """Read one list; if the platform does not offer it, end with a note."""

        async def read(way: ResourceType) -> Pass:
            if way is not kind:
                await self._restart_pass(job, kind)
            return await self._work(job, way, watch).run()

        try:
            return await first_offered(kind, read)
        except NotOffered as error:
            refused = str(error)
        logger.bind(action="reconcile.skipped", store=self._store).warning(
            "store {}: {} are skipped, because they cannot be read: {}",
            self._store,
            kind.name,
            refused,
        )
        at = await self._passes.begin(self._store, job, kind.name)
        return await self._passes.end(at.pass_id, 0, refused)

    async def _restart_pass(self, job: str, kind: ResourceType) -> None:
        """Go back to the first page: the other endpoint has different pages."""
        at = await self._passes.begin(self._store, job, kind.name)
        await self._passes.advance(replace(at, page=0, total=None), [], {})

    def _work(
        self, job: str, kind: ResourceType, watch: Callable[[PassProgress], None]
    ) -> FullSync:
        priority = Priority.INCREMENTAL if job == POLL else Priority.SWEEP
        check = DeletionCheck(
            self._client,
            self.repair,
            self._passes,
            self._refetch_queue,
            self._refetch_queued.emit,
            self._clock,
            priority,
        )
        return FullSync(
            job,
            kind,
            self._client,
            self.repair,
            self._passes,
            check,
            self._clock,
            priority,
            0.0 if job == BACKFILL else self._settings.grace,
            watch,
        )

    async def _poll_offered(self, kind: ResourceType) -> list[Pass]:
        """Poll one list; return nothing if the platform does not offer it."""
        try:
            ended = [await self._poll_list(kind)]
            if kind in (PRODUCTS, CUSTOMERS):
                await self._check_shrunk(kind)
        except ReadRefused as error:
            if error.status not in NOT_OFFERED:
                raise
            return []
        return ended

    async def _poll_list(self, kind: ResourceType) -> Pass:
        if kind is not LEVELS:
            by_update = FEATURE in self._facts().features
            read = self._incremental.updated if by_update else self._incremental.newest
            return await read(kind)
        try:
            return await self._incremental.moved()
        except ReadRefused as error:
            if error.status not in NOT_OFFERED:
                raise
        # Without a stock history, only a read of the whole list finds changed levels.
        return await self._read_list(POLL, kind, lambda _: None)

    async def _check_shrunk(self, kind: ResourceType) -> None:
        """Request a full sync if a list is shorter than the mirror: a deletion was
        missed.

        The surplus is counted twice, because a webhook may be on its way. The same
        surplus requests only one full sync.
        """
        surplus = await self._surplus(kind)
        if surplus > 0:
            await self._clock.sleep(self._settings.grace)
            surplus = min(surplus, await self._surplus(kind))
        if surplus > 0 and surplus != self._shrunk.get(kind.name):
            self._request([kind.name])
        self._shrunk[kind.name] = surplus

    async def _surplus(self, kind: ResourceType) -> int:
        only_total = {"limit": 1}
        listing = await self._client.page(
            kind.path, 1, Priority.INCREMENTAL, only_total
        )
        if listing.total is None:
            return 0
        await self.repair.caught_up()
        held = await self.repair.lookup.count(kind.singular, self._store)
        return held - listing.total


def _summary(ended: Collection[Pass]) -> str:
    return f"read {len(ended)} of {len(KINDS)} lists"
