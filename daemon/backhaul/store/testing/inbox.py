"""Tests of the inbox: durable, folded once in order of arrival, and failing events."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.core.identity import digest_of
from backhaul.store.inbox import Arrival, Folded
from backhaul.store.testing.command_scenes import at
from backhaul.store.testing.event_scenes import (
    NOON,
    SLICE_SECONDS,
    append,
    event_detail,
    fold_all_with,
    fold_to_body,
    fold_with,
    folded_bodies,
    in_fold,
    reprocess_with,
    webhook,
)
from backhaul.store.testing.mirror_scenes import order, product_of, rows_of, version
from backhaul.store.testing.scenes import (
    AFTER_NOON_SECONDS,
    MirrorTests,
    StoreConformance,
    running,
)

if TYPE_CHECKING:
    from backhaul.core.fold import Version
    from backhaul.store import Store
    from backhaul.store.inbox import MirrorWriter, StoredEvent
    from backhaul.store.testing.scenes import MakeStore, OpenStore, TestClock


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
        ids = await append(store, "folded", "stale", "duplicate")
        assert ids == sorted(set(ids))
        assert await store.inbox.newest() == ids[-1]

    async def test_events_are_folded_once_in_order_of_arrival(
        self, store: Store
    ) -> None:
        await append(store, "stale", "folded", "duplicate")
        assert await folded_bodies(store) == ["stale", "folded", "duplicate"]
        assert await folded_bodies(store) == []
        await append(store, "unhandled")
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

        await fold_with(store, fold)
        (event,) = seen
        assert (event.id, event.store, event.kind) == (id_, "other", "delivery")
        assert (event.topic, event.body) == (arrival.topic, arrival.body)
        assert event.received_at == arrival.received_at

    async def test_events_and_the_fold_cursor_survive_a_restart(
        self, make_store: MakeStore, clock: TestClock
    ) -> None:
        async with running(make_store, clock) as store:
            await append(store, "folded")
            assert await folded_bodies(store) == ["folded"]
            (newest,) = await append(store, "stale")
        async with running(make_store, clock) as store:
            assert await store.inbox.newest() == newest
            assert await folded_bodies(store) == ["stale"]

    async def test_a_slice_ends_in_time_and_says_that_more_waits(
        self, store: Store, clock: TestClock
    ) -> None:
        first, second = await append(store, "folded", "folded")

        def slow(event: StoredEvent, mirror: MirrorWriter) -> Folded:
            clock.advance(SLICE_SECONDS)
            return fold_to_body(event, mirror)

        report = await fold_with(store, slow)
        assert (report.folded, report.folded_to, report.more) == (1, first, True)
        report = await fold_with(store, fold_to_body)
        assert (report.folded, report.folded_to, report.more) == (1, second, False)

    async def test_the_report_names_events_that_changed_nothing(
        self, store: Store
    ) -> None:
        words = ("folded", "unhandled", "stale", "quarantined", "duplicate")
        ids = dict(zip(words, await append(store, *words), strict=True))
        report = await fold_with(store, fold_to_body)
        assert [(id_, one.state) for id_, one in report.problems] == [
            (ids["unhandled"], "unhandled"),
            (ids["quarantined"], "quarantined"),
        ]

    async def test_only_the_event_that_fails_is_undone(self, store: Store) -> None:
        _, bad, good = await append(store, "before", "fails", "after")
        report = await fold_with(store, fold_or_fail)
        ((id_, problem),) = report.problems
        assert (id_, problem.state) == (bad, "quarantined")
        assert "no such order" in str(problem.detail)
        assert (report.folded, report.folded_to) == (3, good)
        queued = await store.refetch_queue.next("main", 9)
        found = {(row.object_id, row.asks) for row in queued}
        assert found == {("before", 1), ("after", 1)}
        assert await folded_bodies(store) == []


MANY = 700
"""More events than one slice folds."""


async def versions(
    store: Store, name: str, kind: str, *ids: str
) -> list[Version | None]:
    """Return the mirrored versions of objects, as a fold sees them."""

    def read(mirror: MirrorWriter, _: int) -> list[Version | None]:
        return [mirror.current_version(kind, name, id_) for id_ in ids]

    return await in_fold(store, read)


def failing(event: StoredEvent, mirror: MirrorWriter) -> Folded:
    """Write into every table, then fail if the body says so."""
    name, id_ = event.body.decode(), event.id
    mirror.is_new_delivery(b"digest of " + event.body, id_)
    mirror.put_order("main", order(f"ord_{id_}", 1), version(1, b""))
    product = product_of(f"prod_{id_}", 1, 1)
    mirror.put_product("main", product, "INR", version(1, b""))
    mirror.remove("customer", "main", f"cus_{id_}", version(1, b""))
    mirror.hold_order("main", f"ord_{id_}", id_, "why", NOON)
    mirror.add_change("main", "order", f"ord_{id_}", "created", id_)
    if name == "fails":
        raise ValueError("no such order")
    return Folded("folded", event.topic)


class FoldConformance(MirrorTests):
    """Tests of `Inbox.fold`."""

    async def test_an_event_is_stored_byte_for_byte(
        self, store: Store, open_store: OpenStore
    ) -> None:
        body = bytes(range(256)) * 3
        arrival = Arrival("main", "read", "ünicode/\U0001f4a1", NOON, b'{"h":1}', body)
        id_ = await store.inbox.append(arrival)
        shown = await event_detail(await open_store(), id_)
        assert (shown.body, shown.headers) == (body, b'{"h":1}')
        assert (shown.store, shown.source, shown.topic) == ("main", "read", arrival[2])
        assert (shown.received_at, shown.state) == (NOON, "received")
        assert (shown.folded_at, shown.erased_at) == (None, None)

    async def test_the_digest_of_an_event_is_that_of_its_body(
        self, store: Store
    ) -> None:
        await append(store, "a body")
        seen: list[StoredEvent] = []

        def fold(event: StoredEvent, mirror: MirrorWriter) -> Folded:
            seen.append(event)
            return Folded("folded", event.topic)

        await fold_with(store, fold)
        assert seen[0].digest == digest_of((b"a body",))

    async def test_an_outcome_is_kept_with_its_event(
        self, store: Store, clock: TestClock
    ) -> None:
        await append(store, "body")
        outcome = Folded("stale", "a/topic", "evt_1", "order", "ord_1", "because")
        clock.advance(5)
        await fold_with(store, lambda *_: outcome)
        shown = await event_detail(store, 1)
        assert (shown.state, shown.topic, shown.event_id) == (
            "stale",
            "a/topic",
            "evt_1",
        )
        about = (shown.kind, shown.object_id, shown.detail)
        assert about == ("order", "ord_1", "because")
        assert shown.folded_at == at(clock)
        assert await store.read(lambda reader: reader.quarantine(9)) == []

    async def test_a_repeated_delivery_is_recognized(
        self, store: Store, open_store: OpenStore
    ) -> None:
        def is_new(mirror: MirrorWriter, event: int) -> list[bool]:
            return [
                mirror.is_new_delivery(b"a", event),
                mirror.is_new_delivery(b"a", event),
                mirror.is_new_delivery(b"b", event),
            ]

        assert await in_fold(store, is_new) == [True, True, True]
        assert await in_fold(store, is_new) == [False, False, False]
        again = await open_store()
        found = await in_fold(again, lambda m, id_: m.is_new_delivery(b"a", id_))
        assert found is False
        assert await in_fold(again, lambda m, _: m.is_new_delivery(b"a", 1)) is True

    async def test_a_redacted_body_replaces_the_bytes(
        self, store: Store, clock: TestClock
    ) -> None:
        first, second = await append(store, "Asha", "Asha")

        def fold(event: StoredEvent, mirror: MirrorWriter) -> Folded:
            if event.id == first:
                mirror.replace_body(event.id, b"erased")
            return Folded("folded", event.topic)

        await fold_with(store, fold)
        shown, other = (
            await event_detail(store, first),
            await event_detail(store, second),
        )
        assert (shown.body, shown.erased_by) == (b"erased", "forget")
        assert shown.erased_at == at(clock)
        assert (other.body, other.erased_at) == (b"Asha", None)
        seen: list[StoredEvent] = []

        def see(event: StoredEvent, mirror: MirrorWriter) -> Folded:
            seen.append(event)
            return Folded("folded", event.topic)

        await reprocess_with(store, see)
        assert [each.body for each in seen] == [b"erased", b"Asha"]
        assert [each.digest is None for each in seen] == [True, False]

    async def test_a_failing_event_leaves_nothing_and_the_others_stay(
        self, store: Store
    ) -> None:
        ids = await append(store, "before", "fails", "after", "fails", "last")
        report = await fold_with(store, failing)
        bad = [ids[1], ids[3]]
        good = [ids[0], ids[2], ids[4]]
        assert [id_ for id_, _ in report.problems] == bad
        assert report.folded_to == ids[-1]
        orders = {f"ord_{id_}" for id_ in good}
        products = {f"prod_{id_}" for id_ in good}
        assert {id_ for (id_,) in rows_of(store, "orders", "id")} == orders
        assert {id_ for (id_,) in rows_of(store, "order_items", "order_id")} == orders
        assert {id_ for (id_,) in rows_of(store, "products", "id")} == products
        assert {id_ for (id_,) in rows_of(store, "variants", "product_id")} == products
        assert [id_ for (id_,) in rows_of(store, "changes", "event")] == good
        counts = await store.read(lambda reader: reader.counts())
        assert {each.order_id for each in counts.unreadable_orders} == orders
        for id_ in ids:
            (tombstone,) = await versions(store, "main", "customer", f"cus_{id_}")
            assert (tombstone is None) is (id_ in bad)
        digest = b"digest of fails"
        is_new = await in_fold(store, lambda m, id_: m.is_new_delivery(digest, id_))
        assert is_new

    async def test_an_event_that_cannot_be_folded_is_in_quarantine(
        self, store: Store, clock: TestClock
    ) -> None:
        (bad,) = await append(store, "fails")
        await fold_with(store, failing)
        reason = "cannot be folded: ValueError: no such order"
        assert (await event_detail(store, bad)).state == "quarantined"
        assert (await event_detail(store, bad)).detail == reason
        (row,) = await store.read(lambda reader: reader.quarantine(9))
        assert (row.source, row.name, row.locator) == ("event", "main", f"event {bad}")
        assert (row.reason, row.at) == (reason, at(clock))
        detail = await store.read(lambda reader: reader.quarantined(row.id))
        assert detail is not None
        assert (detail.raw, detail.state) == (b"fails", "open")

    async def test_foreign_events_are_noted_for_their_store(
        self, store: Store, clock: TestClock
    ) -> None:
        def fold(event: StoredEvent, mirror: MirrorWriter) -> Folded:
            found = event.body.decode()
            return Folded("unhandled", event.topic, foreign_store=found)

        await append(store, "sto_2", "sto_3")
        await append(store, "sto_4", name="other")
        await fold_with(store, fold)
        found = await store.alert_conditions.current([])
        assert found.foreign_webhooks == {
            "main": f"{at(clock)} sto_3",
            "other": f"{at(clock)} sto_4",
        }

    async def test_the_report_counts_refetches_and_names_left_out_members(
        self, store: Store
    ) -> None:
        def fold(event: StoredEvent, mirror: MirrorWriter) -> Folded:
            for number in range(event.id):
                mirror.enqueue_refetch(
                    "main", "order", str(number), "a tie", event.id, rest_seconds=0
                )
            notes = ("left out: email",) if event.id == 2 else ()
            return Folded("folded", event.topic, notes=notes)

        await append(store, "a", "b")
        report = await fold_with(store, fold)
        assert report.refetches == 3
        ((id_, outcome),) = report.incomplete
        assert (id_, outcome.notes) == (2, ("left out: email",))
        assert len(await store.refetch_queue.next("main", 9)) == 2

    async def test_the_report_says_how_long_the_last_event_waited(
        self, store: Store, clock: TestClock
    ) -> None:
        assert (await fold_with(store, fold_to_body)).behind_seconds == 0
        for second in (0, 3):
            await store.inbox.append(webhook("folded", second=second))
        clock.advance(10)
        report = await fold_with(store, fold_to_body)
        assert report.behind_seconds == 10 + AFTER_NOON_SECONDS - 3

    async def test_a_refetch_rests_as_long_as_the_fold_says(
        self, store: Store, clock: TestClock
    ) -> None:
        async def enqueue(seconds: float) -> None:
            await in_fold(
                store,
                lambda m, id_: m.enqueue_refetch(
                    "main", "order", "a", "a tie", id_, rest_seconds=seconds
                ),
            )

        await enqueue(5)
        assert await store.refetch_queue.next_due("main") == at(clock, 5)
        clock.advance(1)
        await enqueue(5)
        assert await store.refetch_queue.next_due("main") == at(clock, 5)
        for seconds in (0, 1):
            await enqueue(seconds)
            assert await store.refetch_queue.next_due("main") == at(clock, 5)
        clock.advance(5)
        (row,) = await store.refetch_queue.next("main", 9)
        assert (row.asks, row.kind, row.reason) == (4, "order", "a tie")

    async def test_many_events_are_folded_in_order_and_once(self, store: Store) -> None:
        bodies = [f"{number}" for number in range(MANY)]
        await append(store, *bodies)

        def fold_number(event: StoredEvent, mirror: MirrorWriter) -> Folded:
            mirror.add_change("main", "order", event.body.decode(), "seen", event.id)
            return Folded("folded", event.topic)

        await fold_all_with(store, fold_number)
        seen = rows_of(store, "changes", "object_id")
        assert seen == [(body,) for body in bodies]

    @pytest.mark.parametrize("slice_seconds", [0.0, SLICE_SECONDS])
    async def test_a_report_says_whether_more_waits(
        self, slice_seconds: float, store: Store
    ) -> None:
        assert not (await fold_with(store, fold_to_body, slice_seconds)).more
        await append(store, "folded", "stale")
        folded = 0
        while folded < 2:
            report = await fold_with(store, fold_to_body, slice_seconds)
            folded += report.folded
            if folded < 2:
                assert report.more
        last = await fold_with(store, fold_to_body, slice_seconds)
        assert (last.folded, last.folded_to, last.more) == (0, 2, False)

    async def test_a_change_has_its_event_and_its_time(
        self, store: Store, clock: TestClock
    ) -> None:
        clock.advance(5)

        def add(mirror: MirrorWriter, event: int) -> int:
            mirror.add_change("main", "order", "ord_1", "created", event)
            return event

        id_ = await in_fold(store, add)
        columns = ("store", "kind", "object_id", "change", "at", "event", "instance")
        expected = ("main", "order", "ord_1", "created", at(clock), id_, None)
        assert rows_of(store, "changes", *columns) == [expected]
