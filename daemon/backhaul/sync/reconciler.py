"""Schedules the syncs that keep one store's mirror equal to the platform."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from math import inf
from typing import TYPE_CHECKING

from loguru import logger
from msgspec.structs import replace

from backhaul.core.backoff import delay_seconds
from backhaul.core.clock import to_text
from backhaul.core.rate_limit import Priority
from backhaul.errors import Fatal
from backhaul.platform.client import ReadRefused
from backhaul.sync.deletion_check import DeletionCheck
from backhaul.sync.full_sync import FailureLog, FullSync, GivenUp, StallTimer
from backhaul.sync.incremental_sync import POLL, Poll
from backhaul.sync.list_pass import NOT_OFFERED, NotOffered, first_offered
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

    from backhaul.core.clock import Clock
    from backhaul.platform.client import ShopClient, StoreFacts
    from backhaul.settings import Reconcile
    from backhaul.store.contract import Marks
    from backhaul.store.reconciling import Sweep, Sweeps
    from backhaul.store.rereads import Rereads
    from backhaul.sync.diff_repair import MirrorRepair
    from backhaul.sync.full_sync import PassProgress
    from backhaul.sync.resource_types import ResourceType

RETRY_BASE_SECONDS = 1.0
RETRY_CAP_SECONDS = 60.0
LATE_SECONDS = 600.0
"""After so long without a new page nothing waits for a list's first reading."""
FEATURE = "updatedSince"


class Reconciler:
    """The reading back of one store."""

    def __init__(
        self,
        client: ShopClient,
        repair: MirrorRepair,
        sweeps: Sweeps,
        rereads: Rereads,
        marks: Marks,
        clock: Clock,
        chance: Callable[[], float],
        facts: Callable[[], StoreFacts],
        asked: Callable[[], None],
        settings: Reconcile,
    ) -> None:
        self._store = repair.store
        self._client = client
        self.repair = repair
        self._sweeps = sweeps
        self._rereads = rereads
        self._marks = marks
        self._clock = clock
        self._chance = chance
        self._facts = facts
        self._asked = asked
        self._settings = settings
        self._poll = Poll(
            client,
            repair,
            sweeps,
            marks,
            clock,
            settings.grace,
            settings.overlap,
        )
        self._looks = asyncio.Event()
        self._wanted = {name: asyncio.Event() for name in KINDS}
        self._read = {name: asyncio.Event() for name in KINDS}
        self._sweep: tuple[str, set[str]] | None = None
        self._shrunk: dict[str, int] = {}
        self._troubles = FailureLog(repair.store)
        self._awaited = set(KINDS)
        self.filled = asyncio.Event()
        self.guard: Callable[[], Awaitable[None]] | None = None
        self.looked: Callable[[str, str], Awaitable[None]] | None = None
        self.walked: Callable[[str, str], Awaitable[None]] | None = None
        self._busy: defaultdict[tuple[str, str], asyncio.Lock] = defaultdict(
            asyncio.Lock
        )

    def poll(self) -> None:
        """Look for what is new; called by the scheduled job."""
        self._looks.set()

    async def look(self, kinds: Collection[str] = tuple(KINDS)) -> list[Sweep]:
        """Look for what is new, once; return what was found."""
        async with self._busy[POLL, ""]:
            return await self._look(kinds)

    async def _look(self, kinds: Collection[str]) -> list[Sweep]:
        ended: list[Sweep] = []
        # Levels first: a product that is read has its levels read again as well.
        for name in sorted(kinds, key=lambda name: name != LEVELS.name):
            try:
                ended += await self._poll_kind(KINDS[name])
            except Fatal:
                raise
            except Exception as error:  # noqa: BLE001 - it is told, and tried again
                self._troubles.met((POLL, name), error)
            else:
                self._troubles.over((POLL, name))
        return ended

    def sweep(self) -> None:
        """Walk over everything; called by the scheduled job."""
        if self._sweep is None:
            self._sweep = to_text(self._clock.now()), set(KINDS)
        self._want(KINDS)

    def _want(self, kinds: Iterable[str]) -> None:
        for name in kinds:
            self._wanted[name].set()

    async def run(self) -> None:
        """Read each list once, then look and walk when told to, until cancelled."""
        if self.guard is not None:
            # First of all: what happens during a long reading is told by webhook.
            await self.guard()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._filling())
            group.create_task(self._looking())
            for name in KINDS:
                group.create_task(self._walking(name))

    async def _filling(self) -> None:
        if self._settings.backfill_on_start:
            await self.backfill()
        self._have_read(KINDS)

    def _have_read(self, kinds: Iterable[str]) -> None:
        """Look for what is new in lists from now on: all that they had was read."""
        for name in kinds:
            self._read[name].set()
        self._await_no_longer(kinds)
        self.poll()

    def _await_no_longer(self, kinds: Iterable[str]) -> None:
        self._awaited.difference_update(kinds)
        if not self._awaited:
            self.filled.set()

    async def _looking(self) -> None:
        while True:
            await self._looks.wait()
            self._looks.clear()
            began = to_text(self._clock.now())
            if self.guard is not None:
                await self.guard()
            ended = await self.look([n for n in KINDS if self._read[n].is_set()])
            if self.looked is not None:
                await self.looked(began, _summary(ended))

    async def _walking(self, name: str) -> None:
        await self._read[name].wait()
        while True:
            await self._wanted[name].wait()
            self._wanted[name].clear()
            await self.walk(FULL, [name])
            await self._tell_walked(name)

    async def _tell_walked(self, name: str) -> None:
        """Tell when the last of the lists was walked over that a sweep asked for."""
        if self._sweep is None:
            return
        began, left = self._sweep
        left.discard(name)
        if not left:
            self._sweep = None
            if self.walked is not None:
                await self.walked(began, f"read {len(KINDS)} of {len(KINDS)} lists")

    async def backfill(self) -> None:
        """Read what was never read, on from where it was stopped; then hold it all
        against the mirror, which has moved meanwhile."""
        mark = f"backfill:{self._store}"
        if await self._marks.get(mark):
            return
        began = to_text(self._clock.now())
        ended = await self.repair.look.sweeps(self._store)
        done = {sweep.kind for sweep in ended if sweep.job == BACKFILL}
        self._have_read(done)
        await asyncio.gather(*(self._fill(name) for name in KINDS.keys() - done))
        await self._marks.put(mark, began)
        self.sweep()

    async def _fill(self, name: str) -> None:
        await self.walk(BACKFILL, [name])
        self._have_read([name])

    async def walk(
        self,
        job: str,
        kinds: Collection[str],
        watch: Callable[[PassProgress], None] = lambda _: None,
        patience_seconds: float = inf,
    ) -> list[Sweep]:
        """Walk over lists beside each other; each tries until it has come through.

        Raises GivenUp where one has failed for so long without a new page.
        """
        return await asyncio.gather(
            *(
                self._insist(job, KINDS[name], watch, patience_seconds)
                for name in sorted(kinds)
            )
        )

    async def _insist(
        self,
        job: str,
        kind: ResourceType,
        watch: Callable[[PassProgress], None],
        patience_seconds: float,
    ) -> Sweep:
        failures, stuck = 0, StallTimer(self._clock)

        def see(step: PassProgress) -> None:
            stuck.see(step)
            watch(step)

        while True:
            try:
                ended = await self._walk_kind(job, kind, see)
            except Fatal:
                raise
            except Exception as error:  # noqa: BLE001 - it is told, and tried again
                self._troubles.met((job, kind.name), error)
                if stuck.seconds() >= patience_seconds:
                    self._troubles.given_up((job, kind.name))
                    raise GivenUp(str(error)) from None
            else:
                self._troubles.over((job, kind.name))
                return ended
            failures += 1
            if stuck.seconds() >= LATE_SECONDS:
                self._do_without(kind.name)
            await self._clock.sleep(
                delay_seconds(
                    failures,
                    base_seconds=RETRY_BASE_SECONDS,
                    cap_seconds=RETRY_CAP_SECONDS,
                    chance=self._chance(),
                )
            )

    def _do_without(self, name: str) -> None:
        """Wait no longer for a list that cannot be read, unless none can be."""
        if name in self._awaited and self._has_read_any():
            logger.bind(action="reconcile.not_awaited", store=self._store).warning(
                "store {}: {} cannot be read: what waits for them may run out of time",
                self._store,
                name,
            )
            self._await_no_longer([name])

    def _has_read_any(self) -> bool:
        return any(read.is_set() for read in self._read.values())

    async def _walk_kind(
        self, job: str, kind: ResourceType, watch: Callable[[PassProgress], None]
    ) -> Sweep:
        """Walk over one list, by one walk of a kind at a time."""
        async with self._busy[job, kind.name]:
            return await self._walk_offered(job, kind, watch)

    async def _walk_offered(
        self, job: str, kind: ResourceType, watch: Callable[[PassProgress], None]
    ) -> Sweep:
        """Walk; a list that is not offered ends the walk with a note."""

        async def read(way: ResourceType) -> Sweep:
            if way is not kind:
                await self._begin_anew(job, kind)
            return await self._work(job, way, watch).run()

        try:
            return await first_offered(kind, read)
        except NotOffered as error:
            refused = str(error)
        logger.bind(action="reconcile.skipped", store=self._store).warning(
            "store {}: {} are not read: {}", self._store, kind.name, refused
        )
        at = await self._sweeps.begin(self._store, job, kind.name)
        return await self._sweeps.end(at.sweep, 0, refused)

    async def _begin_anew(self, job: str, kind: ResourceType) -> None:
        """Go back to the first page: another list has other pages."""
        at = await self._sweeps.begin(self._store, job, kind.name)
        await self._sweeps.advance(replace(at, page=0, total=None), [], {})

    def _work(
        self, job: str, kind: ResourceType, watch: Callable[[PassProgress], None]
    ) -> FullSync:
        priority = Priority.INCREMENTAL if job == POLL else Priority.SWEEP
        absence = DeletionCheck(
            self._client,
            self.repair,
            self._sweeps,
            self._rereads,
            self._asked,
            self._clock,
            priority,
        )
        return FullSync(
            job,
            kind,
            self._client,
            self.repair,
            self._sweeps,
            absence,
            self._clock,
            priority,
            0.0 if job == BACKFILL else self._settings.grace,
            watch,
        )

    async def _poll_kind(self, kind: ResourceType) -> list[Sweep]:
        """Look for what is new in the best way that the platform offers."""
        try:
            ended = [await self._poll_by_best(kind)]
            if kind in (PRODUCTS, CUSTOMERS):
                await self._check_shrunk(kind)
        except ReadRefused as error:
            if error.status not in NOT_OFFERED:
                raise
            return []
        return ended

    async def _poll_by_best(self, kind: ResourceType) -> Sweep:
        if kind is not LEVELS:
            by_update = FEATURE in self._facts().features
            look = self._poll.updated if by_update else self._poll.newest
            return await look(kind)
        try:
            return await self._poll.moved()
        except ReadRefused as error:
            if error.status not in NOT_OFFERED:
                raise
        # A level has neither a history nor a place in its list that would move.
        return await self._walk_kind(POLL, kind, lambda _: None)

    async def _check_shrunk(self, kind: ResourceType) -> None:
        """Walk over a list that is shorter than the mirror: a deletion was missed.

        Twice in a row, or it may be news on its way; the same surplus walks but once.
        """
        surplus = await self._surplus(kind)
        if surplus > 0:
            await self._clock.sleep(self._settings.grace)
            surplus = min(surplus, await self._surplus(kind))
        if surplus > 0 and surplus != self._shrunk.get(kind.name):
            self._want([kind.name])
        self._shrunk[kind.name] = surplus

    async def _surplus(self, kind: ResourceType) -> int:
        only_total = {"limit": 1}
        listing = await self._client.page(
            kind.path, 1, Priority.INCREMENTAL, only_total
        )
        if listing.total is None:
            return 0
        await self.repair.caught_up()
        held = await self.repair.look.count(kind.singular, self._store)
        return held - listing.total


def _summary(ended: Collection[Sweep]) -> str:
    return f"read {len(ended)} of {len(KINDS)} lists"
