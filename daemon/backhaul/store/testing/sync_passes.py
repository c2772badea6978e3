"""Tests of passes over the platform's lists, and of since when a mirror is in sync."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from backhaul.core.clock import from_text
from backhaul.core.fold import Drift
from backhaul.store.testing.command_scenes import at
from backhaul.store.testing.scenes import StoreConformance

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.mirror import Pass, Progress, SyncState
    from backhaul.store.testing.scenes import OpenStore, TestClock

LISTS = ("orders", "products", "customers", "levels")
DAY = 86_400.0
REFUSED = "the platform answered GET /orders with 403 no"


async def begin(
    store: Store, job: str = "full", kind: str = "orders", name: str = "main"
) -> Progress:
    """Begin a pass, or continue the one that has not ended."""
    return await store.passes.begin(name, job, kind)


async def run(
    store: Store,
    job: str = "full",
    kind: str = "orders",
    *,
    name: str = "main",
    found: dict[Drift, int] | None = None,
    unrepaired: int = 0,
    note: str = "",
) -> Pass:
    """Run a whole pass that finds these differences."""
    progress = await begin(store, job, kind, name)
    await store.passes.advance(progress, [], found or {})
    return await store.passes.end(progress.pass_id, unrepaired, note)


async def listed(store: Store, limit: int = 99, before: int | None = None) -> list[int]:
    """Return the ids of passes as operators see them."""
    found = await store.read(lambda reader: reader.passes(limit, before))
    return [each.id for each in found]


class PassesConformance(StoreConformance):
    """Tests of `Store.passes`."""

    async def test_a_pass_is_continued_until_it_ends(
        self, store: Store, clock: TestClock, open_store: OpenStore
    ) -> None:
        first = await begin(store)
        assert (first.began_at, first.page, first.read) == (at(clock), 0, 0)
        assert first.total is None
        came = replace(first, page=2, total=500, read=200)
        await store.passes.advance(came, ["ord_1"], {})
        clock.advance(60)
        again = await open_store()
        assert await begin(again) == came
        ended = await again.passes.end(first.pass_id, 0)
        assert (ended.id, ended.read) == (first.pass_id, 200)
        assert (ended.began_at, ended.ended_at) == (at(clock, -60), at(clock))
        new = await begin(again)
        assert (new.page, new.read, new.total) == (0, 0, None)
        assert (new.pass_id, new.began_at) != (first.pass_id, first.began_at)

    async def test_stores_jobs_and_lists_have_passes_of_their_own(
        self, store: Store
    ) -> None:
        places = (
            ("full", "orders", "main"),
            ("full", "products", "main"),
            ("backfill", "orders", "main"),
            ("full", "orders", "other"),
        )
        ids = [(await begin(store, *place)).pass_id for place in places]
        assert len(set(ids)) == len(places)
        await store.passes.end(ids[0], 0)
        left = [(await begin(store, *place)).pass_id for place in places]
        assert left[0] not in ids
        assert left[1:] == ids[1:]

    async def test_differences_add_up(self, store: Store) -> None:
        progress = await begin(store)
        for found in (
            {Drift.MISSED: 1, Drift.STALE: 2},
            {Drift.MISSED: 5, Drift.DELETED: 3, Drift.ALIEN: 4},
        ):
            await store.passes.advance(progress, [], found)
        ended = await store.passes.end(progress.pass_id, 7, "partly")
        assert (ended.missed, ended.stale, ended.deleted, ended.foreign) == (6, 2, 3, 4)
        assert ended.found == 15
        assert (ended.unrepaired, ended.note) == (7, "partly")
        assert (ended.store, ended.job, ended.kind) == ("main", "full", "orders")
        (shown,) = await store.read(lambda reader: reader.passes(9))
        assert shown == ended

    async def test_only_a_poll_that_found_nothing_leaves_no_row(
        self, store: Store
    ) -> None:
        poll = "incremental"
        await run(store, poll)
        assert await listed(store) == []
        kept = [
            await run(store, poll, found={Drift.MISSED: 1}),
            await run(store, poll, unrepaired=1),
            await run(store),
        ]
        assert await listed(store) == [each.id for each in reversed(kept)]

    async def test_passes_are_listed_page_by_page_the_newest_first(
        self, store: Store
    ) -> None:
        ids = [(await run(store, kind=kind)).id for kind in LISTS]
        ids.append((await begin(store)).pass_id)
        first = await listed(store, 2)
        assert first == [ids[4], ids[3]]
        assert await listed(store, 2, first[-1]) == [ids[2], ids[1]]
        assert await listed(store, 2, ids[0]) == []
        (running, *_) = await store.read(lambda reader: reader.passes(9))
        assert running.ended_at is None

    async def test_the_objects_that_wait_for_a_refetch_are_known(
        self, store: Store
    ) -> None:
        for name, kind, id_ in (
            ("main", "order", "ord_1"),
            ("main", "order", "ord_2"),
            ("main", "product", "prod_1"),
            ("other", "order", "ord_3"),
        ):
            await store.refetch_queue.enqueue(name, kind, id_, "a conflict")
        found = sorted(await store.passes.open_conflicts("main", "order"))
        assert found == [("order", "ord_1"), ("order", "ord_2")]
        asked = [("order", "ord_1"), ("product", "ord_1"), ("order", "ord_3")]
        asked.append(("product", "prod_1"))
        pending = await store.passes.pending_refetches("main", asked)
        assert pending == [("order", "ord_1"), ("product", "prod_1")]
        (row,) = await store.refetch_queue.next("main", 1)
        await store.refetch_queue.done(row)
        assert len(await store.passes.pending_refetches("main", asked)) == 1


async def sync_all(store: Store, name: str = "main", **notes: str) -> None:
    """Run a full sync of all lists that leaves no difference."""
    for kind in LISTS:
        await run(store, kind=kind, name=name, note=notes.get(kind, ""))


async def states(store: Store) -> dict[str, SyncState]:
    """Return since when each store's mirror is in sync."""
    return await store.read(lambda reader: reader.consistency())


async def in_sync_since(store: Store) -> str | None:
    """Return since when the mirror of a store is in sync."""
    return (await states(store))["main"].as_of


async def gauge(store: Store, name: str) -> dict[tuple[str, ...], float]:
    """Return the values of a gauge by its labels."""
    found = await store.gauges.current([])
    return {labels: round(value, 2) for each, value, labels in found if each == name}


class SyncStateConformance(StoreConformance):
    """Tests of what the passes of full syncs prove about the mirror."""

    async def test_a_mirror_is_in_sync_since_the_start_of_its_earliest_list(
        self, store: Store, clock: TestClock
    ) -> None:
        assert await states(store) == {}
        since = at(clock)
        expected = {}
        for kind in LISTS:
            expected[kind] = at(clock)
            progress = await begin(store, kind=kind)
            clock.advance(60)
            state = (await states(store)).get("main")
            assert state is None or state.as_of is None
            await store.passes.end(progress.pass_id, 0)
        found = (await states(store))["main"]
        assert (found.as_of, found.kinds, found.unread) == (since, expected, [])
        assert await gauge(store, "consistent_as_of_timestamp_seconds") == {
            ("main",): from_text(since).timestamp()
        }

    async def test_stores_are_in_sync_each_for_itself(
        self, store: Store, clock: TestClock
    ) -> None:
        await sync_all(store)
        clock.advance(60)
        await sync_all(store, "other")
        await run(store, name="third")
        found = {name: state.as_of for name, state in (await states(store)).items()}
        assert found == {"main": at(clock, -60), "other": at(clock), "third": None}

    async def test_a_pass_that_leaves_differences_proves_nothing_new(
        self, store: Store, clock: TestClock
    ) -> None:
        await sync_all(store)
        since = at(clock)
        clock.advance(60)
        await run(store, unrepaired=1)
        assert await in_sync_since(store) == since
        await run(store, found={Drift.STALE: 1})
        found = (await states(store))["main"]
        assert found.kinds["orders"] == at(clock)
        assert found.as_of == since

    async def test_only_full_syncs_prove_anything(
        self, store: Store, clock: TestClock
    ) -> None:
        await sync_all(store)
        since = at(clock)
        clock.advance(60)
        for kind in LISTS:
            await run(store, "backfill", kind)
            await run(store, "incremental", kind, found={Drift.MISSED: 1})
        assert await in_sync_since(store) == since

    async def test_a_sync_of_a_clock_that_was_ahead_gives_way_to_the_next(
        self, store: Store, clock: TestClock
    ) -> None:
        clock.set_by(DAY)
        await sync_all(store)
        assert await in_sync_since(store) == at(clock)
        clock.set_by(-DAY)
        clock.advance(60)
        await sync_all(store)
        assert await in_sync_since(store) == at(clock)

    async def test_a_list_that_is_refused_now_keeps_its_earlier_time(
        self, store: Store, clock: TestClock
    ) -> None:
        """The mirror still has its rows, and nobody knows whether they are current."""
        await sync_all(store)
        since = at(clock)
        clock.advance(DAY)
        await sync_all(store, orders=REFUSED)
        found = (await states(store))["main"]
        assert (found.as_of, found.unread) == (since, ["orders"])
        assert found.kinds == dict.fromkeys(LISTS, at(clock)) | {"orders": REFUSED}
        await sync_all(store)
        found = (await states(store))["main"]
        assert (found.as_of, found.unread) == (at(clock), [])

    async def test_a_list_that_could_never_be_read_does_not_count(
        self, store: Store, clock: TestClock
    ) -> None:
        await sync_all(store, orders=REFUSED)
        found = (await states(store))["main"]
        assert (found.as_of, found.unread) == (at(clock), ["orders"])

    @pytest.mark.parametrize("job", ["full", "backfill"])
    async def test_a_list_that_was_read_and_never_in_sync_counts(
        self, job: str, store: Store
    ) -> None:
        await run(store, job, unrepaired=1)
        await sync_all(store, orders=REFUSED)
        assert await in_sync_since(store) is None

    async def test_a_list_that_was_refused_amid_its_only_pass_counts(
        self, store: Store
    ) -> None:
        progress = replace(await begin(store, "backfill"), page=1, read=100)
        await store.passes.advance(progress, [], {})
        await store.passes.end(progress.pass_id, 0, REFUSED)
        await sync_all(store, orders=REFUSED)
        assert await in_sync_since(store) is None

    async def test_when_a_store_was_first_read_is_known_before_it_is_in_sync(
        self, store: Store, clock: TestClock
    ) -> None:
        name = "first_read_timestamp_seconds"
        await run(store, "incremental", name="other", found={Drift.MISSED: 1})
        assert await gauge(store, name) == {}
        begun = from_text(at(clock)).timestamp()
        await begin(store, "backfill")
        clock.advance(3_600)
        await sync_all(store)
        assert await gauge(store, name) == {("main",): begun}

    async def test_differences_of_all_passes_are_counted_by_kind(
        self, store: Store
    ) -> None:
        await run(store, found={Drift.MISSED: 1, Drift.ALIEN: 2})
        await run(store, "incremental", "products", found={Drift.MISSED: 3})
        await run(store, name="other", found={Drift.STALE: 4, Drift.DELETED: 5})
        found = await gauge(store, "drift_rows")
        assert {labels: value for labels, value in found.items() if value} == {
            ("main", "missed"): 4,
            ("main", "foreign"): 2,
            ("other", "stale"): 4,
            ("other", "deleted"): 5,
        }

    async def test_unrepaired_rows_are_those_of_the_last_full_sync_of_each_list(
        self, store: Store
    ) -> None:
        await run(store, unrepaired=9)
        await run(store, unrepaired=2)
        await run(store, kind="products", unrepaired=3)
        await run(store, "backfill", "customers", unrepaired=4)
        await run(store, name="other")
        await begin(store)
        expected = {("main",): 5, ("other",): 0}
        assert await gauge(store, "unrepaired_rows") == expected
        conditions = await store.alert_conditions.current([])
        assert conditions.unrepaired == {"main": 5, "other": 0}
