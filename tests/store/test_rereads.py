"""The queue of objects in doubt: each once, in order, and never lost."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import to_text
from scenes.clock import START, VirtualClock
from scenes.databases import started_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from backhaul.store.sqlite.database import SqliteStore


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def store(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[SqliteStore]:
    async with started_store(tmp_path / "b.db", clock) as started:
        yield started


async def ids(store: SqliteStore, limit: int = 10) -> list[str]:
    return [row.object_id for row in await store.refetch_queue.next("main", limit)]


async def test_an_object_stands_in_it_once_in_the_order_of_asking(
    store: SqliteStore, clock: VirtualClock
) -> None:
    for object_id in ("b", "a", "b", "c"):
        await store.refetch_queue.enqueue("main", "order", object_id, "a tie")
        await clock.advance(1)
    await store.refetch_queue.enqueue("other", "order", "d", "a tie")
    assert await ids(store) == ["b", "a", "c"]
    assert await ids(store, 1) == ["b"]
    (row, *_) = await store.refetch_queue.next("main", 1)
    assert (row.asks, row.reason, row.asked_at) == (2, "a tie", to_text(START))


async def test_kinds_do_not_mix(store: SqliteStore) -> None:
    for kind in ("product", "level"):
        await store.refetch_queue.enqueue("main", kind, "prod_1", "a tie")
    assert {row.kind for row in await store.refetch_queue.next("main", 9)} == {
        "product",
        "level",
    }


async def test_what_is_done_goes(store: SqliteStore) -> None:
    await store.refetch_queue.enqueue("main", "order", "a", "a tie")
    (row,) = await store.refetch_queue.next("main", 1)
    await store.refetch_queue.done(row)
    assert await ids(store) == []
    assert await store.refetch_queue.next_due("main") is None


async def test_a_doubt_raised_during_the_read_stays(store: SqliteStore) -> None:
    await store.refetch_queue.enqueue("main", "order", "a", "a tie")
    (row,) = await store.refetch_queue.next("main", 1)
    await store.refetch_queue.enqueue("main", "order", "a", "another")
    await store.refetch_queue.done(row)
    (left,) = await store.refetch_queue.next("main", 1)
    assert left.reason == "another"
    await store.refetch_queue.done(left)
    assert await ids(store) == []


async def test_what_failed_rests(store: SqliteStore, clock: VirtualClock) -> None:
    await store.refetch_queue.enqueue("main", "order", "a", "a tie")
    (row,) = await store.refetch_queue.next("main", 1)
    due = to_text(clock.now() + timedelta(seconds=5))
    await store.refetch_queue.postpone(row, due)
    assert await ids(store) == []
    assert await store.refetch_queue.next_due("main") == due
    await clock.advance(5)
    (again,) = await store.refetch_queue.next("main", 1)
    assert (again.object_id, again.failures) == ("a", 1)


async def test_asking_again_does_not_shorten_the_rest(
    store: SqliteStore, clock: VirtualClock
) -> None:
    await store.refetch_queue.enqueue("main", "order", "a", "a tie")
    (row,) = await store.refetch_queue.next("main", 1)
    await store.refetch_queue.postpone(row, to_text(clock.now() + timedelta(seconds=5)))
    await store.refetch_queue.enqueue("main", "order", "a", "a tie")
    assert await ids(store) == []


async def test_the_queue_survives_a_restart(tmp_path: Path) -> None:
    async with started_store(tmp_path / "c.db") as store:
        await store.refetch_queue.enqueue("main", "order", "a", "a tie")
    async with started_store(tmp_path / "c.db") as store:
        assert await ids(store) == ["a"]
