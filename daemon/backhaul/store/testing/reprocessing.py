"""Tests of reprocessing: which events are folded again, and what becomes of them."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.store.inbox import Folded, Selection
from backhaul.store.testing.command_scenes import at
from backhaul.store.testing.event_scenes import (
    append,
    event_detail,
    folded_bodies,
    reprocess_with,
    webhook,
)
from backhaul.store.testing.mirror_scenes import rows_of
from backhaul.store.testing.scenes import StoreConformance

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.inbox import (
        MirrorWriter,
        StoredEvent,
    )
    from backhaul.store.testing.event_scenes import Fold
    from backhaul.store.testing.scenes import TestClock

DAY = 86_400.0
MANY = 4_100
"""More events than one slice of reprocessing scans."""
CHANGES_NOTHING = ("duplicate", "stale")
KEPT = [
    (before, after)
    for before in ("folded", "duplicate", "stale")
    for after in CHANGES_NOTHING
]
REPLACED = [
    *(("folded", "unhandled"), ("stale", "folded"), ("unhandled", "duplicate")),
    *(("quarantined", "stale"), ("folded", "quarantined"), ("unhandled", "folded")),
]


def to(state: str) -> Fold:
    """Return a fold that gives every event this state."""
    return lambda event, _: Folded(
        state, "again", "evt", "order", "ord_1", f"now {state}"
    )


async def reprocessed(
    store: Store, selection: Selection | None = None, *, confirming: bool = False
) -> list[int]:
    """Fold all selected events again; return their ids."""
    found: list[int] = []
    last: int | None = 0
    while last is not None:
        report = await reprocess_with(
            store, collect(found), selection, after=last, confirming=confirming
        )
        last = report.last
    return found


def collect(found: list[int]) -> Fold:
    """Return a fold that adds each event's id to a list, and changes nothing."""

    def fold(event: StoredEvent, _: MirrorWriter) -> Folded:
        found.append(event.id)
        return Folded("duplicate", event.topic)

    return fold


def quarantine(store: Store) -> list[tuple[object, ...]]:
    """Return key, state and reason of each row of the quarantine."""
    return rows_of(store, "quarantine", "key", "state", "reason")


class ReprocessingConformance(StoreConformance):
    """Tests of `Store.reprocessing`."""

    async def test_every_folded_event_is_folded_again_as_it_arrived(
        self, store: Store
    ) -> None:
        arrival = webhook("folded", "other", "orders/updated", second=7)
        await store.inbox.append(arrival)
        await append(store, "stale")
        await folded_bodies(store)
        seen: list[StoredEvent] = []

        def fold(event: StoredEvent, _: MirrorWriter) -> Folded:
            seen.append(event)
            return Folded("duplicate", event.topic)

        report = await reprocess_with(store, fold)
        assert (report.last, report.states) == (None, ("duplicate", "duplicate"))
        assert [each.id for each in seen] == [1, 2]
        first = seen[0]
        assert (first.store, first.kind, first.topic) == (
            *("other", "delivery", "orders/updated"),
        )
        assert (first.received_at, first.body) == (arrival.received_at, b"folded")

    async def test_an_event_that_waits_is_left_to_its_turn(self, store: Store) -> None:
        await append(store, "folded")
        await folded_bodies(store)
        await append(store, "folded")
        assert await reprocessed(store) == [1]
        assert (await event_detail(store, 2)).state == "received"
        assert await folded_bodies(store) == ["folded"]

    async def test_only_selected_events_are_folded_again(self, store: Store) -> None:
        for second, state in enumerate(("folded", "stale", "unhandled", "folded")):
            await store.inbox.append(webhook(state, second=second))
        await folded_bodies(store)
        since = "2026-03-01T12:00:02.000Z"
        for selection, expected in (
            (Selection(), [1, 2, 3, 4]),
            (Selection(ids=(4, 2, 99)), [2, 4]),
            (Selection(state="folded"), [1, 4]),
            (Selection(since=since), [3, 4]),
            (Selection(ids=(1, 2), state="folded"), [1]),
            (Selection(state="folded", since=since), [4]),
            (Selection(state="quarantined"), []),
        ):
            assert await reprocessed(store, selection) == expected

    async def test_a_selection_far_apart_is_found(self, store: Store) -> None:
        await append(store, *["stale"] * MANY)
        await folded_bodies(store)
        assert await reprocessed(store, Selection(ids=(1, MANY))) == [1, MANY]

    async def test_slices_end_in_time_and_go_on(
        self, store: Store, clock: TestClock
    ) -> None:
        await append(store, "folded", "folded", "folded")
        await folded_bodies(store)
        report = await reprocess_with(store, to("stale"), slice_seconds=0.0)
        assert (report.last, report.states) == (1, ("stale",))
        report = await reprocess_with(store, to("stale"), after=1, slice_seconds=0.0)
        assert (report.last, report.states) == (2, ("stale",))
        report = await reprocess_with(store, to("stale"), after=2, slice_seconds=0.0)
        assert (report.last, report.states) == (None, ("stale",))

        def slow(event: StoredEvent, _: MirrorWriter) -> Folded:
            clock.advance(0.4)
            return Folded("stale", event.topic)

        report = await reprocess_with(store, slow)
        assert (report.last, len(report.states)) == (None, 3)
        report = await reprocess_with(store, slow, slice_seconds=0.7)
        assert (report.last, len(report.states)) == (2, 2)

    async def test_confirming_reads_are_folded_apart(self, store: Store) -> None:
        topics = ("orders/read", "orders/reread", "orders/gone", "inventory/reread")
        for topic in topics:
            await append(store, "folded", topic=topic, kind="read")
        await append(store, "folded", topic="orders/reread")
        await folded_bodies(store)
        assert await reprocessed(store, confirming=True) == [2, 3, 4]
        assert await reprocessed(store) == [1, 5]

    async def test_an_erased_event_is_skipped(
        self, store: Store, clock: TestClock
    ) -> None:
        await append(store, "folded", "stale")
        await folded_bodies(store)
        while (await store.retention.prune(at(clock, DAY), 1.0)).more:
            pass
        assert await reprocessed(store) == []
        assert (await event_detail(store, 1)).state == "folded"

    @pytest.mark.parametrize(("before", "after"), KEPT)
    async def test_an_event_that_changes_nothing_now_keeps_its_outcome(
        self, before: str, after: str, store: Store
    ) -> None:
        await append(store, before)
        await folded_bodies(store)
        shown = await event_detail(store, 1)
        assert (await reprocess_with(store, to(after))).states == (after,)
        assert await event_detail(store, 1) == shown

    @pytest.mark.parametrize(("before", "after"), REPLACED)
    async def test_any_other_outcome_replaces_the_one_before(
        self, before: str, after: str, store: Store, clock: TestClock
    ) -> None:
        await append(store, before)
        await folded_bodies(store)
        clock.advance(60)
        await reprocess_with(store, to(after))
        shown = await event_detail(store, 1)
        assert (shown.state, shown.topic, shown.event_id) == (after, "again", "evt")
        assert (shown.kind, shown.object_id) == ("order", "ord_1")
        assert (shown.detail, shown.folded_at) == (f"now {after}", at(clock))

    async def test_an_event_that_can_be_folded_leaves_the_quarantine(
        self, store: Store
    ) -> None:
        await append(store, "quarantined", "quarantined", "quarantined")
        await folded_bodies(store)
        await store.inbox.append(webhook("quarantined", "other"))
        await folded_bodies(store)

        def fold(event: StoredEvent, _: MirrorWriter) -> Folded:
            state = "quarantined" if event.id == 2 else "folded"
            return Folded(state, event.topic, detail="still bad")

        report = await reprocess_with(store, fold, Selection(ids=(1, 2, 4)))
        assert report.states == ("folded", "quarantined", "folded")
        assert [(id_, one.detail) for id_, one in report.problems] == [(2, "still bad")]
        assert [row[:2] for row in quarantine(store)] == [
            *(("1", "retried"), ("2", "open"), ("3", "open"), ("4", "retried")),
        ]

    async def test_an_event_that_fails_again_is_in_quarantine_again(
        self, store: Store, clock: TestClock
    ) -> None:
        await append(store, "quarantined")
        await folded_bodies(store)
        await reprocess_with(store, to("folded"))
        clock.advance(60)
        await reprocess_with(store, to("quarantined"))
        assert quarantine(store) == [("1", "open", "now quarantined")]
        (row,) = await store.read(lambda reader: reader.quarantine(9))
        assert row.at == at(clock)

    async def test_a_folded_event_that_fails_now_is_in_quarantine(
        self, store: Store
    ) -> None:
        await append(store, "folded")
        await folded_bodies(store)
        await reprocess_with(store, to("quarantined"))
        (row,) = await store.read(lambda reader: reader.quarantine(9))
        assert (row.source, row.name, row.locator) == ("event", "main", "event 1")

    async def test_an_event_that_an_operator_dropped_stays_dropped(
        self, store: Store
    ) -> None:
        await append(store, "quarantined")
        await folded_bodies(store)
        await store.quarantine.discard(1, "ann", "seen")
        report = await reprocess_with(store, to("quarantined"))
        assert report.states == ("quarantined",)
        assert [row[:2] for row in quarantine(store)] == [("1", "dropped")]

    async def test_an_event_that_breaks_the_fold_stops_no_other(
        self, store: Store
    ) -> None:
        await append(store, "folded", "folded", "folded")
        await folded_bodies(store)

        def fold(event: StoredEvent, mirror: MirrorWriter) -> Folded:
            mirror.add_change("main", "order", f"ord_{event.id}", "seen", event.id)
            mirror.enqueue_refetch(
                "main", "order", f"ord_{event.id}", "a tie", event.id, rest_seconds=0
            )
            if event.id == 2:
                raise ZeroDivisionError("a bug")
            return Folded("folded", event.topic)

        report = await reprocess_with(store, fold)
        assert report.states == ("folded", "quarantined", "folded")
        ((id_, problem),) = report.problems
        detail = "cannot be folded: ZeroDivisionError: a bug"
        assert (id_, problem.detail) == (2, detail)
        assert rows_of(store, "changes", "object_id") == [("ord_1",), ("ord_3",)]
        queued = await store.refetch_queue.next("main", 9)
        assert {row.object_id for row in queued} == {"ord_1", "ord_3"}
        assert quarantine(store) == [("2", "open", detail)]

    async def test_requests_for_a_refetch_are_counted(self, store: Store) -> None:
        await append(store, "folded", "folded")
        await folded_bodies(store)
        assert (await reprocess_with(store, to("stale"))).refetches == 0

        def fold(event: StoredEvent, mirror: MirrorWriter) -> Folded:
            mirror.enqueue_refetch(
                "main", "order", "ord_1", "a tie", event.id, rest_seconds=0
            )
            return Folded("stale", event.topic)

        assert (await reprocess_with(store, fold)).refetches == 2
