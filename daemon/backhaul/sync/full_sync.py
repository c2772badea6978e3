"""Compares one whole list with the mirror, and logs when it cannot be read."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from typing import TYPE_CHECKING

from loguru import logger
from msgspec import Struct, field
from msgspec.structs import replace

from backhaul.core.clock import is_cancelled
from backhaul.core.fold import Drift
from backhaul.errors import BackhaulError
from backhaul.sync.list_pass import ListPass, page_fetcher
from backhaul.sync.resource_types import BACKFILL, FULL, KINDS, SINCE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from backhaul.core.clock import Clock
    from backhaul.core.rate_limit import Priority
    from backhaul.platform.client import PlatformClient
    from backhaul.store.mirror import Pass, Passes, Progress
    from backhaul.sync.deletion_check import DeletionCheck
    from backhaul.sync.diff_repair import Difference, MirrorRepair
    from backhaul.sync.list_pass import ListPage
    from backhaul.sync.resource_types import ListRow, ResourceType


PAGES_WAITING = 8
"""The most pages that are fetched and not compared yet."""


class PassProgress(Struct, frozen=True):
    """How far a pass has come, for a progress display."""

    store: str
    kind: str
    read: int
    total: int | None
    page: int = 0
    ended: bool = False


class _Page(Struct):
    """A page whose differences wait until `due`: webhooks may still report them."""

    shown: ListPage
    found: Sequence[Difference]
    due: float


class FullSync(Struct):
    """One pass of `job` over one list of one store. Call `run` once."""

    job: str
    kind: ResourceType
    client: PlatformClient
    repair: MirrorRepair
    passes: Passes
    check: DeletionCheck
    clock: Clock
    priority: Priority
    grace_seconds: float = 0.0
    watch: Callable[[PassProgress], None] = lambda _: None
    _furthest: int = 0
    _waiting: deque[_Page] = field(default_factory=deque)

    async def run(self) -> Pass:
        """Read to the end, from where an earlier run was interrupted."""
        store = self.repair.store
        at = await self.passes.begin(store, self.job, self.kind.name)
        # Fold what an earlier run appended; otherwise it would be appended twice.
        await self.repair.caught_up()
        fetch = page_fetcher(self.kind, self.client, self.clock, self.priority)
        list_pass = ListPass(
            fetch, self.kind.deletable, self._log_ignored_pages, at.page, at.total
        )
        at = await self._read_pages(at, list_pass)
        at = await self._flush(at, to_the_end=True)
        if self.job == FULL:
            at = await self._check_newest(at, list_pass)
        return await self._conclude(at)

    async def _read_pages(self, at: Progress, list_pass: ListPass) -> Progress:
        """Compare one page while the next ones are fetched."""
        pages: asyncio.Queue[ListPage | Exception | None]
        pages = asyncio.Queue(PAGES_WAITING)

        async def fetch() -> None:
            try:
                async for shown in list_pass.pages():
                    await pages.put(shown)
            except Exception as error:  # noqa: BLE001 - raised after the pages before
                await pages.put(error)
            else:
                await pages.put(None)

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fetch())
                while (shown := await pages.get()) is not None:
                    if isinstance(shown, Exception):
                        raise shown
                    await self._take(shown)
                    at = await self._flush(at)
        except BaseExceptionGroup as failed:
            if is_cancelled():
                raise asyncio.CancelledError from None
            raise failed.exceptions[0] from None
        return at

    async def _take(self, shown: ListPage) -> None:
        if shown.page <= self._furthest:
            # A page that was read before: its rows must not be appended twice.
            await self.repair.caught_up()
        self._furthest = max(self._furthest, shown.page)
        found = await self.repair.differing(self.kind, shown.rows, shown.began_at)
        due = self.clock.monotonic() + (self.grace_seconds if found else 0.0)
        self._waiting.append(_Page(shown, found, due))

    async def _flush(self, at: Progress, to_the_end: bool = False) -> Progress:
        """Append the differences of each page that is due, and save the progress."""
        while self._waiting:
            page = self._waiting[0]
            wait = page.due - self.clock.monotonic()
            if wait > 0:
                if not to_the_end:
                    break
                await self.clock.sleep(wait)
            self._waiting.popleft()
            at = await self._append_page(page, at)
        return at

    async def _append_page(self, page: _Page, at: Progress) -> Progress:
        found = page.found
        if self.grace_seconds:
            found = await self.repair.still(self.kind, found)
        appended = await self.repair.append(self.kind, found)
        shown = page.shown
        read = at.read + len(shown.rows)
        at = replace(at, page=shown.page, total=shown.total, read=read)
        seen = [row.id for row in shown.rows if row.id] if self.job == FULL else []
        events = appended.events if self.job == FULL else []
        await self.passes.advance(at, seen, appended.drift, events)
        step = PassProgress(
            self.repair.store, self.kind.name, read, shown.total, shown.page
        )
        self.watch(step)
        return at

    async def _not_applied(self, pass_id: int) -> list[ListRow]:
        """Return the rows that this pass appended and the mirror did not apply."""
        await self.repair.caught_up()
        lookup, kind = self.repair.lookup, KINDS[self.kind.name]
        left: dict[str | bytes, ListRow] = {}
        after = 0
        while some := await lookup.repairs(pass_id, after):
            after = some[-1][0]
            rows = [row for _, body in some for row in kind.rows(body, "")]
            # If an object was appended more than once, its newest row counts.
            last = {row.id or row.body: row for row in rows}
            differing = await self.repair.differing(kind, list(last.values()), "")
            left = {key: left[key] for key in left.keys() - last.keys()}
            left |= {one.row.id or one.row.body: one.row for one in differing}
        return list(left.values())

    async def _check_newest(self, at: Progress, list_pass: ListPass) -> Progress:
        """Read the newest pages again for rows that appeared during the pass."""
        store, number = self.repair.store, 0
        before = frozenset[str]()
        while True:
            number += 1
            shown = await list_pass.fetch(number)
            ids = [row.id for row in shown.rows if row.id]
            lookup = self.repair.lookup
            if shown.ids <= before or await lookup.all_seen(
                self.kind.name, store, at.pass_id, ids
            ):
                return at
            before = shown.ids
            await self._take(replace(shown, page=at.page, total=at.total))
            at = await self._flush(at, to_the_end=True)

    async def _conclude(self, at: Progress) -> Pass:
        unrepaired = 0
        if self.job == FULL:
            drift, lost = await self.check.check(self.kind, at.pass_id)
            await self.passes.advance(at, [], drift)
            open_ = await self._not_applied(at.pass_id)
            unrepaired = lost + await self.check.resolve(self.kind, open_)
        ended = await self.passes.end(at.pass_id, unrepaired)
        store = self.repair.store
        self.watch(
            PassProgress(store, self.kind.name, ended.read, ended.read, ended=True)
        )
        log_result(ended)
        return ended

    def _log_ignored_pages(self) -> None:
        store, kind = self.repair.store, self.kind.name
        logger.bind(action="reconcile.pages_ignored", store=store).warning(
            "store {}: the platform ignores page numbers and shows all {} on every"
            " page; the pass ends after the first page",
            store,
            kind,
        )


def log_result(ended: Pass) -> None:
    """Log what a pass found: as a warning if the mirror differed."""
    found = {drift.value: getattr(ended, drift.value) for drift in Drift}
    first = ended.job in {BACKFILL, SINCE}
    words = ", ".join(
        f"{n} {_FIRST_READ.get(name, name) if first else name}"
        for name, n in Counter(found).items()
        if n
    )
    drifted = not first and bool(words)
    level = "WARNING" if drifted or ended.unrepaired else "INFO"
    logger.bind(action=f"reconcile.{_WORDS[ended.job]}", store=ended.store).log(
        level,
        "store {}: {} {} read, {}",
        ended.store,
        ended.read,
        ended.kind,
        (words or "no differences")
        + (f"; {ended.unrepaired} not repaired" if ended.unrepaired else ""),
    )


_FIRST_READ = {Drift.MISSED.value: "added", Drift.STALE.value: "updated"}
"""What the first read of a list does. Later, a row that the mirror lacks was missed."""
_WORDS = {
    BACKFILL: "backfilled",
    SINCE: "backfilled",
    FULL: "synced",
    "incremental": "polled",
}


class GivenUp(BackhaulError):
    """A pass on demand made no progress for too long; what it read is kept."""


class StallTimer(Struct):
    """Measures how long the reads of one list have failed without a new page."""

    clock: Clock
    _page: int = 0
    _since: float | None = None

    def note(self, step: PassProgress) -> None:
        """Record progress. A page that every retry reads again is no progress."""
        if step.page > self._page:
            self._page, self._since = step.page, None

    def seconds(self) -> float:
        """Return the seconds since the first failure after the last new page."""
        now = self.clock.monotonic()
        self._since = now if self._since is None else self._since
        return now - self._since


class FailureLog(Struct):
    """Logs failing reads once, each by its job and list.

    An outage makes every list fail, every minute.
    """

    store: str
    _failing: dict[tuple[str, str], str] = field(default_factory=dict)

    def add(self, reading: tuple[str, str], error: Exception) -> None:
        """Record that a read failed; log a cause that is new."""
        is_foreseen = isinstance(error, BackhaulError)
        said = str(error) if is_foreseen else f"{type(error).__name__}: {error}"
        is_news = reading not in self._failing and said not in self._failing.values()
        self._failing.setdefault(reading, said)
        if is_news:
            logger.bind(action="reconcile.failed", store=self.store).opt(
                exception=None if is_foreseen else error
            ).log(
                "WARNING" if is_foreseen else "ERROR",
                "store {}: reading the platform failed: {}; Backhaul keeps retrying",
                self.store,
                said,
            )

    def drop(self, reading: tuple[str, str]) -> None:
        """Record that a failing read is not retried."""
        self._failing.pop(reading, None)

    def resolve(self, reading: tuple[str, str]) -> None:
        """Record that a read succeeded; log when no read fails any longer."""
        if self._failing.pop(reading, None) is not None and not self._failing:
            logger.bind(action="reconcile.resumed", store=self.store).warning(
                "store {}: every list can be read again", self.store
            )
