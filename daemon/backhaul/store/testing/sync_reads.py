"""Tests of the reads that syncs make: versions, what a pass saw, repairs, counts."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from backhaul.core.fold import Drift
from backhaul.core.identity import address_digest
from backhaul.store.inbox import Folded
from backhaul.store.testing.command_scenes import at
from backhaul.store.testing.event_scenes import arrive
from backhaul.store.testing.mirror_scenes import (
    order,
    show,
    show_customer,
    show_gone,
    show_level,
    show_order,
    show_product,
    version,
)
from backhaul.store.testing.scenes import StoreConformance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.store import Store
    from backhaul.store.inbox import MirrorWriter
    from backhaul.store.mirror import Progress
    from backhaul.store.testing.scenes import OpenStore, TestClock

EMAIL = "asha@example.com"
DIGEST = address_digest("main", EMAIL)
REPAIRS_AT_ONCE = 100


async def saw(
    store: Store,
    *ids: str,
    kind: str = "orders",
    name: str = "main",
    events: Sequence[int] = (),
) -> Progress:
    """Let the pass over a list read objects, and repair by these events."""
    progress = await store.passes.begin(name, "full", kind)
    await store.passes.advance(progress, ids, {}, events)
    return progress


async def unseen(
    store: Store, progress: Progress, kind: str = "order", name: str = "main"
) -> list[tuple[str, str]]:
    """Return the objects of the mirror that a pass did not read."""
    return sorted(await store.mirror.unseen(kind, name, progress.pass_id))


async def receive(store: Store, body: bytes) -> int:
    """Append an event and fold it."""
    return await arrive(store, body, folded=Folded("folded", "orders/updated"))


async def repairs(store: Store, progress: Progress) -> list[tuple[int, bytes]]:
    """Return the repairs of a pass, page by page."""
    found: list[tuple[int, bytes]] = []
    last = 0
    while page := await store.mirror.repairs(progress.pass_id, last):
        assert page[0][0] > last
        found += page
        last = page[-1][0]
    return found


class SyncReadsConformance(StoreConformance):
    """Tests of `Store.mirror`."""

    async def test_versions_are_those_of_the_mirror(self, store: Store) -> None:
        for id_ in ("ord_1", "ord_2"):
            await show_order(store, id_, 5)
        await show_order(store, "ord_1", 9, name="other")
        shown = order("ord_1", 5).document
        found = await store.mirror.versions("order", "main", ["ord_1", "ord_9"])
        assert found == {"ord_1": version(5, shown)}
        assert await store.mirror.versions("product", "main", ["ord_1"]) == {}

    async def test_each_kind_has_versions(self, store: Store) -> None:
        await show_product(store, "prod_1", 5)
        await show_level(store, 7, 6)
        await show_customer(store, "cus_1", EMAIL)
        for kind, id_, second in (
            ("product", "prod_1", 5),
            ("level", "var_1", 6),
            ("customer", "cus_1", 0),
        ):
            (found,) = (await store.mirror.versions(kind, "main", [id_])).values()
            assert found.updated_at == version(second, b"").updated_at
            assert (found.sequence, found.delivered) == (second, True)

    async def test_a_read_keeps_its_version(self, store: Store) -> None:
        read = replace(
            version(5, b"x"),
            delivered=False,
            standing=3,
            confirmed_at=version(4, b"").updated_at,
        )

        def write(mirror: MirrorWriter, event: int) -> None:
            mirror.put_order("main", order("ord_1"), read)

        await show(store, "order", "ord_1", write)
        assert await store.mirror.versions("order", "main", ["ord_1"]) == {
            "ord_1": read
        }

    async def test_what_a_pass_did_not_read_is_unseen(self, store: Store) -> None:
        for id_ in ("ord_1", "ord_2", "ord_3"):
            await show_order(store, id_)
        await show_order(store, "ord_4", name="other")
        first = await saw(store, "ord_1", "ord_2")
        assert await unseen(store, first) == [("ord_3", "ord_3")]
        await saw(store, "ord_3", "ord_9")
        assert await unseen(store, first) == []
        await store.passes.end(first.pass_id, 0)
        second = await saw(store, "ord_2")
        expected = [("ord_1", "ord_1"), ("ord_3", "ord_3")]
        assert await unseen(store, second) == expected
        assert await unseen(store, second, name="other") == [("ord_4", "ord_4")]

    async def test_lists_and_stores_are_read_apart(self, store: Store) -> None:
        await show_order(store, "ord_1")
        await show_order(store, "ord_1", name="other")
        await saw(store, "ord_1", kind="products")
        await saw(store, "ord_1", name="other")
        progress = await saw(store)
        assert await unseen(store, progress) == [("ord_1", "ord_1")]
        pass_id = progress.pass_id
        assert not await store.mirror.all_seen("orders", "main", pass_id, ["ord_1"])

    async def test_a_level_is_unseen_by_its_variant_and_fetched_by_its_product(
        self, store: Store
    ) -> None:
        for product in ("prod_1", "prod_2"):
            await show_level(store, 7, product=product)
        progress = await saw(store, "var_1", kind="levels")
        assert await unseen(store, progress, "level") == [("var_2", "prod_2")]

    async def test_a_deleted_product_is_neither_unseen_nor_counted(
        self, store: Store
    ) -> None:
        for id_ in ("prod_1", "prod_2"):
            await show_product(store, id_)
        await show_gone(store, "product", "prod_1", 5)
        progress = await saw(store, kind="products")
        assert await unseen(store, progress, "product") == [("prod_2", "prod_2")]
        assert await store.mirror.count("product", "main") == 1

    async def test_a_pass_has_seen_all_of_these_or_not(self, store: Store) -> None:
        progress = await saw(store, "ord_1", "ord_2")
        for ids, expected in (
            (["ord_1"], True),
            (["ord_1", "ord_2", "ord_1"], True),
            (["ord_1", "ord_3"], False),
            ([], True),
        ):
            found = await store.mirror.all_seen("orders", "main", progress.pass_id, ids)
            assert found is expected
        await store.passes.end(progress.pass_id, 0)
        later = await saw(store, "ord_2")
        seen = store.mirror.all_seen("orders", "main", later.pass_id, ["ord_1"])
        assert not await seen

    async def test_what_a_pass_saw_lasts_over_a_start(
        self, store: Store, open_store: OpenStore
    ) -> None:
        for id_ in ("ord_1", "ord_2"):
            await show_order(store, id_)
        progress = await saw(store, "ord_1")
        again = await open_store()
        assert await unseen(again, progress) == [("ord_2", "ord_2")]

    async def test_repairs_are_the_events_of_a_pass_in_their_order(
        self, store: Store
    ) -> None:
        events = [await receive(store, b"%d" % number) for number in range(3)]
        progress = await saw(store, events=[events[2], events[0]])
        await saw(store, events=[events[0]])
        other = await saw(store, kind="products", events=[events[1]])
        assert await repairs(store, progress) == [(events[0], b"0"), (events[2], b"2")]
        await store.passes.end(progress.pass_id, 0)
        assert await repairs(store, progress) == []
        assert await repairs(store, other) == [(events[1], b"1")]

    async def test_all_repairs_are_read_though_not_at_once(self, store: Store) -> None:
        events = [await receive(store, b"x") for _ in range(3)]
        missing = range(events[-1] + 1, events[-1] + REPAIRS_AT_ONCE)
        progress = await saw(store, events=[*events, *missing])
        first = await store.mirror.repairs(progress.pass_id, 0)
        assert len(first) < len(events) + len(missing)
        found = await repairs(store, progress)
        assert [event for event, _ in found] == [*events, *missing]

    async def test_the_body_of_an_erased_repair_is_empty(
        self, store: Store, clock: TestClock
    ) -> None:
        event = await receive(store, b"body")
        progress = await saw(store, events=[event])
        clock.advance(60)
        while (await store.retention.prune(at(clock), 1.0)).more:
            pass
        assert await repairs(store, progress) == [(event, b"")]

    async def test_objects_are_counted_by_kind_and_store(self, store: Store) -> None:
        for id_ in ("ord_1", "ord_2", "ord_2"):
            await show_order(store, id_)
        await show_order(store, "ord_1", name="other")
        await show_level(store, 7)
        await show_customer(store, "cus_1", EMAIL)
        for kind, name, expected in (
            ("order", "main", 2),
            ("order", "other", 1),
            ("level", "main", 1),
            ("customer", "main", 1),
            ("customer", "other", 0),
        ):
            assert await store.mirror.count(kind, name) == expected

    async def test_moves_that_the_ledger_lacks_are_unknown(self, store: Store) -> None:
        await show_level(store, 7, 1, adjustment="adj_1", delta=-2)
        await show_level(store, 7, 1, adjustment="adj_2", delta=-2, name="other")
        known, unknown = ("adj_1", "var_1"), {("adj_1", "var_2"), ("adj_2", "var_1")}
        found = await store.mirror.unknown_moves("main", [known, *unknown])
        assert found == unknown
        assert await store.mirror.unknown_moves("main", []) == set()

    async def test_an_erased_customer_is_known(self, store: Store) -> None:
        await show_customer(store, "cus_1", EMAIL)
        trace = await store.erasure.find_customer("main", "cus_1", ())
        assert trace is not None
        assert not await store.mirror.is_erased("main", "cus_1", DIGEST)
        await store.erasure.register("main", trace, [DIGEST])
        for name, customer, digest, expected in (
            ("main", "cus_1", None, True),
            ("main", None, DIGEST, True),
            ("main", "cus_2", b"other", False),
            ("other", "cus_1", None, False),
        ):
            assert await store.mirror.is_erased(name, customer, digest) is expected

    async def test_a_key_value_is_read_beside_the_writer(self, store: Store) -> None:
        assert await store.mirror.get("word") is None
        await store.kv.put("word", "one")
        assert await store.mirror.get("word") == "one"
        assert await store.mirror.get("wor") is None

    async def test_the_last_pass_of_each_job_and_list_is_known(
        self, store: Store
    ) -> None:
        expected = []
        for job, kind in (("full", "orders"), ("backfill", "orders"), ("full", "x")):
            for number in range(2):
                progress = await store.passes.begin("main", job, kind)
                await store.passes.advance(progress, [], {Drift.MISSED: number})
                ended = await store.passes.end(progress.pass_id, 0)
            expected.append(ended)
            await store.passes.begin("main", job, kind)
            other = await store.passes.begin("other", job, kind)
            await store.passes.end(other.pass_id, 0)
        found = await store.mirror.last_passes("main")
        assert sorted(found, key=lambda each: each.id) == expected
