"""Polls for what changed since the last poll."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING

from msgspec.structs import replace

from backhaul.core import strict_json
from backhaul.core.clock import earlier, from_text, to_text
from backhaul.core.fold import Drift, drift_of
from backhaul.core.rate_limit import Priority
from backhaul.errors import Unusable
from backhaul.platform import decoding
from backhaul.platform.history import PATH, is_past, move_of
from backhaul.sync.full_sync import log_result
from backhaul.sync.resource_types import BACKFILL, FULL, LEVELS, ORDERS, SINCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence
    from datetime import datetime

    from backhaul.core.clock import Clock
    from backhaul.platform.client import PlatformClient
    from backhaul.platform.history import HistoryMove
    from backhaul.platform.schemas import Entry
    from backhaul.store.mirror import Pass, Passes, Progress
    from backhaul.store.operations import KeyValues
    from backhaul.sync.diff_repair import Difference, MirrorRepair
    from backhaul.sync.resource_types import ResourceType

POLL = "incremental"
FIRST_POLL_REACH = timedelta(hours=1)
"""How far the first poll reaches back: our clock and the platform's may differ."""
LEAD = timedelta(minutes=1)
"""How far ahead of our clock a time may be and still count as seen."""
CHUNK_ROWS = 1_000
ENTRY = "inventory/entry"
"""The topic of a stock history row that does not describe a complete move."""


@dataclass(slots=True)
class Poll:
    """Polls the lists of one store; the key-value state has the newest time seen.

    A backfill since a time needs an instance of its own, and no poll continues from it.
    """

    client: PlatformClient
    repair: MirrorRepair
    passes: Passes
    marks: KeyValues
    clock: Clock
    grace_seconds: float
    overlap_seconds: float
    priority: Priority = Priority.INCREMENTAL
    _latest: str = field(default="", init=False)

    async def updated(self, kind: ResourceType) -> Pass:
        """Read the rows that changed, with the filter `updatedSince`."""
        since = await self._since(kind.name)
        return await self._run(kind, self._since_pages(kind, since))

    async def newest(self, kind: ResourceType) -> Pass:
        """Read the newest pages up to one without a change, if there is no filter."""
        self._latest = ""
        return await self._run(kind, self._newest_pages(kind))

    async def orders_since(self, since: str) -> Pass:
        """Read the orders that were placed or changed since a time."""
        at = await self._append_pages(ORDERS, self._since_pages(ORDERS, since), SINCE)
        ended = await self.passes.end(at.pass_id, 0, f"since {since}")
        await self.repair.caught_up()
        log_result(ended)
        return ended

    async def _run(
        self, kind: ResourceType, pages: AsyncIterator[Sequence[Difference]]
    ) -> Pass:
        at = await self._append_pages(kind, pages, POLL)
        await self._remember(kind.name)
        return await self._end(at.pass_id)

    async def _append_pages(
        self,
        kind: ResourceType,
        pages: AsyncIterator[Sequence[Difference]],
        job: str,
    ) -> Progress:
        at = await self.passes.begin(self.repair.store, job, kind.name)
        waiting: dict[str, Difference] = {}
        async for found in pages:
            # Pages overlap: of each object only the last row counts.
            waiting |= {one.row.id or one.row.body.hex(): one for one in found}
            if len(waiting) >= CHUNK_ROWS:
                at = await self._append_confirmed(kind, list(waiting.values()), at)
                waiting = {}
        return await self._append_confirmed(kind, list(waiting.values()), at)

    async def _end(self, pass_id: int) -> Pass:
        ended = await self.passes.end(pass_id, 0)
        if ended.found:
            await self.repair.caught_up()
            log_result(ended)
        return ended

    async def _append_confirmed(
        self, kind: ResourceType, waiting: Sequence[Difference], at: Progress
    ) -> Progress:
        """Wait for webhooks that are on their way; append and count the rest."""
        if not waiting:
            return at
        await self.clock.sleep(self.grace_seconds)
        found = await self.repair.still(kind, waiting)
        drift = (await self.repair.append(kind, found)).drift
        at = replace(at, read=at.read + drift.total())
        await self.passes.advance(at, [], drift)
        return at

    async def _since_pages(
        self, kind: ResourceType, since: str
    ) -> AsyncIterator[Sequence[Difference]]:
        """Yield differences, and continue from the last row's time instead of paging.

        The pages of a list sorted by update shift all the time. Only rows with the
        same time are read page by page.
        """
        number, before = 1, frozenset[str]()
        while True:
            began = to_text(self.clock.now())
            filters = {"updatedSince": since, "sort": "updatedAt"}
            listing = await self.client.page(kind.path, number, self.priority, filters)
            rows = [row for body in listing.rows for row in kind.rows(body, began)]
            found = await self.repair.differing(kind, rows, began)
            yield self.repair.not_quarantined(kind, found)
            last = max((row.updated_at for row in rows), default=since)
            self._note_newest([since, *(row.updated_at for row in rows)])
            ids = frozenset(row.id for row in rows)
            # A first page may equal the previous one: all its rows share one time.
            if (ids <= before and number > 1) or listing.has_more is False:
                return
            before = ids
            number = 1 if last > since else number + 1
            since = max(last, since)

    async def _newest_pages(
        self, kind: ResourceType
    ) -> AsyncIterator[Sequence[Difference]]:
        number, before = 0, frozenset[str]()
        while True:
            number += 1
            began = to_text(self.clock.now())
            listing = await self.client.page(kind.path, number, Priority.INCREMENTAL)
            rows = [row for body in listing.rows for row in kind.rows(body, began)]
            ids = frozenset(row.id for row in rows)
            differing = await self.repair.differing(kind, rows, began)
            found = self.repair.not_quarantined(kind, differing)
            yield found
            if not found or ids <= before or listing.has_more is False:
                return
            before = ids

    async def moved(self) -> Pass:
        """Read the stock history back to what an earlier poll read."""
        store = self.repair.store
        since = await self._since(LEVELS.name)
        moves = await self._moves(since)
        if await self.repair.unknown_moves(moves):
            await self.clock.sleep(self.grace_seconds)
            await self.repair.caught_up()
        unknown = await self.repair.unknown_moves(moves)
        at = await self.passes.begin(store, POLL, LEVELS.name)
        drift = await self._count(unknown)
        await self.repair.append_moves(unknown, to_text(self.clock.now()))
        await self.passes.advance(replace(at, read=len(moves)), [], drift)
        await self._remember(LEVELS.name)
        return await self._end(at.pass_id)

    async def _moves(self, since: str) -> list[HistoryMove]:
        """Return the moves since that time, the oldest first."""
        found: dict[str, Entry] = {}
        known: set[str | bytes] = set()
        number = 0
        while True:
            number += 1
            listing = await self.client.page(PATH, number, Priority.INCREMENTAL)
            rows, strange = _read(listing.rows, since)
            await self._quarantine(strange)
            shown = {row.id for row in rows} | set(strange)
            is_new = not shown <= known
            known |= shown
            found |= {row.id: row for row in rows if row.id not in found}
            times = [row.created_at for row in rows]
            self._note_newest(times)
            if not is_new or is_past(times, since) or listing.has_more is False:
                break
        moves = [move_of(row) for row in reversed(found.values())]
        return [move for move in moves if move is not None]

    async def _quarantine(self, strange: Sequence[bytes]) -> None:
        """Quarantine unreadable rows, so that they do not block the others."""
        for body in strange:
            read_at = to_text(self.clock.now())
            await self.repair.append_once(ENTRY, read_at, body)

    async def _count(self, moves: Sequence[HistoryMove]) -> Counter[Drift]:
        """Count the levels that differ; a gap in the ledger alone is not drift."""
        newest = {move.variant_id: move.entry for move in moves}
        lookup, store = self.repair.lookup, self.repair.store
        drift: Counter[Drift] = Counter()
        ids = list(newest)
        for start in range(0, len(ids), 500):
            part = ids[start : start + 500]
            held = await lookup.versions("level", store, part)
            for id_ in part:
                stock = str(newest[id_].stock_after).encode()
                digest = sha256(stock).digest()
                found = drift_of(held.get(id_), newest[id_].created_at, digest)
                drift.update([found] if found else [])
        return drift

    async def _since(self, kind: str) -> str:
        """Return the time from which the next poll reads, by the platform's clock."""
        self._latest = await self.marks.get(self._mark(kind)) or ""
        if self._latest > self._soon():
            # A time in the future: what changed before it is unknown.
            self._latest = ""
        if self._latest:
            back = timedelta(seconds=self.overlap_seconds)
            return earlier(self._latest, back)
        return to_text(await self._last_full_read(kind) - FIRST_POLL_REACH)

    async def _last_full_read(self, kind: str) -> datetime:
        """Return the start of the last backfill or full sync that read the whole list.

        A pass with a start in the future is ignored: the clock was ahead then.
        """
        ended = await self.repair.lookup.last_passes(self.repair.store)
        soon = self._soon()
        began = [
            each.began_at
            for each in ended
            if each.kind == kind
            and each.job in {BACKFILL, FULL}
            and not (each.unrepaired or each.note)
            and each.began_at <= soon
        ]
        return from_text(max(began)) if began else self.clock.now()

    def _note_newest(self, times: Iterable[str]) -> None:
        """Remember the newest time, unless it is in the future.

        Changes before a future time would never be polled.
        """
        soon = self._soon()
        self._latest = max([self._latest, *(at for at in times if at <= soon)])

    def _soon(self) -> str:
        return to_text(self.clock.now() + LEAD)

    async def _remember(self, kind: str) -> None:
        if self._latest:
            await self.marks.put(self._mark(kind), self._latest)

    def _mark(self, kind: str) -> str:
        return f"polled:{self.repair.store}:{kind}"


def _read(bodies: Iterable[bytes], since: str) -> tuple[list[Entry], list[bytes]]:
    """Read history rows; return incomplete ones separately, as bytes.

    Incomplete rows from before `since` are left out: an earlier poll saw them.
    """
    rows: list[Entry] = []
    strange: list[bytes] = []
    for body in bodies:
        try:
            row = decoding.entry(strict_json.decode_object(body))
        except Unusable:
            strange.append(body)
            continue
        move = move_of(row)
        if move is None or move.is_whole:
            rows.append(row)
        elif row.created_at >= since:
            strange.append(body)
    return rows, strange
