"""Tests of retention: what is erased for its age, and what stays."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.store.inbox import Arrival, Folded
from backhaul.store.operations import JobRun, Trigger
from backhaul.store.testing.command_scenes import at
from backhaul.store.testing.contract import FamilyTests
from backhaul.store.testing.scenes import without_decoding

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.inbox import MirrorWriter, StoredEvent
    from backhaul.store.read_records import EventDetail
    from backhaul.store.testing.contract import MovableClock

DAY = 86_400.0
KEEP = 30 * DAY


async def arrive(store: Store, clock: MovableClock, age: float, state: str = "") -> int:
    """Append an event so old, and fold it to a state if there is one."""
    received_at = at(clock, -age)
    event = await store.inbox.append(
        Arrival("main", "delivery", "orders/updated", received_at, b'{"a":1}', b"body")
    )

    def fold(stored: StoredEvent, _: MirrorWriter) -> Folded:
        return Folded(state, stored.topic, None, "order", "ord_1", "why")

    if state:
        await store.inbox.fold(without_decoding(fold), 1.0)
    return event


async def prune(store: Store, clock: MovableClock, slice_seconds: float = 1.0) -> int:
    """Prune until there is nothing more to do; return how many bodies were erased."""
    erased, more = 0, True
    while more:
        step = await store.retention.prune(at(clock, -KEEP), slice_seconds)
        erased, more = erased + step.erased, step.more
    return erased


async def event(store: Store, id_: int) -> EventDetail:
    """Return one event."""
    found = await store.read(lambda reader: reader.event(id_))
    assert found is not None
    return found


class RetentionConformance(FamilyTests):
    """Tests of `Store.retention`."""

    async def test_old_events_lose_body_and_headers_and_keep_their_outcome(
        self, store: Store, clock: MovableClock
    ) -> None:
        old = await arrive(store, clock, KEEP + DAY, "folded")
        new = await arrive(store, clock, KEEP - DAY, "folded")
        assert await prune(store, clock) == 1
        shown = await event(store, old)
        assert (shown.body, shown.headers) == (b"", b"")
        assert (shown.erased_at, shown.erased_by) == (at(clock), "retention")
        assert (shown.state, shown.object_id) == ("folded", "ord_1")
        kept = await event(store, new)
        assert (kept.body, kept.headers) == (b"body", b'{"a":1}')
        assert kept.erased_at is None
        assert await prune(store, clock) == 0

    async def test_an_event_that_is_not_folded_keeps_its_body(
        self, store: Store, clock: MovableClock
    ) -> None:
        waiting = await arrive(store, clock, KEEP + DAY)
        assert await prune(store, clock) == 0
        assert (await event(store, waiting)).body == b"body"

    async def test_an_event_in_quarantine_keeps_its_body_until_it_is_dropped(
        self, store: Store, clock: MovableClock
    ) -> None:
        bad = await arrive(store, clock, KEEP + DAY, "quarantined")
        assert await prune(store, clock) == 0
        assert (await event(store, bad)).body == b"body"
        (row,) = await store.read(lambda reader: reader.quarantine(9))
        await store.quarantine.drop(row.id, "ann", "seen")
        assert await prune(store, clock) == 1
        assert (await event(store, bad)).body == b""
        shown = await store.read(lambda reader: reader.quarantined(row.id))
        assert shown is not None
        assert shown.raw == b""

    async def test_slices_end_and_go_on(
        self, store: Store, clock: MovableClock
    ) -> None:
        for _ in range(3):
            await arrive(store, clock, KEEP + DAY, "folded")
        first = await store.retention.prune(at(clock, -KEEP), 0.0)
        assert (first.erased, first.more) == (1, True)
        assert await prune(store, clock, 0.0) == 2

    async def test_an_event_of_a_clock_that_was_ahead_is_as_old_as_the_next(
        self, store: Store, clock: MovableClock
    ) -> None:
        ahead = await arrive(store, clock, -DAY, "folded")
        old = await arrive(store, clock, KEEP + DAY, "folded")
        assert await prune(store, clock) == 2
        assert (await event(store, ahead)).body == (await event(store, old)).body == b""

    async def test_old_runs_of_jobs_are_deleted(
        self, store: Store, clock: MovableClock
    ) -> None:
        await store.job_runs.register({("poll", "main"): ""})
        for age in (KEEP + DAY, KEEP - DAY):
            began = at(clock, -age)
            run = JobRun(("poll", "main"), Trigger.SCHEDULE, began, began)
            await store.job_runs.record(run, began, "")
        await prune(store, clock)
        (left,) = await store.read(lambda reader: reader.job_runs(9))
        assert left.started_at == at(clock, DAY - KEEP)
