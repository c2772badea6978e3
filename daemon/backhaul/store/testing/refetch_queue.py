"""Conformance tests of the refetch queue: each object once, in order, never lost."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.clock import to_text
from backhaul.store.inbox import LONGEST_REST_SECONDS
from backhaul.store.testing.scenes import StoreConformance, running

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.inbox import Refetch
    from backhaul.store.testing.scenes import MakeStore, TestClock


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
