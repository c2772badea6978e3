"""Tests of the store itself: start, stop, heartbeat, key-value state, other stores."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from backhaul.core.lifecycle import Cause
from backhaul.errors import Busy
from backhaul.store.inbox import Arrival
from backhaul.store.operations import OrphanedWork
from backhaul.store.testing.command_scenes import at, plan, sent
from backhaul.store.testing.mirror_scenes import show_order
from backhaul.store.testing.scenes import StoreConformance
from backhaul.store.testing.target_scenes import count

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.testing.scenes import OpenStore, TestClock


class LifecycleConformance(StoreConformance):
    """Tests of `Store`, and of `Store.kv`."""

    async def test_a_second_start_changes_nothing(self, store: Store) -> None:
        store.start()
        await store.kv.put("word", "once")
        assert await store.kv.get("word") == "once"
        await store.stop()
        with pytest.raises(Busy):
            await store.kv.get("word")

    async def test_a_stopped_store_is_busy(
        self, store: Store, clock: TestClock
    ) -> None:
        await store.stop()
        await store.stop()
        event = Arrival("main", "delivery", "", at(clock), b"{}", b"{}")
        with pytest.raises(Busy):
            await store.inbox.append(event)
        with pytest.raises(Busy):
            await store.kv.put("word", "late")
        with pytest.raises(Busy):
            await store.heartbeat()

    async def test_a_stopped_store_can_be_started_again(self, store: Store) -> None:
        for number in range(2):
            await store.kv.put("number", str(number))
            await store.stop()
            store.start()
            assert await store.kv.get("number") == str(number)

    async def test_stop_finishes_what_was_accepted(
        self, store: Store, clock: TestClock, open_store: OpenStore
    ) -> None:
        event = Arrival("main", "delivery", "", at(clock), b"{}", b"{}")
        accepted = [store.inbox.append(event) for _ in range(9)]
        await asyncio.gather(store.kv.put("word", "last"), store.stop())
        assert sorted([await each for each in accepted]) == list(range(1, 10))
        again = await open_store()
        assert await again.inbox.newest() == 9
        assert await again.kv.get("word") == "last"

    async def test_the_heartbeat_is_answered(self, store: Store) -> None:
        await store.heartbeat()
        assert not store.is_rewriting

    async def test_watch_raises_nothing_while_the_store_works(
        self, store: Store
    ) -> None:
        watched = asyncio.gather(store.watch())
        await store.heartbeat()
        await store.kv.put("word", "written")
        assert not watched.done()
        watched.cancel()

    async def test_a_query_for_people_reads_what_was_written(
        self, store: Store
    ) -> None:
        id_ = await plan(store)
        found = await store.read(lambda reader: reader.command(id_))
        assert found is not None
        with pytest.raises(ZeroDivisionError):
            await store.read(lambda _: 1 // 0)

    async def test_values_are_kept_by_name(
        self, store: Store, open_store: OpenStore
    ) -> None:
        assert await store.kv.get("word") is None
        for name, value in (("word", "one"), ("words", "three"), ("word", "two")):
            await store.kv.put(name, value)
        again = await open_store()
        found = [await again.kv.get(name) for name in ("word", "words", "wor")]
        assert found == ["two", "three", None]

    async def test_orphaned_work_is_that_of_other_stores(
        self, store: Store, clock: TestClock
    ) -> None:
        await plan(store)
        await show_order(store, "ord_1", name="old")
        for target, cause in (
            ("ord_1", Cause.UNKNOWN),
            ("ord_2", Cause.CONFIRMED),
            ("ord_3", Cause.UNDECIDABLE),
            ("ord_4", Cause.NOT_SENT),
        ):
            await sent(store, cause, target=target, name="old")
        for name in ("old", "main", "new"):
            event = Arrival(name, "delivery", "", at(clock), b"{}", b"{}")
            await store.inbox.append(event)
            await count(store, 5, 10, name=name)
        assert await store.orphaned_work(["main"]) == (
            OrphanedWork("new", 0, 1, 1),
            OrphanedWork("old", 2, 1, 1),
        )
        assert await store.orphaned_work(["main", "new", "old"]) == ()
