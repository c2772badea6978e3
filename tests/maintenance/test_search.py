"""The search index finds objects by any word, stays current, never delays a fold."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backhaul.maintenance.search_indexer import YIELD_SECONDS, Indexer, describe
from backhaul.store import database_at
from backhaul.store.read_models import IndexProgress
from scenes import payloads
from scenes.clock import VirtualClock, run_ready_tasks
from scenes.databases import append, append_and_fold, started_store
from scenes.stored import lists, rows_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from backhaul.store import Place, Store
    from backhaul.store.read_models import Describe
    from backhaul.store.read_records import SearchHit

ADDRESS = {"name": "João Ávila", "address1": "12 MG Road", "city": "Pune", "zip": "411"}


@pytest.fixture
async def store(database: Place) -> AsyncIterator[Store]:
    async with started_store(database) as started:
        yield started


async def index(store: Store) -> None:
    while (await store.search.follow(describe, 1.0)).more:
        pass


async def learn(store: Store, topic: str, document: payloads.Document) -> None:
    assert await append_and_fold(store, payloads.envelope(topic, document)) == []
    await index(store)


def found(store: Store, text: str, kind: str | None = None) -> list[str]:
    with database_at(store.place).reader() as known:
        return [hit.id for hit in known.search(text, kind, 10)]


@pytest.mark.parametrize(
    "text",
    ["#1001", "1001", "joao", "ÁVILA", "mg road", "pune 411", "bd1", "ls-s", "LS-S",
     "a@b.example", "linen shirt", "shi lin", "joao avila pune bluedart", "100"],
)  # fmt: skip
async def test_an_order_is_found_by_any_word_of_it(text: str, store: Store) -> None:
    order = payloads.order(shippingAddress=ADDRESS, shipments=[payloads.shipment()])
    await learn(store, "orders/create", order)
    assert found(store, text) == ["ord_1"]


@pytest.mark.parametrize(
    "text", ["asha", "ord_1", "PENDING", "2026", "joao mumbai", "", " ", "nobody"]
)
async def test_text_that_an_object_does_not_contain_finds_nothing(
    text: str, store: Store
) -> None:
    customer = {"id": "cus_1", "name": "Bela", "email": None}
    order = payloads.order(shippingAddress=ADDRESS, customer=customer)
    await learn(store, "orders/create", order)
    assert found(store, text) == []


async def test_a_search_can_be_limited_to_a_kind(store: Store) -> None:
    await learn(store, "orders/create", payloads.order())
    await learn(store, "products/create", payloads.product())
    await learn(store, "customers/create", payloads.customer())
    assert found(store, "linen")[0] == "prod_1"
    assert found(store, "linen", "order") == ["ord_1"]
    assert set(found(store, "asha")) == {"cus_1", "ord_1"}
    assert found(store, "asha", "customer") == ["cus_1"]


async def test_a_changed_object_is_found_by_its_current_text(store: Store) -> None:
    await learn(store, "products/create", payloads.product())
    await learn(store, "products/update", payloads.product(at=2, title="Silk scarf"))
    assert found(store, "silk") == ["prod_1"]
    assert found(store, "linen", "product") == ["prod_1"]  # its handle does not change
    await learn(store, "products/update", payloads.product(at=3, handle="scarf",
                                                           title="Scarf"))  # fmt: skip
    assert found(store, "silk") == found(store, "linen") == []
    await learn(store, "products/delete", payloads.deletion())
    assert found(store, "scarf") == []


async def test_folding_writes_nothing_of_the_index(store: Store) -> None:
    await append_and_fold(store, payloads.envelope("orders/create", payloads.order()))
    assert found(store, "linen") == []
    with database_at(store.place).reader() as known:
        assert known.unindexed() == 1
        await index(store)
        assert known.unindexed() == 0


async def test_a_slice_says_whether_events_wait(store: Store) -> None:
    orders = [payloads.order(f"ord_{n}", number=n) for n in range(70)]
    await append_and_fold(
        store, *(payloads.envelope("orders/create", o) for o in orders)
    )
    assert await store.search.follow(describe, 0.0) == IndexProgress(1, True, False)
    await append(store, [payloads.envelope("orders/create", payloads.order())])
    assert await store.search.follow(describe, 1.0) == IndexProgress(69, False, True)


async def test_a_rebuilt_index_is_the_same(store: Store) -> None:
    await learn(store, "orders/create", payloads.order())
    await learn(store, "products/create", payloads.product())
    before = hits(store)
    assert all(before.values())
    await store.search.rebuild()
    assert not any(hits(store).values())
    await index(store)
    assert hits(store) == before
    assert found(store, "linen", "order") == ["ord_1"]


def hits(store: Store) -> dict[str, list[SearchHit]]:
    """Return the results for each word of each order and product."""
    described = [
        describe(kind, document)
        for kind in ("order", "product")
        for (document,) in rows_of(store.place, f"{kind}s", "document")
    ]
    words = {word for one in described for word in f"{one.title} {one.words}".split()}
    with lists(store.place) as reader:
        return {word: reader.search(word, None, 9) for word in words}


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text() | st.sampled_from(['"', "a OR b", "NEAR(a b)", "a* -b", "x:y"]))
def test_no_text_is_a_mistake(text: str, tmp_path: Path) -> None:
    path = tmp_path / "backhaul.db"
    if not path.exists():
        asyncio.run(_make(path))
    with database_at(path).reader() as known:
        assert isinstance(known.search(text, None, 5), list)


async def _make(path: Path) -> None:
    async with started_store(path) as store:
        await learn(store, "orders/create", payloads.order())


class Endless:
    """An index with endless work, with or without events that wait to be folded."""

    def __init__(self, folding: bool, slices: int) -> None:
        self.folding = folding
        self.left = slices

    async def follow(self, describe: Describe, slice_seconds: float) -> IndexProgress:
        assert slice_seconds <= 0.005
        self.left -= 1
        return IndexProgress(1, self.left > 0, self.folding)

    async def rebuild(self) -> None: ...


@pytest.mark.parametrize(("folding", "done"), [(True, 1), (False, 50)])
async def test_while_events_wait_it_rests_between_slices(
    folding: bool, done: int
) -> None:
    clock = VirtualClock()
    work = Endless(folding, 50)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(Indexer(work, clock).run())
        await run_ready_tasks()
        assert 50 - work.left == done
        await clock.advance(YIELD_SECONDS)
        assert 50 - work.left == min(done + 1, 50)
        running.cancel()


async def test_a_slice_that_ends_early_leaves_the_other_changes_to_the_next(
    store: Store,
) -> None:
    """Otherwise an object would never be found, although nothing failed."""
    orders = [payloads.order(f"ord_{n}") for n in (1, 2, 3)]
    await append(store, (payloads.envelope("orders/create", each) for each in orders))
    assert await append_and_fold(store) == []
    for _ in orders:
        assert (await store.search.follow(describe, 0.0)).indexed == 1
    assert sorted(found(store, "1001")) == [each["id"] for each in orders]
