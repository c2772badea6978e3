"""Conformance tests of the refetch queue: each object once, in order, never lost."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.clock import to_text
from backhaul.store.inbox import LONGEST_REST_SECONDS
from backhaul.store.testing.contract import MirrorTests
from backhaul.store.testing.mirror_scenes import (
    order,
    show_customer,
    show_level,
    show_order,
    show_product,
    version,
)
from backhaul.store.testing.scenes import StoreConformance, running
from backhaul.store.testing.transactions import in_fold

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.inbox import MirrorWriter, Refetch
    from backhaul.store.testing.scenes import MakeStore, TestClock

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
