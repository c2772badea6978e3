"""Tests of refetches: the queue, and orders whose commands wait for one."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.clock import to_text
from backhaul.store.inbox import (
    LONGEST_REST_SECONDS,
    Folded,
    Selection,
    UnreadableOrder,
)
from backhaul.store.testing.command_scenes import at, claimed_ids, plan
from backhaul.store.testing.event_scenes import (
    NOON,
    UNREADABLE,
    fold_with,
    hold_order,
    in_fold,
    release_order,
    reprocess_with,
    webhook,
)
from backhaul.store.testing.mirror_scenes import (
    order,
    show_customer,
    show_level,
    show_order,
    show_product,
    version,
)
from backhaul.store.testing.scenes import MirrorTests, StoreConformance, running

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.inbox import MirrorWriter, Refetch, StoredEvent
    from backhaul.store.testing.scenes import MakeStore, OpenStore, TestClock


MANY = 1_100
"""More changes than one slice reads."""


async def ids(store: Store, limit: int = 10) -> list[str]:
    return [row.object_id for row in await store.refetch_queue.next("main", limit)]


async def queued(store: Store, reason: str = "a tie") -> Refetch:
    """Queue order `a`; return its row."""
    await store.refetch_queue.enqueue("main", "order", "a", reason)
    (row,) = await store.refetch_queue.next("main", 1)
    return row


class RefetchQueueConformance(StoreConformance):
    """Tests for `Store.refetch_queue`."""

    async def test_an_object_is_queued_once_in_order_of_its_first_request(
        self, store: Store, clock: TestClock
    ) -> None:
        began = to_text(clock.now())
        for object_id in ("b", "a", "b", "c"):
            await store.refetch_queue.enqueue("main", "order", object_id, "a tie")
            clock.advance(1)
        assert await ids(store) == ["b", "a", "c"]
        assert await ids(store, 1) == ["b"]
        (row, *_) = await store.refetch_queue.next("main", 1)
        assert (row.asks, row.reason, row.asked_at) == (2, "a tie", began)

    async def test_stores_do_not_mix(self, store: Store) -> None:
        done = await queued(store)
        await store.refetch_queue.enqueue("other", "order", "a", "a tie")
        assert await ids(store) == ["a"]
        await store.refetch_queue.done(done)
        assert await ids(store) == []
        assert await store.refetch_queue.next_due("main") is None
        (left,) = await store.refetch_queue.next("other", 9)
        assert (left.store, left.object_id) == ("other", "a")

    async def test_kinds_do_not_mix(self, store: Store) -> None:
        for kind in ("product", "level"):
            await store.refetch_queue.enqueue("main", kind, "prod_1", "a tie")
        first, second = await store.refetch_queue.next("main", 9)
        assert {first.kind, second.kind} == {"product", "level"}
        await store.refetch_queue.done(first)
        (left,) = await store.refetch_queue.next("main", 9)
        assert left.kind == second.kind

    async def test_a_refetch_that_is_done_leaves_the_queue(self, store: Store) -> None:
        await store.refetch_queue.done(await queued(store))
        assert await ids(store) == []
        assert await store.refetch_queue.next_due("main") is None

    async def test_a_request_during_the_refetch_stays(self, store: Store) -> None:
        row = await queued(store)
        await store.refetch_queue.enqueue("main", "order", "a", "another")
        await store.refetch_queue.done(row)
        (left,) = await store.refetch_queue.next("main", 1)
        assert left.reason == "another"
        await store.refetch_queue.done(left)
        assert await ids(store) == []

    async def test_a_failed_refetch_is_due_later(
        self, store: Store, clock: TestClock
    ) -> None:
        row, due = await queued(store), clock.after(5)
        await store.refetch_queue.postpone(row, due)
        assert await ids(store) == []
        assert await store.refetch_queue.next_due("main") == due
        clock.advance(5)
        (again,) = await store.refetch_queue.next("main", 1)
        assert (again.object_id, again.failures) == ("a", 1)

    async def test_another_request_does_not_make_it_due_earlier(
        self, store: Store, clock: TestClock
    ) -> None:
        await store.refetch_queue.postpone(await queued(store), clock.after(5))
        await store.refetch_queue.enqueue("main", "order", "a", "a tie")
        assert await ids(store) == []

    async def test_a_refetch_that_is_due_too_late_is_due_now(
        self, store: Store, clock: TestClock
    ) -> None:
        """The clock was set back since it was postponed."""
        due = clock.after(LONGEST_REST_SECONDS + 1)
        await store.refetch_queue.postpone(await queued(store), due)
        assert await ids(store) == ["a"]

    async def test_the_queue_survives_a_restart(
        self, make_store: MakeStore, clock: TestClock
    ) -> None:
        async with running(make_store, clock) as store:
            await queued(store)
        async with running(make_store, clock) as store:
            assert await ids(store) == ["a"]


class ParentsConformance(MirrorTests):
    """Tests for `RefetchQueue.enqueue_parents`."""

    async def test_the_unknown_customer_of_an_order_is_queued(
        self, store: Store
    ) -> None:
        for number in (1, 2, 3):
            await show_order(store, f"ord_{number}", customer_id=f"cus_{number % 2}")
        await show_order(store, "ord_4", customer_id="cus_4")
        await show_order(store, "ord_5")
        await show_customer(store, "cus_4", "a@b.example")
        assert await store.refetch_queue.enqueue_parents("main")
        queued = await store.refetch_queue.next("main", 9)
        assert {(row.kind, row.object_id) for row in queued} == {
            *(("customer", "cus_0"), ("customer", "cus_1")),
        }
        assert {row.asks for row in queued} == {1}

    async def test_the_unknown_product_of_a_level_is_queued(self, store: Store) -> None:
        await show_product(store, "prod_1")
        for product in ("prod_1", "prod_2"):
            await show_level(store, 5, product=product)
        assert await store.refetch_queue.enqueue_parents("main")
        (row,) = await store.refetch_queue.next("main", 9)
        assert (row.kind, row.object_id) == ("product", "prod_2")

    async def test_a_parent_that_was_deleted_is_not_queued(self, store: Store) -> None:
        await show_order(store, "ord_1", customer_id="cus_1")
        await show_order(store, "ord_2", customer_id="cus_2")
        gone = version(5, b"gone")
        await in_fold(store, lambda m, _: m.remove("customer", "main", "cus_1", gone))
        await in_fold(store, lambda m, _: m.remove("order", "main", "cus_2", gone))
        await in_fold(store, lambda m, _: m.remove("customer", "other", "cus_2", gone))
        await store.refetch_queue.enqueue_parents("main")
        assert await ids(store) == ["cus_2"]

    async def test_only_recent_changes_are_read(self, store: Store) -> None:
        assert not await store.refetch_queue.enqueue_parents("main")
        await show_order(store, "ord_1", customer_id="cus_1")
        assert await store.refetch_queue.enqueue_parents("main")
        (row,) = await store.refetch_queue.next("main", 9)
        await store.refetch_queue.done(row)
        assert not await store.refetch_queue.enqueue_parents("main")
        assert await ids(store) == []
        await show_order(store, "ord_1", 1, customer_id="cus_1")
        assert await store.refetch_queue.enqueue_parents("main")
        assert await ids(store) == ["cus_1"]

    async def test_each_store_has_its_own_parents(self, store: Store) -> None:
        await show_order(store, "ord_1", customer_id="cus_1")
        await show_order(store, "ord_1", name="other", customer_id="cus_2")
        await show_customer(store, "cus_1", "a@b.example", name="other")
        assert await store.refetch_queue.enqueue_parents("main")
        assert await ids(store) == ["cus_1"]
        assert await store.refetch_queue.next("other", 9) == []
        assert await store.refetch_queue.enqueue_parents("other")
        (row,) = await store.refetch_queue.next("other", 9)
        assert row.object_id == "cus_2"

    async def test_a_parent_that_is_queued_stays_queued_once(
        self, store: Store
    ) -> None:
        await store.refetch_queue.enqueue("main", "customer", "cus_1", "a tie")
        await show_order(store, "ord_1", customer_id="cus_1")
        assert not await store.refetch_queue.enqueue_parents("main")
        (row,) = await store.refetch_queue.next("main", 9)
        assert (row.asks, row.reason) == (1, "a tie")

    async def test_many_changes_are_read(self, store: Store) -> None:
        def show(mirror: MirrorWriter, event: int) -> None:
            for number in range(MANY):
                id_ = f"ord_{number}"
                shown = order(id_, customer_id=f"cus_{number}")
                mirror.put_order("main", shown, version(0, b""))
                mirror.add_change("main", "order", id_, "created", event)

        await in_fold(store, show)
        assert await store.refetch_queue.enqueue_parents("main")
        assert len(await ids(store, 2 * MANY)) == MANY


async def listed(store: Store) -> list[UnreadableOrder]:
    """Return the orders whose commands wait."""
    counts = await store.read(lambda reader: reader.counts())
    assert (await store.alert_conditions.current([])).unreadable == (
        counts.unreadable_orders
    )
    return list(counts.unreadable_orders)


class UnreadableOrdersConformance(StoreConformance):
    """Tests of `hold_order` and `release_order` of `MirrorWriter`."""

    async def test_only_the_commands_of_the_order_wait(self, store: Store) -> None:
        for kind in ("fulfill", "cancel"):
            await plan(store, kind, "ord_1")
        free = await plan(store, target="ord_2")
        other = await plan(store, target="ord_1", name="other")
        await hold_order(store)
        assert await claimed_ids(store) == [free]
        assert await claimed_ids(store, name="other") == [other]

    async def test_a_command_that_is_planned_later_waits_too(
        self, store: Store, open_store: OpenStore
    ) -> None:
        await hold_order(store)
        again = await open_store()
        command = await plan(again)
        assert await claimed_ids(again) == []
        await release_order(again, began=NOON)
        assert await claimed_ids(again) == [command]

    async def test_a_read_that_began_before_the_event_releases_nothing(
        self, store: Store
    ) -> None:
        command = await plan(store)
        await hold_order(store, at="2026-03-01T11:30:00.000Z")
        await release_order(store, began="2026-03-01T11:29:59.999Z")
        assert await claimed_ids(store) == []
        await release_order(store, began="2026-03-01T11:30:00.000Z")
        assert await claimed_ids(store) == [command]

    async def test_another_event_releases_nothing(self, store: Store) -> None:
        await plan(store)
        await hold_order(store)
        await release_order(store)
        await release_order(store, "ord_2", began=NOON)
        await release_order(store, began=NOON, name="other")
        await show_order(store, "ord_1")
        assert await claimed_ids(store) == []
        assert len(await listed(store)) == 1

    async def test_the_event_itself_releases_once_it_can_be_read(
        self, store: Store
    ) -> None:
        command = await plan(store)
        event = await hold_order(store)

        def fold(event: StoredEvent, mirror: MirrorWriter) -> Folded:
            mirror.release_order("main", "ord_1", event.id, "")
            return Folded("folded", event.topic)

        selection = Selection(ids=(event,))
        await reprocess_with(store, fold, selection)
        assert await claimed_ids(store) == [command]
        assert await listed(store) == []

    async def test_an_event_and_its_release_in_one_slice(self, store: Store) -> None:
        command = await plan(store)

        def fold(event: StoredEvent, mirror: MirrorWriter) -> Folded:
            if event.body == b"{":
                mirror.hold_order("main", "ord_1", event.id, UNREADABLE, NOON)
            else:
                mirror.release_order("main", "ord_1", event.id, NOON)
            return Folded("folded", event.topic)

        for body in ("{", "{}"):
            await store.inbox.append(webhook(body))
        await fold_with(store, fold)
        assert await claimed_ids(store) == [command]

    async def test_the_newest_of_several_events_counts(self, store: Store) -> None:
        command = await plan(store)
        first, second = "2026-03-01T11:10:00.000Z", "2026-03-01T11:20:00.000Z"
        await hold_order(store, at=second, reason="the later")
        reason = "the earlier, which came later"
        event = await hold_order(store, at=first, reason=reason)
        (shown,) = await listed(store)
        assert (shown.event, shown.since) == (event, second)
        assert shown.reason == reason
        await release_order(store, began="2026-03-01T11:15:00.000Z")
        assert await claimed_ids(store) == []
        await release_order(store, began=second)
        assert await claimed_ids(store) == [command]

    async def test_any_read_releases_after_the_clock_went_back(
        self, store: Store, clock: TestClock
    ) -> None:
        command = await plan(store)
        await hold_order(store, at=at(clock, 60))
        await release_order(store, began="")
        assert await claimed_ids(store) == []
        await release_order(store, began=at(clock, -1))
        assert await claimed_ids(store) == [command]

    async def test_a_released_command_is_due_now(
        self, store: Store, clock: TestClock
    ) -> None:
        await plan(store)
        await hold_order(store)
        clock.advance(5)
        last_claim = at(clock)
        assert await claimed_ids(store) == []
        clock.advance(5)
        await release_order(store, began=at(clock))
        assert await store.commands.next_due("main", last_claim) == at(clock)

    async def test_a_discarded_event_releases_the_commands(
        self, store: Store, clock: TestClock
    ) -> None:
        command = await plan(store)
        await hold_order(store)
        await hold_order(store, "ord_2")
        (shown, _) = await listed(store)
        assert shown.row is not None
        clock.advance(5)
        last_claim = at(clock, -1)
        await store.quarantine.discard(shown.row, "ann", "seen")
        assert [each.order_id for each in await listed(store)] == ["ord_2"]
        assert await store.commands.next_due("main", last_claim) == at(clock)
        assert await claimed_ids(store) == [command]

    async def test_waiting_orders_are_listed_the_oldest_first(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1")
        for _ in range(2):
            await plan(store, target="ord_1")
        times = ("2026-03-01T11:30:00.000Z", "2026-03-01T11:20:00.000Z")
        event = await hold_order(store, at=times[0])
        other = await hold_order(store, "ord_9", "other", at=times[1], reason="why")
        rows = {
            each.locator: each.id
            for each in await store.read(lambda reader: reader.quarantine(9))
        }
        ours = (event, UNREADABLE, times[0], rows[f"event {event}"], 2)
        theirs = (other, "why", times[1], rows[f"event {other}"], 0)
        assert await listed(store) == [
            UnreadableOrder("other", "ord_9", "ord_9", *theirs),
            UnreadableOrder("main", "ord_1", "#1001", *ours),
        ]

    async def test_the_timeline_says_why_nothing_is_sent(
        self, store: Store, clock: TestClock
    ) -> None:
        await show_order(store, "ord_1")
        clock.advance(60)
        event = await hold_order(store)
        (found,) = await store.read(lambda reader: reader.find_objects("order", "1001"))
        entries = await store.read(lambda reader: reader.timeline("order", found))
        (hold,) = (each for each in entries if each.what == "hold")
        assert (hold.at, hold.state) == (at(clock), "waiting")
        assert f"event {event} could not be read" in str(hold.detail)
        await release_order(store, began=at(clock))
        entries = await store.read(lambda reader: reader.timeline("order", found))
        assert "hold" not in {each.what for each in entries}
