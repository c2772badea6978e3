"""Conformance tests of the inbox: durable, folded once, in order of arrival."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.store.inbox import Folded
from backhaul.store.testing.scenes import (
    SLICE_SECONDS,
    StoreConformance,
    fold_to_body,
    folded_bodies,
    running,
    webhook,
    without_decoding,
)

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.inbox import MirrorWriter, StoredEvent
    from backhaul.store.testing.scenes import MakeStore, TestClock


async def appended(store: Store, *bodies: str) -> list[int]:
    """Append webhooks without waiting for each; return their ids."""
    waiting = [store.inbox.append(webhook(body)) for body in bodies]
    return [await id_ for id_ in waiting]


def fold_or_fail(event: StoredEvent, mirror: MirrorWriter) -> Folded:
    """Queue a refetch, then fail if the body says so."""
    body = event.body.decode()
    mirror.enqueue_refetch(
        event.store, "order", body, "a tie", event.id, rest_seconds=0.0
    )
    if body == "fails":
        raise ValueError("no such order")
    return Folded("folded", event.topic)


class InboxConformance(StoreConformance):
    """Tests for `Store.inbox`."""

    async def test_ids_rise_in_order_of_arrival(self, store: Store) -> None:
        assert await store.inbox.newest() == 0
        ids = await appended(store, "folded", "stale", "duplicate")
        assert ids == sorted(set(ids))
        assert await store.inbox.newest() == ids[-1]

    async def test_events_are_folded_once_in_order_of_arrival(
        self, store: Store
    ) -> None:
        await appended(store, "stale", "folded", "duplicate")
        assert await folded_bodies(store) == ["stale", "folded", "duplicate"]
        assert await folded_bodies(store) == []
        await appended(store, "unhandled")
        assert await folded_bodies(store) == ["unhandled"]

    async def test_a_topic_with_a_zero_byte_stops_no_other_event(
        self, store: Store
    ) -> None:
        """It is a part of the address that a sender chose."""
        topics = ("orders/create", "orders/\0", "orders/create")
        waiting = [store.inbox.append(webhook("folded", topic=t)) for t in topics]
        ids = [await id_ for id_ in waiting]
        assert ids == sorted(set(ids))
        assert await folded_bodies(store) == ["folded"] * 3

    async def test_an_event_is_folded_as_it_arrived(self, store: Store) -> None:
        arrival = webhook("folded", "other", "orders/updated", second=7)
        id_ = await store.inbox.append(arrival)
        seen: list[StoredEvent] = []

        def fold(event: StoredEvent, mirror: MirrorWriter) -> Folded:
            seen.append(event)
            return fold_to_body(event, mirror)

        await store.inbox.fold(without_decoding(fold), SLICE_SECONDS)
        (event,) = seen
        assert (event.id, event.store, event.kind) == (id_, "other", "delivery")
        assert (event.topic, event.body) == (arrival.topic, arrival.body)
        assert event.received_at == arrival.received_at

    async def test_events_and_the_fold_cursor_survive_a_restart(
        self, make_store: MakeStore, clock: TestClock
    ) -> None:
        async with running(make_store, clock) as store:
            await appended(store, "folded")
            assert await folded_bodies(store) == ["folded"]
            (newest,) = await appended(store, "stale")
        async with running(make_store, clock) as store:
            assert await store.inbox.newest() == newest
            assert await folded_bodies(store) == ["stale"]

    async def test_a_slice_ends_in_time_and_says_that_more_waits(
        self, store: Store, clock: TestClock
    ) -> None:
        first, second = await appended(store, "folded", "folded")

        def slow(event: StoredEvent, mirror: MirrorWriter) -> Folded:
            clock.advance(SLICE_SECONDS)
            return fold_to_body(event, mirror)

        report = await store.inbox.fold(without_decoding(slow), SLICE_SECONDS)
        assert (report.folded, report.folded_to, report.more) == (1, first, True)
        report = await store.inbox.fold(without_decoding(fold_to_body), SLICE_SECONDS)
        assert (report.folded, report.folded_to, report.more) == (1, second, False)

    async def test_the_report_names_events_that_changed_nothing(
        self, store: Store
    ) -> None:
        words = ("folded", "unhandled", "stale", "quarantined", "duplicate")
        ids = dict(zip(words, await appended(store, *words), strict=True))
        report = await store.inbox.fold(without_decoding(fold_to_body), SLICE_SECONDS)
        assert [(id_, one.state) for id_, one in report.problems] == [
            (ids["unhandled"], "unhandled"),
            (ids["quarantined"], "quarantined"),
        ]

    async def test_only_the_event_that_fails_is_undone(self, store: Store) -> None:
        _, bad, good = await appended(store, "before", "fails", "after")
        report = await store.inbox.fold(without_decoding(fold_or_fail), SLICE_SECONDS)
        ((id_, problem),) = report.problems
        assert (id_, problem.state) == (bad, "quarantined")
        assert "no such order" in str(problem.detail)
        assert (report.folded, report.folded_to) == (3, good)
        queued = await store.refetch_queue.next("main", 9)
        found = {(row.object_id, row.asks) for row in queued}
        assert found == {("before", 1), ("after", 1)}
        assert await folded_bodies(store) == []
