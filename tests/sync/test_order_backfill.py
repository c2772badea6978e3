"""A backfill of orders since a day, at the request of an operator."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from backhaul.errors import BackhaulError
from scenes import payloads
from scenes.scripted_platform import document, message
from scenes.stored import rows_of, values_of
from scenes.waiting import HANG_SECONDS
from sync import conftest
from sync.conftest import reconciling
from sync.test_polling import Changing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from backhaul.sync.sync_scheduler import Reconciler
    from sync.conftest import Place

MARK = "orders_since:main"


@asynccontextmanager
async def running(reconciler: Reconciler) -> AsyncIterator[None]:
    """Run the backfill of orders in the background."""
    task = asyncio.ensure_future(reconciler.orders.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until_read(place: Place) -> None:
    async with asyncio.timeout(HANG_SECONDS):
        while await place.store.kv.get(MARK) != "":
            pass  # each read of the database lets the backfill continue


def mirrored(place: Place) -> list[str]:
    return sorted(values_of(place.store.place, "orders", "id"))


async def test_orders_are_read_since_a_time(place: Place) -> None:
    place.platform.respond("/orders", Changing(9, changes=0))
    polled = payloads.instant(6)
    await place.store.kv.put("polled:main:orders", polled)
    async with reconciling(place) as reconciler, running(reconciler):
        await reconciler.orders.request(payloads.instant(5))
        await until_read(place)
        ended = await reconciler.repair.lookup.last_passes("main")
    assert mirrored(place) == ["ord_5", "ord_6", "ord_7", "ord_8"]
    (found,) = ended
    assert (found.job, found.kind, found.missed) == ("since", "orders", 4)
    assert found.note == f"since {payloads.instant(5)}"
    # The next poll continues where the last one ended.
    assert await place.store.kv.get("polled:main:orders") == polled


async def test_a_first_backfill_still_reads_the_whole_list(place: Place) -> None:
    orders = [payloads.order(f"ord_{n}", n, number=n) for n in range(3)]
    place.platform.respond("/orders", Changing(3, changes=0))
    async with reconciling(place) as reconciler:
        async with running(reconciler):
            await reconciler.orders.request(payloads.instant(2))
            await until_read(place)
        page = document({"data": orders, "meta": {"total": 3, "hasMore": False}})
        place.platform.respond("/orders", page)
        await reconciler.backfill()
    assert mirrored(place) == ["ord_0", "ord_1", "ord_2"]


async def test_the_earliest_of_several_times_counts(place: Place) -> None:
    place.platform.respond("/orders", Changing(6, changes=0))
    async with reconciling(place) as reconciler:
        for second in (4, 2, 5):
            await reconciler.orders.request(payloads.instant(second))
        async with running(reconciler):
            await until_read(place)
    assert mirrored(place) == ["ord_2", "ord_3", "ord_4", "ord_5"]


async def test_a_request_at_the_end_of_a_pass_is_not_lost(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.platform.respond("/orders", Changing(6, changes=0))
    put, marks = place.store.kv.put, list[asyncio.Task[None]]()

    async with reconciling(place) as reconciler:

        async def put_late(key: str, value: str) -> None:
            if (key, value) == (MARK, "") and not marks:
                again = reconciler.orders.request(payloads.instant(2))
                marks.append(asyncio.ensure_future(again))
                for _ in range(100):
                    await asyncio.sleep(0)
            await put(key, value)

        monkeypatch.setattr(place.store.kv, "put", put_late)
        await reconciler.orders.request(payloads.instant(4))
        async with running(reconciler), asyncio.timeout(HANG_SECONDS):
            while mirrored(place) != ["ord_2", "ord_3", "ord_4", "ord_5"]:
                await place.store.kv.get(MARK)
        await asyncio.gather(*marks)


async def test_the_order_backfill_continues_after_a_failure_and_a_restart(
    place: Place,
) -> None:
    place.platform.respond(
        "/orders", message(503), message(503), Changing(6, changes=0)
    )
    async with reconciling(place) as reconciler:
        await reconciler.orders.request(payloads.instant(4))
    async with reconciling(place) as reconciler, running(reconciler):
        await until_read(place)
    assert mirrored(place) == ["ord_4", "ord_5"]
    assert len(place.server.requests) > 2


async def test_the_orders_are_counted_first(place: Place) -> None:
    page = document({"data": [payloads.order("ord_1")], "meta": {"total": 41}})
    place.platform.respond("/orders", page)
    async with reconciling(place) as reconciler:
        assert await reconciler.orders.count(payloads.instant(1)) == 41
    assert rows_of(place.store.place, "orders", "id") == []
    (asked,) = place.server.requests
    assert "limit=1" in asked.query
    assert "updatedSince=" in asked.query


async def test_a_platform_that_cannot_list_by_time_is_named(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conftest, "FACTS", replace(conftest.FACTS, features=()))
    async with reconciling(place) as reconciler:
        for ask in (reconciler.orders.count, reconciler.orders.request):
            with pytest.raises(BackhaulError, match="start a full sync"):
                await ask(payloads.instant(1))
    assert await place.store.kv.get(MARK) is None
