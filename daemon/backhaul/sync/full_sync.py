"""Compares one full list with the mirror, and logs when it cannot be read."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from typing import TYPE_CHECKING

from loguru import logger
from msgspec import Struct, field
from msgspec.structs import replace

from backhaul.core.clock import is_told_to_end
from backhaul.core.fold import Drift
from backhaul.errors import BackhaulError
from backhaul.sync.list_pass import ListPass, page_fetcher
from backhaul.sync.resource_types import BACKFILL, FULL, KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from backhaul.core.clock import Clock
    from backhaul.core.rate_limit import Priority
    from backhaul.platform.client import ShopClient
    from backhaul.store.reconciling import Progress, Sweep, Sweeps
    from backhaul.sync.deletion_check import DeletionCheck
    from backhaul.sync.diff_repair import Difference, MirrorRepair
    from backhaul.sync.list_pass import ListPage
    from backhaul.sync.resource_types import ListRow, ResourceType


PAGES_WAITING = 8
"""Pages that are fetched before the ones before them are worked on."""


class PassProgress(Struct, frozen=True):
    """How far a walk has come, for whoever watches."""

    store: str
    kind: str
    read: int
    total: int | None
    page: int = 0
    ended: bool = False


class _Page(Struct):
    """A page whose differences wait for the webhooks that may still tell of them."""

    shown: ListPage
    found: Sequence[Difference]
    due: float


class FullSync(Struct):
    """The walk of `job` over one kind of one store. `run` it once."""

    job: str
    kind: ResourceType
    client: ShopClient
    repair: MirrorRepair
    sweeps: Sweeps
    absence: DeletionCheck
    clock: Clock
    priority: Priority
    grace_seconds: float = 0.0
    watch: Callable[[PassProgress], None] = lambda _: None
    _furthest: int = 0
    _waiting: deque[_Page] = field(default_factory=deque)

    async def run(self) -> Sweep:
        """Walk to the end, from where an earlier run was stopped."""
        store = self.repair.store
        at = await self.sweeps.begin(store, self.job, self.kind.name)
        # What an earlier run handed in must be folded, or it were handed in again.
        await self.repair.caught_up()
        fetch = page_fetcher(self.kind, self.client, self.clock, self.priority)
        walk = ListPass(
            fetch, self.kind.deletable, self._tell_ignored, at.page, at.total
        )
        at = await self._walk(at, walk)
        at = await self._flush(at, to_the_end=True)
        if self.job == FULL:
            at = await self._catch_head(at, walk)
        return await self._conclude(at)

    async def _walk(self, at: Progress, walk: ListPass) -> Progress:
        """Work on one page while the next ones are on their way."""
        pages: asyncio.Queue[ListPage | None] = asyncio.Queue(PAGES_WAITING)

        async def fetch() -> None:
            async for shown in walk.pages():
                await pages.put(shown)
            await pages.put(None)

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fetch())
                while (shown := await pages.get()) is not None:
                    await self._take(shown)
                    at = await self._flush(at)
        except BaseExceptionGroup as failed:
            if is_told_to_end():
                raise asyncio.CancelledError from None
            raise failed.exceptions[0] from None
        return at

    async def _take(self, shown: ListPage) -> None:
        if shown.page <= self._furthest:
            # Seen before: what was handed in then must not be handed in again.
            await self.repair.caught_up()
        self._furthest = max(self._furthest, shown.page)
        found = await self.repair.differing(self.kind, shown.rows, shown.began_at)
        due = self.clock.monotonic() + (self.grace_seconds if found else 0.0)
        self._waiting.append(_Page(shown, found, due))

    async def _flush(self, at: Progress, to_the_end: bool = False) -> Progress:
        """Append what differs once it is due, and keep the progress, page by page."""
        while self._waiting:
            page = self._waiting[0]
            wait = page.due - self.clock.monotonic()
            if wait > 0:
                if not to_the_end:
                    break
                await self.clock.sleep(wait)
            self._waiting.popleft()
            at = await self._settle(page, at)
        return at

    async def _settle(self, page: _Page, at: Progress) -> Progress:
        found = page.found
        if self.grace_seconds:
            found = await self.repair.still(self.kind, found)
        handed_in = await self.repair.append(self.kind, found)
        shown = page.shown
        read = at.read + len(shown.rows)
        at = replace(at, page=shown.page, total=shown.total, read=read)
        seen = [row.id for row in shown.rows if row.id] if self.job == FULL else []
        events = handed_in.events if self.job == FULL else []
        await self.sweeps.advance(at, seen, handed_in.drift, events)
        step = PassProgress(
            self.repair.store, self.kind.name, read, shown.total, shown.page
        )
        self.watch(step)
        return at

    async def _not_taken(self, sweep: int) -> list[ListRow]:
        """Return what was handed in, by whichever run of the walk, and not taken."""
        await self.repair.caught_up()
        look, kind = self.repair.look, KINDS[self.kind.name]
        left: dict[str | bytes, ListRow] = {}
        after = 0
        while some := await look.handed_in(sweep, after):
            after = some[-1][0]
            rows = [row for _, body in some for row in kind.rows(body, "")]
            # Of an object that was handed in again what was read last counts.
            last = {row.id or row.body: row for row in rows}
            differing = await self.repair.differing(kind, list(last.values()), "")
            left = {key: left[key] for key in left.keys() - last.keys()}
            left |= {one.row.id or one.row.body: one.row for one in differing}
        return list(left.values())

    async def _catch_head(self, at: Progress, walk: ListPass) -> Progress:
        """Walk the newest pages again, for what came in after the walk began."""
        store, number = self.repair.store, 0
        before = frozenset[str]()
        while True:
            number += 1
            shown = await walk.fetch(number)
            ids = [row.id for row in shown.rows if row.id]
            look = self.repair.look
            if shown.ids <= before or await look.all_seen(
                self.kind.name, store, at.sweep, ids
            ):
                return at
            before = shown.ids
            await self._take(replace(shown, page=at.page, total=at.total))
            at = await self._flush(at, to_the_end=True)

    async def _conclude(self, at: Progress) -> Sweep:
        unrepaired = 0
        if self.job == FULL:
            drift, lost = await self.absence.ask(self.kind, at.sweep)
            await self.sweeps.advance(at, [], drift)
            open_ = await self._not_taken(at.sweep)
            unrepaired = lost + await self.absence.settle(self.kind, open_)
        ended = await self.sweeps.end(at.sweep, unrepaired)
        store = self.repair.store
        self.watch(
            PassProgress(store, self.kind.name, ended.read, ended.read, ended=True)
        )
        log_result(ended)
        return ended

    def _tell_ignored(self) -> None:
        store, kind = self.repair.store, self.kind.name
        logger.bind(action="reconcile.pages_ignored", store=store).warning(
            "store {}: the platform shows all {} on every page", store, kind
        )


def log_result(ended: Sweep) -> None:
    """Say what a walk found; aloud only where something was wrong."""
    found = {drift.value: getattr(ended, _FIELDS[drift]) for drift in Drift}
    words = ", ".join(f"{n} {name}" for name, n in Counter(found).items() if n)
    drifted = ended.job != BACKFILL and bool(words)
    level = "WARNING" if drifted or ended.unrepaired else "INFO"
    logger.bind(action=f"reconcile.{_WORDS[ended.job]}", store=ended.store).log(
        level,
        "store {}: {} {} read, {}",
        ended.store,
        ended.read,
        ended.kind,
        (words or "all as the mirror has it")
        + (f"; {ended.unrepaired} not repaired" if ended.unrepaired else ""),
    )


_FIELDS = {drift: drift.value for drift in Drift} | {Drift.ALIEN: "alien"}
_WORDS = {BACKFILL: "backfilled", FULL: "walked", "incremental": "looked"}


class GivenUp(BackhaulError):
    """A walk on demand brought no new page for too long; what was read is kept."""


class StallTimer(Struct):
    """For how long a walk over one list has failed without a new page."""

    clock: Clock
    _page: int = 0
    _since: float | None = None

    def see(self, step: PassProgress) -> None:
        """Take note of a page; those that are read again at each try are none."""
        if step.page > self._page:
            self._page, self._since = step.page, None

    def seconds(self) -> float:
        """Return how long that is, from the first failure that this was asked at."""
        now = self.clock.monotonic()
        self._since = now if self._since is None else self._since
        return now - self._since


class FailureLog(Struct):
    """Readings, each by its job and list, that fail; all of them are tried again.

    An outage meets every list, and does so every minute.
    """

    store: str
    _failing: dict[tuple[str, str], str] = field(default_factory=dict)

    def met(self, reading: tuple[str, str], error: Exception) -> None:
        """Take note that a reading failed."""
        is_foreseen = isinstance(error, BackhaulError)
        said = str(error) if is_foreseen else f"{type(error).__name__}: {error}"
        is_news = reading not in self._failing and said not in self._failing.values()
        self._failing.setdefault(reading, said)
        if is_news:
            logger.bind(action="reconcile.failed", store=self.store).opt(
                exception=None if is_foreseen else error
            ).log(
                "WARNING" if is_foreseen else "ERROR",
                "store {}: {}; tried again until it works",
                self.store,
                said,
            )

    def given_up(self, reading: tuple[str, str]) -> None:
        """Take note that a reading is not tried again."""
        self._failing.pop(reading, None)

    def over(self, reading: tuple[str, str]) -> None:
        """Take note that a reading came through."""
        if self._failing.pop(reading, None) is not None and not self._failing:
            logger.bind(action="reconcile.resumed", store=self.store).warning(
                "store {}: everything can be read again", self.store
            )
